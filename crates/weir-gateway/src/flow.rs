//! The life of a request, in order: route → clients → auth → limit → validate → record → map →
//! handler → map → validate → compress → client.
//!
//! The stages know nothing of each other; what they share is the Exchange. Serving a request and
//! explaining it differ in their [`Effects`].

use crate::auth::{self, AuthFailure, FailureKind};
use crate::authorization_server;
use crate::body::{BodyTap, RequestBody};
use crate::calls;
use crate::compress::{self, Decision};
use crate::console_cookie;
use crate::cors;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::grpc;
use crate::headers::apply_edits;
use crate::limit::{Caller, Moment};
use crate::path::{self, Ambiguity, Normal};
use crate::problem::{Detail, Problem, ProblemFormat};
use crate::refusal::Refusal;
use crate::response_body::Body;
use crate::response_cache::{self, Looked};
use crate::route::Found;
use crate::script::Mapped;
use crate::validate::Findings;
use crate::worker::Live;
use crate::{files, pool, proxy, reply, script, transform, validate};
use bytes::Bytes;
use std::borrow::Cow;
use std::rc::Rc;
use weir_config::validation::Enforcement;
use weir_config::{AuthId, BodyMap, Config, Handler, Route};
use weir_journal::stage;
use weir_wire::{Known, Method};

/// The client went away before there was an answer to give.
pub(crate) struct Gone;

/// Answers a request. Whatever happens, there is an answer for the client, with its head in
/// `exchange.response`; unless the client is gone.
pub(crate) async fn flow<'a>(
    exchange: &mut Exchange,
    body: RequestBody<'a>,
) -> Result<Body<'a>, Gone> {
    let body = match stages::<Serve>(exchange, body).await {
        Ok(body) => body,
        Err(refusal) if refusal.unheard => return Err(Gone),
        Err(refusal) => refuse(exchange, refusal),
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
    ) -> Result<Handled<'a>, Refusal>;
}

/// What has come of a handler.
pub(crate) enum Handled<'a> {
    /// A response, its head in the exchange.
    Response(Body<'a>),
    /// What is not to be changed any more: the connection becomes something else, or there is none.
    Final(Body<'a>),
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
    ) -> Result<Handled<'a>, Refusal> {
        let looked = match &route.cache {
            Some(settings) => Box::pin(response_cache::look(exchange, settings, &body)).await,
            None => Looked::Nothing,
        };
        let fetch = match looked {
            Looked::Answer(body) => return Ok(Handled::Response(body)),
            Looked::Fetch(fetch) => Some(fetch),
            Looked::Nothing => None,
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
        if let Some(fetch) = fetch {
            body = fetch.take(exchange, body);
        }
        response_cache::changed(exchange);
        Ok(Handled::Response(body))
    }
}

