//! The life of a request, in order: route → clients → auth → limit → validate → record → map →
//! handler → map → validate → compress → client.
//!
//! Stages take what they need and return their results; [`stages`] stores these in the Exchange.
//! Serving and explaining a request differ in their [`Effects`].

mod authentication;
mod content;
mod limiting;
mod local_reply;
mod routing;
mod serve;

pub(crate) use authentication::Authentication;
pub use local_reply::reject;

use crate::context::Context;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::handler::script::Mapped;
use crate::handler::{self, HandlerInput, Served};
use crate::response_body::ResponseBody;
use crate::site::Site;
use crate::worker::Live;
use routing::Destination;
use serve::Serve;
use std::net::IpAddr;
use std::rc::Rc;
use weir_auth::{Missing, Principal};
use weir_config::{Compression, Route};
use weir_expr::Scope;
use weir_http::body::RequestBody;
use weir_http::compress::{self, Decision};
use weir_http::console_cookie;
use weir_http::cors;
use weir_http::headers::apply_edits;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_limit::{Caller, Denial, LimitPlan, LimitStatus, Moment, OnShortage, RouteLimits};
use weir_model::stage;
use weir_wire::{Headers, Method, RequestHead, ResponseHead};

/// The client has disconnected before the response.
pub struct ClientClosed;

/// Responds to a request. In every case there is a response, with its head in `exchange.response`,
/// unless the client has disconnected.
pub async fn flow<'a>(
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

/// The differences between serving and explaining a request.
pub(crate) trait Effects {
    /// Scripts of transformations are called.
    const CALLS_SCRIPTS: bool;

    /// The request reaches a stage.
    fn reach(&mut self, stage: Stage);

