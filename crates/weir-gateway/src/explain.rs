//! What weir would do with a request, and why; nothing is sent, counted, recorded or logged.
//!
//! The request goes through [`crate::flow`] like any other, on a worker of its own whose counters
//! nobody reads. What is different is told by `Exchange::trace`: limits are looked at and nothing is
//! taken, no key set is fetched, and instead of an upstream, an agent or a script being asked it is
//! written down what they would get. Answers that weir makes itself, by `reply` and `files`, are
//! made.

mod answer;
mod desk;
mod route;
mod sent;
mod steps;
mod upstream;

pub(crate) use desk::Desk;

use crate::body::RequestBody;
use crate::exchange::{Exchange, Protocol};
use crate::explanation::{Explanation, Text};
use crate::flow::{self, Effects, Handled};
use crate::limit::Limiter;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::request_text::{Arrival, RequestText, RequestTextError, read_head};
use crate::response_body::ResponseBody;
use crate::site::{Site, SiteError};
use crate::worker::{Live, Worker};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use weir_config::{Config, Route};
use weir_wire::Framing;

/// Explains a request by a configuration that nobody serves: every limit is untouched. Blocks.
///
/// # Errors
/// The configuration cannot be made ready, or the request not be made.
pub fn offline(
    config: Arc<Config>,
    ask: RequestText,
) -> Result<Result<Explanation, RequestTextError>, SiteError> {
    let limiter = Arc::new(Limiter::default());
    let site = Arc::new(Site::unconnected(config, &limiter, None)?);
    let desk = Desk::offline(site, limiter)?;
    Ok(desk.ask(ask))
}

/// Explains a request by what `worker` serves now.
async fn explain(
    worker: &'static Worker,
    ask: &RequestText,
) -> Result<Explanation, RequestTextError> {
    let live = worker.live();
    let arrival = Arrival::of(&live.site.config, ask)?;
    let head = arrival.head(ask)?;
    let client = ask.client.unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let mut exchange =
        Exchange::take(worker, SocketAddr::new(client, 0), Protocol::Http1, &Rc::default());
    let unreadable = read_head(&mut exchange.request, &head, &live.site.wire_limits);
    // Before anything can end it: it must leave no line in the log.
    exchange.trace = Some(Box::default());
    exchange.begin(arrival.listener, arrival.https);
    let outcome = match unreadable {
        Some(rejection) => Err(rejection),
        None => {
            let body = match exchange.request.framing {
                Framing::None => RequestBody::empty(),
                _ => RequestBody::whole(ask.body.clone()),
            };
            Box::pin(flow::stages::<Explain>(&mut exchange, body)).await
        }
    };
    let explanation = answer::conclude(&mut exchange, ask, &arrival, outcome).await;
    drop(exchange);
    Ok(explanation)
}

/// The effects of explaining: what would be done is written down.
struct Explain;

impl Effects for Explain {
    const CALLS_SCRIPTS: bool = false;

    fn admit(exchange: &mut Exchange, _: &Route, _: &mut RequestBody<'_>) -> Result<(), Problem> {
        sent::note_recorded(exchange);
        Ok(())
    }

    async fn handle<'a>(
        exchange: &mut Exchange,
        live: &Live,
        route: &Route,
        body: RequestBody<'a>,
    ) -> Result<Handled<'a>, Rejection> {
        if Box::pin(sent::outline(exchange, route, &body)).await? {
            return Ok(Handled::Final(ResponseBody::Empty));
        }
        flow::respond_locally(exchange, live, route, body).await.map(Handled::Response)
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

/// Names of the exchange's API and route.
fn names(exchange: &Exchange) -> (Option<String>, Option<String>) {
    let live = exchange.live();
    let api = exchange.api.map(|api| live.site.config.apis[api].name.clone());
    (api, exchange.matched().map(|(_, route)| route.operation.clone()))
}

#[cfg(test)]
mod tests;