/// Responds without another program, by `reply` and `files`.
pub(crate) async fn respond_locally<'a>(
    exchange: &mut Exchange,
    live: &Live,
    route: &Route,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
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
) -> Result<Body<'a>, Refusal> {
    expectation(exchange)?;
    exchange.reach(Stage::Route);
    if let Some(answer) = route(exchange)? {
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
    authenticate(exchange, route).await?;
    exchange.reach(Stage::Limit);
    limit(exchange)?;
    exchange.reach(Stage::BodySize);
    body.limit(route.body_limit)?;
    exchange.reach(Stage::Validation);
    if let Some(validation) = &route.validation {
        let begun = exchange.recording.mark().unwrap_or(exchange.started);
        let mut found = Findings::default();
        let (request, deadline) = (exchange.view(), &exchange.deadline);
        let checked = validate::request(&request, deadline, validation, body, &mut found).await;
        note_findings(exchange, "request", found);
        body = checked?;
        exchange.recording.stage_ended(stage::VALIDATE, begun);
    }
    if let Handler::Proxy(proxy) = &route.handler {
        exchange.instead = proxy::instead(exchange, proxy);
        exchange.mirrors = proxy::mirror::meant(exchange, proxy);
    }
    E::admit(exchange, route, &mut body)?;
    exchange.admitted = true;
    exchange.reach(Stage::RequestMap);
    if let Some(map) = &route.request_map {
        let begun = exchange.recording.mark().unwrap_or(exchange.started);
        let mapped = match map {
            BodyMap::Structure(one) => {
                let (request, deadline) = (exchange.view(), &exchange.deadline);
                let built = transform::build(&request, deadline, one, 0, body);
                let (mapped, content_type) = Box::pin(built).await?;
                exchange.request.headers.set("content-type", content_type.as_bytes());
                RequestBody::whole(mapped)
            }
            // It may send requests to upstreams.
            BodyMap::Script(_) if !E::CALLS_SCRIPTS => body,
            BodyMap::Script(script) => {
                match Box::pin(script::map_request(exchange, route, script, body)).await? {
                    Mapped::Request(body) => body,
                    Mapped::Answer(body) => {
                        exchange.recording.stage_ended(stage::REQUEST_MAP, begun);
                        return Ok(finish(exchange, route, body));
                    }
                }
            }
        };
        body = mapped;
        exchange.recording.stage_ended(stage::REQUEST_MAP, begun);
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

/// Counts and notes what validation found of a `request` or a `response`.
fn note_findings(exchange: &mut Exchange, side: &'static str, found: Findings) {
    let (worker, count) = (exchange.worker, found.over_budget.len() as u64);
    let stats = &worker.stats;
    let (invalid, over_budget) = match side {
        "request" => (&stats.invalid_requests, &stats.validation_over_budget_requests),
        _ => (&stats.invalid_answers, &stats.validation_over_budget_responses),
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
fn finish<'a>(exchange: &mut Exchange, route: &Route, body: Body<'a>) -> Body<'a> {
    exchange.reach(Stage::Over);
    apply_edits(&mut exchange.response.headers, &route.response_headers);
    let body = compress(exchange, route, body);
    tell_limits(exchange);
    share(exchange);
    body
}

/// 417 for what cannot be expected of weir.
fn expectation(exchange: &Exchange) -> Result<(), Refusal> {
    match exchange.request.expects_continue() {
        Some(false) => Err(Problem::ExpectationFailed.into()),
        _ => Ok(()),
    }
}

/// Finds the route. A preflight, and OPTIONS where no route says otherwise, are answered here.
fn route<'a>(exchange: &mut Exchange) -> Result<Option<Body<'a>>, Refusal> {
    let method = exchange.request.method;
    if matches!(method, Method::Connect) {
        return Err(Problem::NotImplemented.into());
    }
    if method == Method::Options && exchange.request.path() == "*" {
        // About the server as a whole (RFC 9110 section 9.3.7).
        exchange.response.status = 204;
        return Ok(Some(Body::Empty));
    }
    if method == Method::Other && exchange.request.method_name().contains(char::is_lowercase) {
        // Methods are case-sensitive (RFC 9110 section 9.1), but not every server keeps to it:
        // what is no method here must not pass by a route for the method that it looks like.
        let detail = "methods are case-sensitive and have no lower-case letters";
        return Err(Refusal::new(Problem::NotImplemented).detail(detail.to_owned()));
    }
    let path = normalise(exchange)?;
    let live = Rc::clone(exchange.live());
    let request = &exchange.request;
    let found = live.site.router.find(&exchange.host, request.path(), request.method_name());
    if let Found::Route { api, .. } | Found::OtherMethods { api, .. } | Found::NoRoute { api } =
        &found
    {
        exchange.api = Some(*api);
    }
    if let Some(answer) = preflight(exchange, &found) {
        return Ok(Some(answer));
    }
    match found {
        Found::Route { api, route } => {
            let (config, request) = (&live.site.config, &exchange.request);
            let path = Normal { path: request.path().into(), ambiguity: path };
            let asked = (exchange.host.as_str(), request.method_name());
            live.site.router.admit_path(config, asked, &path, (api, route))?;
            exchange.route = Some((api, route));
            Ok(None)
        }
        Found::OtherMethods { allow, .. } if method == Method::Options => {
            exchange.response.status = 204;
            exchange.response.headers.push("allow", allow.join(", ").as_bytes());
            share(exchange);
            Ok(Some(Body::Empty))
        }
        Found::OtherMethods { allow, .. } => {
            Err(Refusal::new(Problem::MethodNotAllowed).header("allow", allow.join(", ")))
        }
        Found::NoRoute { .. } => Err(Problem::NoRoute.into()),
        Found::NoApi if live.site.router.knows_host(&exchange.host) => Err(Problem::NoRoute.into()),
        Found::NoApi => Err(Problem::UnknownHost.into()),
    }
}

/// Brings the path into its normal form, which is what is matched and what is forwarded. Gives
/// what servers read in more than one way in it.
fn normalise(exchange: &mut Exchange) -> Result<Ambiguity, Refusal> {
    let Normal { path, ambiguity } = path::normalise(exchange.request.path())?;
    if let Cow::Owned(normal) = path {
        exchange.request.set_path(&normal);
    }
    Ok(ambiguity)
}

fn preflight<'a>(exchange: &mut Exchange, found: &Found) -> Option<Body<'a>> {
    let live = Rc::clone(exchange.live());
    let index = exchange.api?;
    let api = &live.site.config.apis[index];
    let settings = api.cors.as_ref()?;
    let headers = &exchange.request.headers;
    if !cors::is_preflight(exchange.request.method_name(), headers) {
        return None;
    }
    if matches!(found, Found::NoRoute { .. } | Found::NoApi) {
        return None;
    }
    let methods = live.site.router.methods(index, exchange.request.path());
    exchange.response.status = 204;
    let methods = methods.iter().map(String::as_str);
    cors::preflight(settings, headers, methods, &mut exchange.response.headers);
    Some(Body::Empty)
}

/// Finds out who calls.
async fn authenticate(exchange: &mut Exchange, route: &Route) -> Result<(), Refusal> {
    let Err(mut failure) = authenticate_now(exchange, route) else { return Ok(()) };
    // Each way in may need something from elsewhere, once.
    for _ in 0..=route.access.any_of.len() {
        if !learn(exchange, route, failure).await {
            break;
        }
        match authenticate_now(exchange, route) {
            Ok(()) => return Ok(()),
            Err(again) if again == failure => break,
            Err(other) => failure = other,
        }
    }
    Err(unauthenticated(exchange, route, failure))
}

/// What the client is told; a failure beyond the limit of its address is 429.
fn unauthenticated(exchange: &Exchange, route: &Route, failure: AuthFailure) -> Refusal {
    let site = &exchange.live().site;
    let (address, now) = (exchange.client.address, moment(exchange));
    let kind = failure.kind();
    let throttled = if kind == FailureKind::Throttled {
        // There may be room by now, for the next one.
        Err(site.limits.may_authenticate(address, now).err().unwrap_or(1))
    } else if kind.is_counted() && exchange.trace.is_none() {
        site.limits.authentication_failed(address, now)
    } else {
        Ok(())
    };
    if let Err(seconds) = throttled {
        exchange.worker.stats.auth_throttled.add(1);
        return Refusal::new(Problem::AuthenticationThrottled)
            .header("retry-after", seconds.to_string());
    }
    let challenge = failure.challenge(&site.config, &route.access);
    let refusal = Refusal::new(failure.problem()).header("www-authenticate", challenge);
    refusal.recorded(rejected_by(failure, &site.config, route))
}

/// When the request came, as limits want it.
fn moment(exchange: &Exchange) -> Moment {
    exchange.worker.shared.limiter.moment(exchange.started, exchange.unix)
}

/// Which auth did not let the request in, and why.
fn rejected_by(failure: AuthFailure, config: &Config, route: &Route) -> String {
    let name = |auth: AuthId| config.auths[auth.0].name.as_str();
    let Some(auth) = failure.auth() else {
        let ways: Vec<&str> = route.access.any_of.iter().map(|rule| name(rule.auth)).collect();
        return format!("no credential for {}", ways.join(", "));
    };
    match failure.kind() {
        FailureKind::Repeated => format!("auth {}: the credential is repeated", name(auth)),
        FailureKind::InsufficientScope => {
            let rules = route.access.any_of.iter().filter(|rule| rule.auth == auth);
            let own = config.auths[auth.0].kind.token().map_or(&[][..], |token| &token.scopes);
            let wanted = own.iter().chain(rules.flat_map(|rule| &rule.scopes));
            let wanted: Vec<&str> = wanted.map(String::as_str).collect();
            format!("auth {}: required scopes: {}", name(auth), wanted.join(" "))
        }
        _ => format!("auth {}", name(auth)),
    }
}

/// Gets what is not known and may let the request in: another key set may have the key, and the
/// server may know the token. Says whether to try again.
async fn learn(exchange: &Exchange, route: &Route, failure: AuthFailure) -> bool {
    let Some(auth) = failure.auth().filter(|_| exchange.trace.is_none()) else { return false };
    let live = Rc::clone(exchange.live());
    let latest = route.timeout.map(|timeout| exchange.started + timeout);
    match failure.kind() {
        FailureKind::UnknownKey | FailureKind::NoKeys => {
            Box::pin(authorization_server::wait_for_keys(&live, auth, latest)).await
        }
        FailureKind::NotAsked => {
            let Ok(Some(token)) = auth::bearer(&exchange.request.headers) else { return false };
            Box::pin(authorization_server::introspect(&live, auth, token, exchange.unix, latest))
                .await
        }
        _ => false,
    }
}

/// By what is known.
fn authenticate_now(exchange: &mut Exchange, route: &Route) -> Result<(), AuthFailure> {
    if let Some(again) = &exchange.resubmission {
        // Who sent it was verified then; whether the route lets him in now was found out.
        exchange.principal = Some(Rc::clone(&again.principal));
        return Ok(());
    }
    let live = Rc::clone(exchange.live());
    let config = &live.site.config;
    let request = &exchange.request;
    let shown = auth::Shown {
        headers: &request.headers,
        query: request.query().map(str::as_bytes),
        certificate: exchange.certificate.as_deref(),
        may_verify: &|| {
            let (address, now) = (exchange.client.address, moment(exchange));
            live.site.limits.may_authenticate(address, now).is_ok()
        },
    };
    let authenticated =
        live.authenticator.authenticate(config, &route.access, shown, exchange.unix);
    match authenticated {
        Ok(principal) => {
            exchange.principal = Some(principal);
            if !route.access.any_of.is_empty() {
                exchange.recording.stage_ended(stage::AUTH, exchange.started);
            }
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Admits the request by the consumer's plan and the limits of API and route.
fn limit(exchange: &mut Exchange) -> Result<(), Refusal> {
    let live = Rc::clone(exchange.live());
    let Some((api, route)) = exchange.route else { return Err(Problem::Internal.into()) };
    let (consumer, address) = (exchange.consumer(), exchange.client.address);
    let caller = Caller { api, route, consumer, address };
    let limits = &live.site.limits;
    let now = moment(exchange);
    let (config, scope) = (&live.site.config, || exchange.view().scope());
    let outcome = match &exchange.trace {
        None => limits.admit(config, &caller, scope, now),
        Some(trace) => limits.look(config, &caller, scope, now, &trace.looked),
    };
    match outcome {
        Ok(admission) => {
            exchange.standing = admission.standing;
            if admission.standing.is_some() {
                exchange.recording.stage_ended(stage::LIMIT, exchange.started);
            }
            exchange.count_admitted();
            Ok(())
        }
        Err(rejection) => {
            exchange.standing = Some(rejection.standing);
            let stats = &exchange.worker.stats;
            let over_quota = rejection.problem == Problem::QuotaExhausted;
            let counter = if over_quota { &stats.over_quota } else { &stats.limited };
            counter.add(1);
            let wait = rejection.standing.retry_after.unwrap_or_default();
            let limit = limits.policy_of(&rejection.standing);
            let why = format!("limit {limit} is exhausted; retry after {wait} s");
            Err(Refusal::new(rejection.problem).recorded(why))
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
        exchange.standing = None;
    }
    begun
}

/// Tells how the client stands with its limits.
fn tell_limits(exchange: &mut Exchange) {
    if let Some(standing) = exchange.standing {
        let live = Rc::clone(exchange.live());
        let headers = &mut exchange.response.headers;
        live.site.limits.write_headers(&standing, &mut Vec::new(), headers);
    }
}

fn compress<'a>(exchange: &mut Exchange, route: &Route, body: Body<'a>) -> Body<'a> {
    let response = &mut exchange.response;
    let answer = compress::Answer {
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

/// Answers with a problem document; a call of gRPC with its outcome.
pub(crate) fn refuse<'a>(exchange: &mut Exchange, refusal: Refusal) -> Body<'a> {
    exchange.reason = refusal.reason().filter(|_| exchange.recording.is_shown());
    let Refusal { problem, detail, headers, violations, .. } = refusal;
    exchange.problem = Some(problem);
    if problem == Problem::DescriptorsExhausted {
        exchange.worker.stats.descriptors_exhausted.add(1);
    }
    exchange.response.clear();
    exchange.response.status = problem.status();
    let is_call = exchange.is_grpc_call();
    let body = if is_call {
        let code = grpc::reject(&mut exchange.response.headers, problem, detail.as_deref());
        exchange.note_grpc_status(code);
        Body::Empty
    } else {
        let detail = Detail { text: detail.as_deref(), violations: &violations };
        document(exchange, problem, detail)
    };
    for (name, value) in &headers {
        exchange.response.headers.push(name, value.as_bytes());
    }
    tell_limits(exchange);
    if is_call {
        grpc::push_back(&mut exchange.response.headers);
    }
    if exchange.request.headers.known(Known::Origin).is_some() {
        share(exchange);
    }
    body
}

fn document<'a>(exchange: &mut Exchange, problem: Problem, detail: Detail<'_>) -> Body<'a> {
    let format = ProblemFormat::negotiated(&exchange.request.headers);
    let mut document = Vec::with_capacity(384);
    problem.render(format, detail, Some(exchange.id.as_str()), &mut document);
    let headers = &mut exchange.response.headers;
    headers.push("content-type", format.content_type().as_bytes());
    headers.push("cache-control", b"no-store");
    Body::Whole(Bytes::from(document))
}
