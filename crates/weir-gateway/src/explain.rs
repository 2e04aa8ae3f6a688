//! Explains the handling of a request; nothing is sent, counted, recorded or logged.
//!
//! The request passes [`crate::flow`] like any other, on a separate worker whose counters are not
//! reported. The differences are in [`Explain`]: limits are peeked at, no key set is fetched, and
//! the request to an upstream, an agent or a script is described instead of sent. Local responses,
//! by `reply` and `files`, are generated.

mod answer;
mod explainer;
mod route;
mod sent;
mod steps;

pub use explainer::Explainer;

use crate::arrival::Protocol;
use crate::compiled::Compiled;
use crate::exchange::Exchange;
use crate::explanation::{Explanation, Stage, Text, Trace};
use crate::flow::{self, Authentication, Effects};
use crate::handler::{self, HandlerInput, Served};
use crate::request_text::{Ingress, RequestText, RequestTextError, read_head};
use crate::site::{Site, SiteError};
use crate::worker::{Live, Worker};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weir_auth::Missing;
use weir_config::{Api, Capture, Config, Route};
use weir_expr::Scope;
use weir_http::body::RequestBody;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_limit::{
    Caller, Denial, LimitPlan, LimitStatus, Limiter, Moment, OnShortage, RouteLimits,
};
use weir_model::UpstreamId;
use weir_record::client_request::ClientRequest;
use weir_wire::{Framing, ResponseHead};

/// Explains a request by a configuration that is not in use: every limit is untouched. Blocks.
///
/// # Errors
/// The configuration cannot be compiled, or the request is invalid.
pub fn offline(
    config: Arc<Config>,
    compiled: Compiled,
    request: RequestText,
) -> Result<Result<Explanation, RequestTextError>, SiteError> {
    let limiter = Arc::new(Limiter::default());
    let site = Arc::new(Site::unconnected(config, compiled, &limiter, None)?);
    let explainer = Explainer::offline(site, limiter)?;
    Ok(explainer.ask(request))
}

/// Explains a request by the current configuration of `worker`.
async fn explain(
    worker: &'static Worker,
    request: &RequestText,
) -> Result<Explanation, RequestTextError> {
    let live = worker.live();
    let arrival = Ingress::of(&live.site.config, request)?;
    let head = arrival.head(request)?;
    let client = request.client.unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let peer = SocketAddr::new(client, 0);
    let taken = Exchange::take(worker, peer, Protocol::Http1, &Rc::default());
    let mut taken = Unlogged(taken);
    let exchange = &mut *taken.0;
    let unreadable = read_head(&mut exchange.request, &head, &live.site.wire_limits);
    let mut explain = Explain::default();
    exchange.begin(arrival.listener, arrival.https);
    let outcome = match unreadable {
        Some(rejection) => Err(rejection),
        None => {
            let body = match exchange.request.framing {
                Framing::None => RequestBody::empty(),
                _ => RequestBody::buffered(request.body.clone()),
            };
            Box::pin(flow::stages(exchange, body, &mut explain)).await
        }
    };
    Ok(answer::conclude(exchange, explain.trace, request, &arrival, outcome).await)
}

/// An exchange that is never logged.
struct Unlogged(Box<Exchange>);

impl Drop for Unlogged {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// The effects of explain: decisions are noted, and nothing is sent, counted or recorded.
#[derive(Default)]
struct Explain {
    trace: Trace,
}

impl Effects for Explain {
    const CALLS_SCRIPTS: bool = false;

    fn reach(&mut self, stage: Stage) {
        self.trace.stage = stage;
    }

    async fn fetch_missing(&mut self, _: &Authentication<'_>, _: Missing) -> bool {
        false
    }

    fn count_failure(&mut self, _: &Authentication<'_>) -> Result<(), u64> {
        Ok(())
    }

    fn limit(
        &mut self,
        plan: &LimitPlan,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
        _: OnShortage,
    ) -> Result<Option<LimitStatus>, Denial> {
        let (decision, limits) = plan.peek(limits, caller, scope, now);
        self.trace.limits = limits;
        decision.map_err(Denial::Rejected)
    }

    fn admit(
        &mut self,
        exchange: &mut Exchange,
        _: &Route,
        _: &mut RequestBody<'_>,
    ) -> Result<(), Problem> {
        let redaction = &exchange.live().site.redaction;
        redaction.write(&exchange.request.headers, &mut self.trace.recorded);
        Ok(())
    }

    async fn handle<'a>(
        &mut self,
        input: &mut HandlerInput<'_>,
        body: RequestBody<'a>,
    ) -> Result<Option<Served<'a>>, Rejection> {
        if Box::pin(sent::outline(input, &body, &mut self.trace)).await? {
            return Ok(None);
        }
        handler::serve(input, body).await.map(Some)
    }
}

/// The text of a header value or a body, if it is UTF-8.
fn text_of(bytes: &[u8]) -> Text {
    /// Maximum number of body bytes shown.
    const SHOWN: usize = 64 << 10;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) => Some(text.to_owned()),
        // Truncated within a character.
        Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
            String::from_utf8(shown[..error.valid_up_to()].to_vec()).ok()
        }
        Err(_) => None,
    };
    Text { text, bytes: bytes.len() as u64, cut: shown.len() < bytes.len() }
}

/// A request that has passed the stages, and their decisions.
#[derive(Clone, Copy)]
struct Explained<'x> {
    request: ClientRequest<'x>,
    response: &'x ResponseHead,
    live: &'x Rc<Live>,
    trace: &'x Trace,
    started: Instant,
    now: Moment,
    problem: Option<Problem>,
    /// Log lines of the stages.
    logs: &'x [String],
    /// The upstream that traffic splitting selected.
    upstream: Option<UpstreamId>,
    /// The mirrors of the proxy selected for the request.
    mirrors: &'x [usize],
    capture: Capture,
}

impl<'x> Explained<'x> {
    fn of(exchange: &'x Exchange, trace: &'x Trace) -> Self {
        Self {
            request: exchange.view(),
            response: &exchange.response,
            live: exchange.live(),
            trace,
            started: exchange.arrival.started,
            now: exchange.moment(),
            problem: exchange.record.problem,
            logs: exchange.record.notes.as_deref().map(|notes| &*notes.logs).unwrap_or_default(),
            upstream: exchange.decisions.selection.split,
            mirrors: &exchange.decisions.selection.mirrors,
            capture: exchange.record.recording.capture(),
        }
    }

    /// The API and the route, if both were found.
    fn matched(&self) -> Option<(&'x Api, &'x Route)> {
        self.request.api.zip(self.request.route)
    }
}
