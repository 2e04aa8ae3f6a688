//! The life of a request, in order: route → clients → auth → limit → validate → record → map →
//! handler → map → validate → compress → client.
//!
//! Stages take what they need and return what they found; [`stages`] puts that into the Exchange.
//! Serving a request and explaining it differ in their [`Effects`].

mod authentication;
mod local_reply;
mod routing;
mod serve;

pub(crate) use authentication::Authentication;
pub(crate) use local_reply::reject;

use crate::auth::{Missing, Principal};
use crate::body::RequestBody;
use crate::compress::{self, Decision};
use crate::console_cookie;
use crate::cors;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::handler;
use crate::handler::script::{self, Mapped};
use crate::headers::apply_edits;
use crate::limit::{Caller, LimitPlan, LimitRejection, LimitStatus, Moment, RouteLimits};
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::site::Site;
use crate::stats::WorkerStats;
use crate::validate::Findings;
use crate::worker::Live;
use crate::{transform, validate};
use routing::Destination;
use serve::Serve;
use std::net::IpAddr;
use std::rc::Rc;
use weir_config::expr::Scope;
use weir_config::validation::{Enforcement, Validation};
use weir_config::{BodyMap, Compression, Route};
use weir_journal::stage;
use weir_wire::{Headers, Method, RequestHead, ResponseHead};

/// The client went away before there was a response.
pub(crate) struct ClientClosed;

