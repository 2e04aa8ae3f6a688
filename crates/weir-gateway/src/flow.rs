//! The life of a request, in order: route → clients → auth → limit → validate → record → map →
//! handler → map → validate → compress → client.
//!
//! The stages know nothing of each other; what they share is the Exchange. Serving a request and
//! explaining it differ in their [`Effects`].

mod authentication;
mod local_reply;
mod routing;

pub(crate) use local_reply::reject;

use crate::body::{BodyTap, RequestBody};
use crate::calls;
use crate::compress::{self, Decision};
use crate::console_cookie;
use crate::cors;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::headers::apply_edits;
use crate::limit::{Caller, Moment};
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::response_cache::{self, Lookup};
use crate::script::Mapped;
use crate::validate::Findings;
use crate::worker::Live;
use crate::{files, pool, proxy, reply, script, transform, validate};
use std::rc::Rc;
use weir_config::validation::{Enforcement, Validation};
use weir_config::{BodyMap, Handler, Route};
use weir_journal::stage;
use weir_wire::Method;

/// The client went away before there was an answer to give.
pub(crate) struct ClientClosed;

/// Answers a request. Whatever happens, there is an answer for the client, with its head in
/// `exchange.response`; unless the client is gone.
pub(crate) async fn flow<'a>(
    exchange: &mut Exchange,
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, ClientClosed> {
    let body = match stages::<Serve>(exchange, body).await {
        Ok(body) => body,
        Err(rejection) if rejection.client_closed => return Err(ClientClosed),
        Err(rejection) => reject(exchange, rejection),
    };
    console_cookie::strip_response(&mut exchange.response.headers);
    Ok(body)
}

/// What serving a request and explaining it do differently.
pub(crate) trait Effects {
    /// Scripts that map are called.
    const CALLS_SCRIPTS: bool;

    /// The request has passed every policy: its record begins, or is described.
    ///
    /// # Errors
    /// The journal is full, and requests are to be rejected then.
    fn admit(
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem>;

    /// Has the handler of the route respond, or says what it would send.
    async fn handle<'a>(
        exchange: &mut Exchange,
        live: &Live,
        route: &Route,
        body: RequestBody<'a>,
    ) -> Result<Handled<'a>, Rejection>;
}

/// What has come of a handler.
pub(crate) enum Handled<'a> {
    /// A response, its head in the exchange.
    Response(ResponseBody<'a>),
    /// What is not to be changed any more: the connection becomes something else, or there is none.
    Final(ResponseBody<'a>),
}

/// The effects of serving.
struct Serve;

impl Effects for Serve {
    const CALLS_SCRIPTS: bool = true;

    fn admit(
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem> {
        body.record(begin_recording(exchange, route, body)?);
        Ok(())
    }

    async fn handle<'a>(
        exchange: &mut Exchange,
        live: &Live,
        route: &Route,
        body: RequestBody<'a>,
    ) -> Result<Handled<'a>, Rejection> {
        let found = match &route.cache {
            Some(settings) => Box::pin(response_cache::lookup(exchange, settings, &body)).await,
            None => Lookup::Bypass,
        };
        let fill = match found {
            Lookup::Hit(body) => return Ok(Handled::Response(body)),
            Lookup::Fill(fill) => Some(fill),
            Lookup::Bypass => None,
        };
        let mut body = match &route.handler {
            Handler::Reply(_) | Handler::Files(_) => {
                respond_locally(exchange, live, route, body).await?
            }
            Handler::Pool(handler) => {
                Box::pin(pool::answer(exchange, route, handler, body)).await?
            }
            Handler::Proxy(proxy) => proxy::forward(exchange, route, proxy, body).await?,
            Handler::Calls(calls) => Box::pin(calls::answer(exchange, route, calls, body)).await?,
            Handler::Script(script) => script::answer(exchange, route, script, body).await?,
        };
        if exchange.upgraded.is_some() {
            return Ok(Handled::Final(body));
        }
        if let Some(fill) = fill {
            body = fill.store(exchange, body);
        }
        response_cache::invalidate(exchange);
        Ok(Handled::Response(body))
    }
}

/// Responds without another program, by `reply` and `files`.
pub(crate) async fn respond_locally<'a>(
    exchange: &mut Exchange,
    live: &Live,
    route: &Route,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let at = exchange.route.ok_or(Problem::Internal)?;
    match &route.handler {
        Handler::Reply(reply) => {
            let plan = live.site.route(at).reply.as_ref().ok_or(Problem::Internal)?;
            reply::answer(exchange.split(), reply, plan, body).await
        }
        _ => {
            let root = live.route(at).files.as_ref().ok_or(Problem::Internal)?;
            body.drop_at_hand()?;
            files::index_paths(exchange.request.path(), root)
                .try_for_each(|path| exchange.admit_name(&path))?;
            files::respond(exchange.split(), route, root).await
        }
    }
}

