//! Serving of replays by a worker.

use super::plan::{Planned, plan};
use super::{Injected, MAX_CONCURRENT, PendingReplay, test_request};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{Semaphore, mpsc};
use weir_gateway::arrival::Protocol;
use weir_gateway::exchange::Exchange;
use weir_gateway::flow::{ClientClosed, flow};
use weir_gateway::response_body::ResponseBody;
use weir_gateway::worker::Worker;
use weir_http::body::{RequestBody, ResponseError};
use weir_http::problem::Problem;
use weir_model::{RejectionReason, ReplayOutcome, ReplayRequest};
use weir_wire::Version;

/// Serves injected requests until the channel closes.
pub(crate) async fn receive(worker: &'static Worker, mut injected: mpsc::Receiver<Injected>) {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
    while let Some(injected) = injected.recv().await {
        let pending = match injected {
            Injected::Replay(pending) => pending,
            Injected::TestRequest(outcome) => {
                test_request::receive(worker, outcome, &permits).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        tokio::task::spawn_local(async move {
            let _permit = permit;
            let outcome = serve(worker, &pending).await;
            pending.finish(outcome);
        });
    }
}

async fn serve(worker: &'static Worker, pending: &PendingReplay) -> ReplayOutcome {
    let live = worker.live();
    let planned = match plan(&live.site, &pending.request) {
        Ok(planned) => planned,
        Err(reason) => return ReplayOutcome::Rejected(reason),
    };
    drop(live);
    let Planned { method, target, authority, headers, client, replay } = planned;
    let peer = SocketAddr::new(client.address, 0);
    let mut exchange = Exchange::take(worker, peer, Protocol::InProcess, &Rc::default());
    let request = &mut exchange.request;
    request.clear();
    request.set_line(&method, &target, &authority);
    request.version = Version::Http11;
    request.headers = headers;
    exchange.begin_replay(pending.request.id.to_be_bytes(), client, replay);
    let body = body(&pending.request);
    let outcome = match flow(&mut exchange, body).await {
        Ok(response) => take(&mut exchange, response).await,
        Err(ClientClosed) => {
            exchange.abort(None);
            ReplayOutcome::Unknown
        }
    };
    exchange.give_back();
    outcome
}

/// The body. An empty body has a length if the recorded one had: some servers require it.
fn body(request: &ReplayRequest) -> RequestBody<'static> {
    let is_length = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("content-length");
    if request.body.is_empty() && !request.headers.iter().any(is_length) {
        return RequestBody::empty();
    }
    RequestBody::buffered(request.body.clone())
}

/// Reads a response to its end; it is only kept in the journal.
async fn take(exchange: &mut Exchange, body: ResponseBody<'_>) -> ReplayOutcome {
    let status = exchange.response.status;
    if read(exchange, body, |_| {}).await.is_err() {
        return ReplayOutcome::Aborted(status);
    }
    match exchange.record.problem {
        Some(problem) if !exchange.decisions.admitted => ReplayOutcome::Rejected(reason(problem)),
        problem => ReplayOutcome::Response(status, problem.map(Problem::slug)),
    }
}

/// Reads a response to its end, and ends the exchange; `pass` receives the bytes. The record is
/// then as durable as that of any other response.
pub(super) async fn read(
    exchange: &mut Exchange,
    mut body: ResponseBody<'_>,
    mut pass: impl FnMut(&[u8]),
) -> Result<(), ResponseError> {
    if !exchange.has_body() {
        body = ResponseBody::Empty;
    }
    exchange.deadline.progress();
    let read = poll_fn(|cx| poll_read(exchange, &mut body, &mut pass, cx)).await;
    match &read {
        Ok(()) => {
            let _ = poll_fn(|cx| exchange.poll_durable(cx)).await;
        }
        Err(error) => exchange.abort(Some(error)),
    }
    read
}

fn poll_read(
    exchange: &mut Exchange,
    body: &mut ResponseBody<'_>,
    pass: &mut impl FnMut(&[u8]),
    cx: &mut Context<'_>,
) -> Poll<Result<(), ResponseError>> {
    while ready!(body.poll_data(cx, &exchange.deadline))? {
        let data = body.data();
        let length = data.len();
        exchange.record.sent += length as u64;
        pass(data);
        if body.is_last() {
            exchange.complete(data);
        } else {
            exchange.pass(data);
        }
        body.consume(length);
    }
    // No effect if the loop has completed the exchange with the last bytes.
    exchange.complete(b"");
    Poll::Ready(Ok(()))
}

/// The reason for which the current Config rejected a replay.
fn reason(problem: Problem) -> RejectionReason {
    match problem {
        Problem::RateLimited | Problem::QuotaExhausted => RejectionReason::LimitReached,
        Problem::NoRoute | Problem::UnknownHost | Problem::MethodNotAllowed => {
            RejectionReason::RouteGone
        }
        Problem::InsufficientScope => RejectionReason::ScopeMissing,
        other => RejectionReason::Rejected(other.slug().to_owned()),
    }
}