/// Responds to a request. Whatever happens, there is a response for the client, with its head in
/// `exchange.response`; unless the client is gone.
pub(crate) async fn flow<'a>(
    exchange: &mut Exchange,
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, ClientClosed> {
    let body = match stages(exchange, body, &mut Serve).await {
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

    /// The request comes to a stage.
    fn reach(&mut self, stage: Stage);

    /// Fetches what a credential needs from an authorization server. Says whether to try again.
    async fn fetch_missing(&mut self, of: &Authentication<'_>, missing: Missing) -> bool;

    /// Counts a failed authentication of the client.
    ///
    /// # Errors
    /// Too many have failed; the seconds until another may be tried, at least 1.
    fn count_failure(&mut self, of: &Authentication<'_>) -> Result<(), u64>;

    /// Decides by the plan of the caller and the limits of the route.
    ///
    /// # Errors
    /// The limit that rejects the request.
    fn limit(
        &mut self,
        plan: &LimitPlan,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
    ) -> Result<Option<LimitStatus>, LimitRejection>;

    /// The request has passed every policy: its record begins, or is described.
    ///
    /// # Errors
    /// The journal is full, and requests are to be rejected then.
    fn admit(
        &mut self,
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem>;

    /// Has the handler of the route respond, or says what it would send.
    async fn handle<'a>(
        &mut self,
        exchange: &mut Exchange,
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

/// Brings a request from its route to its response; `fx` says whether it is served or explained.
pub(crate) async fn stages<'a, E: Effects>(
    exchange: &mut Exchange,
    mut body: RequestBody<'a>,
    fx: &mut E,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let site = &*live.site;
    check_expectation(&exchange.request)?;
    fx.reach(Stage::Route);
    let Exchange { request, response, host, .. } = &mut *exchange;
    let (api, found) = routing::find(site, host, request, response);
    exchange.api = api;
    let at = match found? {
        Destination::Route(at) => at,
        Destination::Options => return Ok(ResponseBody::Empty),
    };
    exchange.route = Some(at);
    let route = &site.config.apis[at.0].routes[at.1];
    exchange.set_timeout(route.timeout);
    exchange.recording.found(route);

    fx.reach(Stage::Clients);
    check_client(route, exchange.client.address)?;
    fx.reach(Stage::Auth);
    let now = exchange.worker.shared.limiter.moment(exchange.started, exchange.unix);
    exchange.principal = Some(authenticate(exchange, &live, route, now, fx).await?);
    fx.reach(Stage::Limit);
    limit(exchange, site, &site.route(at).limits, now, fx)?;
    fx.reach(Stage::BodySize);
    body.limit(route.body_limit)?;
    fx.reach(Stage::Validation);
    if let Some(validation) = &route.validation {
        body = validate_request(exchange, validation, body).await?;
    }
    let is_replay = exchange.resubmission.is_some();
    exchange.selection = handler::select(&route.handler, || exchange.view(), is_replay);
    fx.admit(exchange, route, &mut body)?;
    exchange.admitted = true;
    fx.reach(Stage::RequestMap);
    if let Some(map) = &route.request_map {
        body = match map_request::<E>(exchange, map, body).await? {
            Mapped::Request(body) => body,
            Mapped::Response(body) => {
                fx.reach(Stage::Over);
                return Ok(finish(exchange, site, route, body));
            }
        };
    }
    fx.reach(Stage::Handler);
    let mut body = match fx.handle(exchange, route, body).await? {
        Handled::Response(body) => body,
        Handled::Final(body) => return Ok(body),
    };
    if let Some(limit) = route.answer_limit {
        body = body.within(limit)?;
    }
    fx.reach(Stage::ResponseMap);
    if let Some(map) = &route.response_map {
        body = map_response::<E>(exchange, route, map, body).await?;
    }
    fx.reach(Stage::ResponseValidation);
    if let Some(validation) = &route.validation {
        body = validate_response(exchange, validation, route.body_limit, body).await?;
    }
    fx.reach(Stage::Over);
    Ok(finish(exchange, site, route, body))
}

/// 417 for what cannot be expected of weir.
fn check_expectation(request: &RequestHead) -> Result<(), Rejection> {
    match request.expects_continue() {
        Some(false) => Err(Problem::ExpectationFailed.into()),
        _ => Ok(()),
    }
}

/// 403 for a client whose address the route does not admit.
fn check_client(route: &Route, address: IpAddr) -> Result<(), Rejection> {
    match route.clients.iter().all(|clients| clients.admits(address)) {
        true => Ok(()),
        false => Err(Problem::AddressRefused.into()),
    }
}

/// The principal of a request.
async fn authenticate<E: Effects>(
    exchange: &mut Exchange,
    live: &Rc<Live>,
    route: &Route,
    now: Moment,
    fx: &mut E,
) -> Result<Rc<Principal>, Rejection> {
    if let Some(replay) = &exchange.resubmission {
        // Verified when it was recorded. That the route admits it now was checked.
        return Ok(Rc::clone(&replay.principal));
    }
    let authentication = Authentication {
        live,
        route,
        request: &exchange.request,
        certificate: exchange.certificate.as_deref(),
        address: exchange.client.address,
        started: exchange.started,
        now,
    };
    let principal = authentication.run(fx, &exchange.worker.stats.auth_throttled).await?;
    if !route.access.any_of.is_empty() {
        exchange.recording.stage_ended(stage::AUTH, exchange.started);
    }
    Ok(principal)
}

/// Admits the request by the consumer's plan and the limits of API and route.
fn limit<E: Effects>(
    exchange: &mut Exchange,
    site: &Site,
    limits: &RouteLimits,
    now: Moment,
    fx: &mut E,
) -> Result<(), Rejection> {
    let caller = Caller { consumer: exchange.consumer(), address: exchange.client.address };
    let scope = || exchange.view().scope();
    let decision = fx.limit(&site.limits, limits, &caller, scope, now);
    let limit_status = match decision {
        Ok(limit_status) => limit_status,
        Err(rejection) => {
            exchange.limit_status = Some(rejection.limit_status);
            return Err(beyond_limit(&site.limits, rejection, &exchange.worker.stats));
        }
    };
    exchange.limit_status = limit_status;
    if limit_status.is_some() {
        exchange.recording.stage_ended(stage::LIMIT, exchange.started);
    }
    exchange.count_admitted();
    Ok(())
}

/// 429 for a request beyond a limit.
fn beyond_limit(plan: &LimitPlan, rejection: LimitRejection, stats: &WorkerStats) -> Rejection {
    let LimitRejection { problem, limit_status } = rejection;
    let over_quota = problem == Problem::QuotaExhausted;
    let counter = if over_quota { &stats.over_quota } else { &stats.limited };
    counter.add(1);
    let wait = limit_status.retry_after.unwrap_or_default();
    let limit = plan.policy_of(&limit_status);
    let why = format!("limit {limit} is exhausted; retry after {wait} s");
    Rejection::new(problem).recorded(why)
}

/// Checks a request against the description of its API.
async fn validate_request<'a>(
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

/// Checks a response against the description of its API.
async fn validate_response<'a>(
    exchange: &mut Exchange,
    validation: &Validation,
    limit: u64,
    body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    if validation.responses == Enforcement::Off {
        return Ok(body);
    }
    let mut found = Findings::default();
    let checked = validate::response(exchange.split(), validation, limit, body, &mut found);
    let checked = Box::pin(checked).await;
    note_findings(exchange, "response", found);
    checked
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

/// Maps a request on its way to the handler.
async fn map_request<'a, E: Effects>(
    exchange: &mut Exchange,
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
            let mut input = exchange.handler_input();
            Box::pin(script::map_request(&mut input, script, body)).await?
        }
    };
    exchange.recording.stage_ended(stage::REQUEST_MAP, begun);
    Ok(mapped)
}

/// Maps the response of the handler.
async fn map_response<'a, E: Effects>(
    exchange: &mut Exchange,
    route: &Route,
    map: &BodyMap,
    body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let body = match map {
        BodyMap::Structure(one) => {
            Box::pin(transform::response(exchange.split(), one, route.body_limit, body)).await?
        }
        BodyMap::Script(_) if !E::CALLS_SCRIPTS => body,
        BodyMap::Script(script) => {
            let mut input = exchange.handler_input();
            Box::pin(script::map_response(&mut input, script, body)).await?
        }
    };
    exchange.recording.stage_ended(stage::RESPONSE_MAP, exchange.started);
    Ok(body)
}