/// Brings a request from its route to its response; `E` says whether it is served or explained.
pub(crate) async fn stages<'a, E: Effects>(
    exchange: &mut Exchange,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    expectation(exchange)?;
    exchange.reach(Stage::Route);
    if let Some(answer) = routing::route(exchange)? {
        return Ok(answer);
    }
    let live = Rc::clone(exchange.live());
    let (api, index) = exchange.route.ok_or(Problem::NoRoute)?;
    let route = &live.site.config.apis[api].routes[index];
    exchange.set_timeout(route.timeout);
    exchange.recording.found(route);

    exchange.reach(Stage::Clients);
    if !route.clients.iter().all(|clients| clients.admits(exchange.client.address)) {
        return Err(Problem::AddressRefused.into());
    }
    exchange.reach(Stage::Auth);
    authentication::authenticate(exchange, route).await?;
    exchange.reach(Stage::Limit);
    limit(exchange)?;
    exchange.reach(Stage::BodySize);
    body.limit(route.body_limit)?;
    exchange.reach(Stage::Validation);
    if let Some(validation) = &route.validation {
        body = validated(exchange, validation, body).await?;
    }
    if let Handler::Proxy(proxy) = &route.handler {
        exchange.instead = proxy::instead(exchange, proxy);
        exchange.mirrors = proxy::mirror::meant(exchange, proxy);
    }
    E::admit(exchange, route, &mut body)?;
    exchange.admitted = true;
    exchange.reach(Stage::RequestMap);
    if let Some(map) = &route.request_map {
        body = match map_request::<E>(exchange, route, map, body).await? {
            Mapped::Request(body) => body,
            Mapped::Answer(body) => return Ok(finish(exchange, route, body)),
        };
    }
    exchange.reach(Stage::Handler);
    let mut body = match E::handle(exchange, &live, route, body).await? {
        Handled::Response(body) => body,
        Handled::Final(body) => return Ok(body),
    };
    if let Some(limit) = route.answer_limit {
        body = body.within(limit)?;
    }
    exchange.reach(Stage::ResponseMap);
    if let Some(map) = &route.response_map {
        body = match map {
            BodyMap::Structure(one) => {
                Box::pin(transform::response(exchange.split(), one, route.body_limit, body)).await?
            }
            BodyMap::Script(_) if !E::CALLS_SCRIPTS => body,
            BodyMap::Script(script) => {
                Box::pin(script::map_response(exchange, route, script, body)).await?
            }
        };
        exchange.recording.stage_ended(stage::RESPONSE_MAP, exchange.started);
    }
    exchange.reach(Stage::ResponseValidation);
    if let Some(validation) = route.validation.as_ref().filter(|v| v.responses != Enforcement::Off)
    {
        let (mut found, limit) = (Findings::default(), route.body_limit);
        let checked = validate::response(exchange.split(), validation, limit, body, &mut found);
        let checked = Box::pin(checked).await;
        note_findings(exchange, "response", found);
        body = checked?;
    }
    Ok(finish(exchange, route, body))
}

/// Checks a request against the description of its API.
async fn validated<'a>(
    exchange: &mut Exchange,
    validation: &Validation,
    body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Rejection> {
    let begun = exchange.recording.mark().unwrap_or(exchange.started);
    let mut found = Findings::default();
    let (request, deadline) = (exchange.view(), &exchange.deadline);
    let checked = validate::request(&request, deadline, validation, body, &mut found).await;
    note_findings(exchange, "request", found);
    let body = checked?;
    exchange.recording.stage_ended(stage::VALIDATE, begun);
    Ok(body)
}

/// Maps a request on its way to the handler.
async fn map_request<'a, E: Effects>(
    exchange: &mut Exchange,
    route: &Route,
    map: &BodyMap,
    body: RequestBody<'a>,
) -> Result<Mapped<'a>, Rejection> {
    let begun = exchange.recording.mark().unwrap_or(exchange.started);
    let mapped = match map {
        BodyMap::Structure(one) => {
            let (request, deadline) = (exchange.view(), &exchange.deadline);
            let built = transform::build(&request, deadline, one, 0, body);
            let (mapped, content_type) = Box::pin(built).await?;
            exchange.request.headers.set("content-type", content_type.as_bytes());
            Mapped::Request(RequestBody::whole(mapped))
        }
        // It may send requests to upstreams.
        BodyMap::Script(_) if !E::CALLS_SCRIPTS => Mapped::Request(body),
        BodyMap::Script(script) => {
            Box::pin(script::map_request(exchange, route, script, body)).await?
        }
    };
    exchange.recording.stage_ended(stage::REQUEST_MAP, begun);
    Ok(mapped)
}

