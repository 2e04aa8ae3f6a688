//! A worker's side of the door.

use super::plan::{Planned, plan};
use super::{AT_ONCE, Ended, Entry, Order, Refused, Resubmission, trial};
use crate::body::{AnswerError, RequestBody};
use crate::exchange::{Exchange, Protocol};
use crate::flow::{Gone, flow};
use crate::problem::Problem;
use crate::response_body::Body;
use crate::worker::Worker;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{Semaphore, mpsc};
use weir_wire::{Method, Version};

/// Serves what comes through the door until nobody can send any more.
pub(crate) async fn receive(worker: &'static Worker, mut entries: mpsc::Receiver<Entry>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(entry) = entries.recv().await {
        let order = match entry {
            Entry::Again(order) => order,
            Entry::Trial(tried) => {
                trial::receive(worker, tried, &places).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        tokio::task::spawn_local(async move {
            let _place = place;
            let ended = serve(worker, &order).await;
            order.ended(ended);
        });
    }
}

async fn serve(worker: &'static Worker, order: &Order) -> Ended {
    let live = worker.live();
    let planned = match plan(&live.site, &order.request) {
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
    exchange.begin_replay(order.request.id, client, replay);
    let body = body(&order.request);
    let ended = match flow(&mut exchange, body).await {
        Ok(answer) => take(&mut exchange, answer).await,
        Err(Gone) => {
            exchange.abort(None);
            Ended::Lost
        }
    };
    exchange.give_back();
    ended
}

/// Its body. An empty one has a length if it had one: there are servers that insist on it.
fn body(request: &Resubmission) -> RequestBody<'static> {
    let told = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("content-length");
    if request.body.is_empty() && !request.headers.iter().any(told) {
        return RequestBody::empty();
    }
    RequestBody::whole(request.body.clone())
}

/// Reads an answer to its end; nobody wants it but the journal.
async fn take(exchange: &mut Exchange, mut answer: Body<'_>) -> Ended {
    let status = exchange.response.status;
    if exchange.request.method == Method::Head || matches!(status, 204 | 304) {
        answer = Body::Empty;
    }
    exchange.deadline.progress();
    if let Err(error) = poll_fn(|cx| poll_take(exchange, &mut answer, cx)).await {
        exchange.abort(Some(&error));
        return Ended::Broken { status };
    }
    // The record is as durable as that of any other answer before it is told.
    let _ = poll_fn(|cx| exchange.poll_kept(cx)).await;
    match exchange.problem {
        Some(problem) if !exchange.admitted => Ended::Refused(refused(problem)),
        problem => Ended::Answered { status, problem },
    }
}

fn poll_take(
    exchange: &mut Exchange,
    answer: &mut Body<'_>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), AnswerError>> {
    while ready!(answer.poll_data(cx, &exchange.deadline))? {
        let length = answer.data().len();
        exchange.sent += length as u64;
        if answer.is_last() {
            exchange.complete(answer.data());
        } else {
            exchange.pass(answer.data());
        }
        answer.consume(length);
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