/// Applied to every response of a route: header edits, compression, limit headers, CORS.
fn finish<'a>(
    exchange: &mut Exchange,
    site: &Site,
    route: &Route,
    body: ResponseBody<'a>,
) -> ResponseBody<'a> {
    let Exchange { request, response, limit_status, api, .. } = exchange;
    apply_edits(&mut response.headers, &route.response_headers);
    let body = compress(&route.compress, request, response, body);
    write_limits(&site.limits, *limit_status, response);
    allow_origin(site, *api, &request.headers, &mut response.headers);
    body
}

fn compress<'a>(
    settings: &Compression,
    request: &RequestHead,
    response: &mut ResponseHead,
    body: ResponseBody<'a>,
) -> ResponseBody<'a> {
    let answer = compress::Candidate {
        status: response.status,
        headers: &response.headers,
        length: body.length(),
        head: request.method == Method::Head,
    };
    let decision = compress::decide(settings, &request.headers, &answer);
    let (body, done) = match decision {
        Decision::Plain | Decision::PlainVaries => (body, decision),
        Decision::Encode(coding) => match body.encode(coding, settings.level) {
            Ok(body) => (body, decision),
            Err(body) => (body, Decision::PlainVaries),
        },
    };
    compress::mark(done, &mut response.headers);
    body
}

/// Writes the status of the caller's limits.
fn write_limits(plan: &LimitPlan, limit_status: Option<LimitStatus>, response: &mut ResponseHead) {
    if let Some(limit_status) = limit_status {
        plan.write_headers(&limit_status, &mut Vec::new(), &mut response.headers);
    }
}

/// Writes which origins may read the response, by the rules of the API.
fn allow_origin(site: &Site, api: Option<usize>, request: &Headers, response: &mut Headers) {
    if let Some(settings) = api.and_then(|api| site.config.apis[api].cors.as_ref()) {
        cors::respond(settings, request, response);
    }
}
