//! A worker's side of the door.

use super::plan::{Planned, plan};
use super::{Ended, Injected, MAX_CONCURRENT, PendingReplay, Refused, Resubmission, test_request};
use crate::body::{RequestBody, ResponseError};
use crate::exchange::{Exchange, Protocol};
use crate::flow::{ClientClosed, flow};
use crate::problem::Problem;
use crate::response_body::ResponseBody;
use crate::worker::Worker;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{Semaphore, mpsc};
use weir_wire::{Method, Version};

/// Serves what comes through the door until nobody can send any more.
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
            let ended = serve(worker, &pending).await;
            pending.ended(ended);
        });
    }
}

async fn serve(worker: &'static Worker, pending: &PendingReplay) -> Ended {
    let live = worker.live();
    let planned = match plan(&live.site, &pending.request) {
        Ok(planned) => planned,
        Err(refused) => return Ended::Refused(refused),
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
    exchange.begin_replay(pending.request.id, client, replay);
    let body = body(&pending.request);
    let ended = match flow(&mut exchange, body).await {
        Ok(response) => take(&mut exchange, response).await,
        Err(ClientClosed) => {
            exchange.abort(None);
            Ended::Lost
        }
    };
    exchange.give_back();
    ended
}

/// Its body. An empty one has a length if it had one: there are servers that insist on it.
fn body(request: &Resubmission) -> RequestBody<'static> {
    let result = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("content-length");
    if request.body.is_empty() && !request.headers.iter().any(result) {
        return RequestBody::empty();
    }
    RequestBody::whole(request.body.clone())
}

/// Reads an response to its end; nobody wants it but the journal.
async fn take(exchange: &mut Exchange, mut body: ResponseBody<'_>) -> Ended {
    let status = exchange.response.status;
    if exchange.request.method == Method::Head || matches!(status, 204 | 304) {
        body = ResponseBody::Empty;
    }
    exchange.deadline.progress();
    if let Err(error) = poll_fn(|cx| poll_take(exchange, &mut body, cx)).await {
        exchange.abort(Some(&error));
        return Ended::Broken { status };
    }
    // The record is as durable as that of any other response before it is told.
    let _ = poll_fn(|cx| exchange.poll_kept(cx)).await;
    match exchange.problem {
        Some(problem) if !exchange.admitted => Ended::Refused(refused(problem)),
        problem => Ended::Answered { status, problem },
    }
}

fn poll_take(
    exchange: &mut Exchange,
    body: &mut ResponseBody<'_>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), ResponseError>> {
    while ready!(body.poll_data(cx, &exchange.deadline))? {
        let length = body.data().len();
        exchange.sent += length as u64;
        if body.is_last() {
            exchange.complete(body.data());
        } else {
            exchange.pass(body.data());
        }
        body.consume(length);
    }
    // Once: the last bytes may have completed it.
    exchange.complete(b"");
    Poll::Ready(Ok(()))
}

/// Why weir did not take it.
fn refused(problem: Problem) -> Refused {
    match problem {
        Problem::RateLimited | Problem::QuotaExhausted => Refused::LimitReached,
        Problem::NoRoute | Problem::UnknownHost | Problem::MethodNotAllowed => Refused::RouteGone,
        Problem::InsufficientScope => Refused::ScopeMissing,
        other => Refused::Rejected(other),
    }
}
