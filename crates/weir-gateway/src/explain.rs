//! What weir would do with a request, and why; nothing is sent, counted, recorded or logged.
//!
//! The request goes through [`crate::flow`] like any other, on a worker of its own whose counters
//! nobody reads. The differences are in [`Explain`]: limits are peeked at, no key set is fetched, and
//! the request to an upstream, an agent or a script is described instead of sent. Responses of weir
//! itself, by `reply` and `files`, are made.

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
use weir_limit::{Caller, LimitPlan, LimitRejection, LimitStatus, Limiter, Moment, RouteLimits};
use weir_model::UpstreamId;
use weir_record::client_request::ClientRequest;
use weir_wire::{Framing, ResponseHead};

/// Explains a request by a configuration that nobody serves: every limit is untouched. Blocks.
///
/// # Errors
/// The configuration cannot be made ready, or the request not be made.
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

/// Explains a request by what `worker` serves now.
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

/// An exchange that leaves no line in the log, however it ends.
struct Unlogged(Box<Exchange>);

impl Drop for Unlogged {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// The effects of explaining: decisions are noted, and nothing is sent, counted or recorded.
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
    ) -> Result<Option<LimitStatus>, LimitRejection> {
        let (decision, limits) = plan.peek(limits, caller, scope, now);
        self.trace.limits = limits;
        decision
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

/// The text of a header value or a body, as far as it is text.
fn text_of(bytes: &[u8]) -> Text {
    /// Most bytes of a body that are shown.
    const SHOWN: usize = 64 << 10;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) => Some(text.to_owned()),
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
            String::from_utf8(shown[..error.valid_up_to()].to_vec()).ok()
        }
        Err(_) => None,
    };
    Text { text, bytes: bytes.len() as u64, cut: shown.len() < bytes.len() }
}

/// A request that has been through the stages, and their decisions.
#[derive(Clone, Copy)]
struct Explained<'x> {
    request: ClientRequest<'x>,
    response: &'x ResponseHead,
    live: &'x Rc<Live>,
    trace: &'x Trace,
    started: Instant,
    now: Moment,
    problem: Option<Problem>,
    /// Lines that stages logged.
    logs: &'x [String],
    /// The upstream that traffic splitting selected.
    upstream: Option<UpstreamId>,
    /// The mirrors of the proxy that the request is copied to.
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

    /// The API and the route, once both are found.
    fn matched(&self) -> Option<(&'x Api, &'x Route)> {
        self.request.api.zip(self.request.route)
    }
}