    /// Fetches data for a credential from an authorization server; returns whether to try again.
    async fn fetch_missing(&mut self, of: &Authentication<'_>, missing: Missing) -> bool;

    /// Counts a failed authentication of the client.
    ///
    /// # Errors
    /// Too many have failed; the seconds until the next one is allowed, at least 1.
    fn count_failure(&mut self, of: &Authentication<'_>) -> Result<(), u64>;

    /// Checks the plan of the caller and the limits of the route; `on_shortage` says whether the
    /// request may wait for a lease.
    ///
    /// # Errors
    /// The limit that rejects the request, or has no lease.
    fn limit(
        &mut self,
        plan: &LimitPlan,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
        on_shortage: OnShortage,
    ) -> Result<Option<LimitStatus>, Denial>;

    /// The request has passed every policy: its record begins, or is described.
    ///
    /// # Errors
    /// The journal is full, and requests are rejected in this case.
    fn admit(
        &mut self,
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem>;

    /// Calls the handler of the route; `None` if its request is only described.
    async fn handle<'a>(
        &mut self,
        input: &mut HandlerInput<'_>,
        body: RequestBody<'a>,
    ) -> Result<Option<Served<'a>>, Rejection>;
}

/// Passes a request from the route to the response; `fx` determines whether it is served or
/// explained.
pub(crate) async fn stages<'a, E: Effects>(
    exchange: &mut Exchange,
    mut body: RequestBody<'a>,
    fx: &mut E,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let site = &*live.site;
    check_expectation(&exchange.request)?;
    fx.reach(Stage::Route);
    let Exchange { arrival, request, response, .. } = &mut *exchange;
    let (api, found) = routing::find(site, &arrival.host, request, response);
    exchange.decisions.api = api;
    let at = match found? {
        Destination::Route(at) => at,
        Destination::Options => return Ok(ResponseBody::Empty),
    };
    exchange.decisions.route = Some(at);
    let route = &site.config.apis[at.0].routes[at.1];
    exchange.set_timeout(route.timeout);
    exchange.record.recording.found(route);

    fx.reach(Stage::Clients);
    check_client(route, exchange.arrival.client.address)?;
    fx.reach(Stage::Auth);
    let now = exchange.moment();
    exchange.decisions.principal = Some(authenticate(exchange, &live, route, now, fx).await?);
    fx.reach(Stage::Limit);
    limiting::limit(exchange, site, &site.route(at).limits, now, fx).await?;
    fx.reach(Stage::BodySize);
    body.limit(route.body_limit)?;
    fx.reach(Stage::Validation);
    if let Some(validation) = &route.validation {
        body = content::validate_request(&mut exchange.handler_input(), validation, body).await?;
    }
    let is_replay = exchange.arrival.replay.is_some();
    exchange.decisions.selection = handler::select(&route.handler, || exchange.view(), is_replay);
    fx.admit(exchange, route, &mut body)?;
    exchange.decisions.admitted = true;
    let input = &mut exchange.handler_input();
    fx.reach(Stage::RequestMap);
    if let Some(map) = &route.request_map {
        body = match content::map_request::<E>(input, map, body).await? {
            Mapped::Request(body) => body,
            Mapped::Response(body) => {
                fx.reach(Stage::Over);
                return Ok(finish(input, body));
            }
        };
    }
    fx.reach(Stage::Handler);
    let mut body = match fx.handle(input, body).await? {
        Some(Served::Response(body)) => body,
        Some(Served::Upgraded(upgraded)) => {
            exchange.upgraded = Some(upgraded);
            return Ok(ResponseBody::Empty);
        }
        None => return Ok(ResponseBody::Empty),
    };
    if let Some(limit) = route.response_limit {
        body = body.within(limit)?;
    }
    fx.reach(Stage::ResponseMap);
    if let Some(map) = &route.response_map {
        body = content::map_response::<E>(input, map, body).await?;
    }
    fx.reach(Stage::ResponseValidation);
    if let Some(validation) = &route.validation {
        body = content::validate_response(input, validation, body).await?;
    }
    fx.reach(Stage::Over);
    Ok(finish(input, body))
}

/// Rejects unsupported expectations with 417.
fn check_expectation(request: &RequestHead) -> Result<(), Rejection> {
    match request.expects_continue() {
        Some(false) => Err(Problem::ExpectationFailed.into()),
        _ => Ok(()),
    }
}

/// Rejects a client whose address is not allowed by the route with 403.
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
    if let Some(replay) = &exchange.arrival.replay {
        // Verified when the request was recorded; the route's access rules were checked.
        return Ok(Rc::clone(&replay.principal));
    }
    let authentication = Authentication {
        live,
        route,
        request: &exchange.request,
        certificate: exchange.arrival.certificate.as_deref(),
        address: exchange.arrival.client.address,
        started: exchange.arrival.started,
        now,
    };
    let authenticated = authentication.run(fx, &exchange.worker.stats.auth_throttled).await;
    let principal = authenticated.map_err(|(rejection, refused)| {
        exchange.decisions.refused = refused;
        rejection
    })?;
    if !route.access.any_of.is_empty() {
        exchange.record.recording.stage_ended(stage::AUTH, exchange.arrival.started);
    }
    Ok(principal)
}

/// Policies of every response of a route: header edits, compression, limit headers, CORS.
fn finish<'a>(input: &mut HandlerInput<'_>, body: ResponseBody<'a>) -> ResponseBody<'a> {
    let Context { live, route, decisions, .. } = input.context;
    let (site, request, response) = (&live.site, &*input.request, &mut *input.response);
    apply_edits(&mut response.headers, &route.response_headers);
    let body = compress(&route.compress, request, response, body);
    write_limits(&site.limits, decisions.limit_status, response);
    allow_origin(site, decisions.api, &request.headers, &mut response.headers);
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

/// Writes the limit status of the caller.
fn write_limits(plan: &LimitPlan, limit_status: Option<LimitStatus>, response: &mut ResponseHead) {
    if let Some(limit_status) = limit_status {
        plan.write_headers(&limit_status, &mut Vec::new(), &mut response.headers);
    }
}

/// Writes the CORS headers by the rules of the API.
fn allow_origin(site: &Site, api: Option<usize>, request: &Headers, response: &mut Headers) {
    if let Some(settings) = api.and_then(|api| site.config.apis[api].cors.as_ref()) {
        cors::respond(settings, request, response);
    }
}