/// Counts and notes what validation found of a `request` or a `response`.
fn note_findings(exchange: &mut Exchange, side: &'static str, found: Findings) {
    let (worker, count) = (exchange.worker, found.over_budget.len() as u64);
    let stats = &worker.stats;
    let (invalid, over_budget) = match side {
        "request" => (&stats.invalid_requests, &stats.validation_over_budget_requests),
        _ => (&stats.invalid_responses, &stats.validation_over_budget_responses),
    };
    invalid.add(found.invalid);
    over_budget.add(count);
    for violation in &found.over_budget {
        worker.over_budget.add(&exchange.view(), side, violation);
    }
    if !found.notes.is_empty() {
        exchange.notes.get_or_insert_default().logs.extend(found.notes);
    }
}

/// What is done to every answer.
fn finish<'a>(exchange: &mut Exchange, route: &Route, body: ResponseBody<'a>) -> ResponseBody<'a> {
    exchange.reach(Stage::Over);
    apply_edits(&mut exchange.response.headers, &route.response_headers);
    let body = compress(exchange, route, body);
    tell_limits(exchange);
    share(exchange);
    body
}

/// 417 for what cannot be expected of weir.
fn expectation(exchange: &Exchange) -> Result<(), Rejection> {
    match exchange.request.expects_continue() {
        Some(false) => Err(Problem::ExpectationFailed.into()),
        _ => Ok(()),
    }
}

/// When the request came, as limits want it.
fn moment(exchange: &Exchange) -> Moment {
    exchange.worker.shared.limiter.moment(exchange.started, exchange.unix)
}

/// Admits the request by the consumer's plan and the limits of API and route.
fn limit(exchange: &mut Exchange) -> Result<(), Rejection> {
    let live = Rc::clone(exchange.live());
    let Some((api, route)) = exchange.route else { return Err(Problem::Internal.into()) };
    let (consumer, address) = (exchange.consumer(), exchange.client.address);
    let caller = Caller { api, route, consumer, address };
    let limits = &live.site.limits;
    let now = moment(exchange);
    let (config, scope) = (&live.site.config, || exchange.view().scope());
    let outcome = match &exchange.trace {
        None => limits.admit(config, &caller, scope, now),
        Some(trace) => limits.peek(config, &caller, scope, now, &trace.peeked),
    };
    match outcome {
        Ok(admission) => {
            exchange.limit_status = admission.limit_status;
            if admission.limit_status.is_some() {
                exchange.recording.stage_ended(stage::LIMIT, exchange.started);
            }
            exchange.count_admitted();
            Ok(())
        }
        Err(rejection) => {
            exchange.limit_status = Some(rejection.limit_status);
            let stats = &exchange.worker.stats;
            let over_quota = rejection.problem == Problem::QuotaExhausted;
            let counter = if over_quota { &stats.over_quota } else { &stats.limited };
            counter.add(1);
            let wait = rejection.limit_status.retry_after.unwrap_or_default();
            let limit = limits.policy_of(&rejection.limit_status);
            let why = format!("limit {limit} is exhausted; retry after {wait} s");
            Err(Rejection::new(rejection.problem).recorded(why))
        }
    }
}

/// Begins the record of what was admitted. Where there is no room for one and it must not be served
/// without, nothing is counted of it, so its place in the quota is given back.
fn begin_recording(
    exchange: &mut Exchange,
    route: &Route,
    body: &RequestBody<'_>,
) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
    let begun = exchange.begin_record(route, body.framing());
    if begun.is_err() {
        let now = moment(exchange);
        exchange.live().site.limits.give_back_quota(exchange.consumer(), now);
        // The limit status is outdated.
        exchange.limit_status = None;
    }
    begun
}

/// Tells how the client stands with its limits.
fn tell_limits(exchange: &mut Exchange) {
    if let Some(limit_status) = exchange.limit_status {
        let live = Rc::clone(exchange.live());
        let headers = &mut exchange.response.headers;
        live.site.limits.write_headers(&limit_status, &mut Vec::new(), headers);
    }
}

fn compress<'a>(
    exchange: &mut Exchange,
    route: &Route,
    body: ResponseBody<'a>,
) -> ResponseBody<'a> {
    let response = &mut exchange.response;
    let answer = compress::Candidate {
        status: response.status,
        headers: &response.headers,
        length: body.length(),
        head: exchange.request.method == Method::Head,
    };
    let decision = compress::decide(&route.compress, &exchange.request.headers, &answer);
    let (body, done) = match decision {
        Decision::Plain | Decision::PlainVaries => (body, decision),
        Decision::Encode(coding) => match body.encode(coding, route.compress.level) {
            Ok(body) => (body, decision),
            Err(body) => (body, Decision::PlainVaries),
        },
    };
    compress::mark(done, &mut response.headers);
    body
}

/// Says which origins may read the answer.
fn share(exchange: &mut Exchange) {
    let Some(api) = exchange.api else { return };
    let live = Rc::clone(exchange.live());
    if let Some(settings) = &live.site.config.apis[api].cors {
        cors::respond(settings, &exchange.request.headers, &mut exchange.response.headers);
    }
}
