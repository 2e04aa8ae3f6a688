//! The `pool` handler: an agent of a pool answers, over FastCGI, HTTP/1.1 or as a CGI program.
//!
//! As with an upstream everything happens in the task of the client's connection: the request is
//! sent while the answer is awaited and passed on. Beside that there is an agent to be leased
//! before, and to be given back with word of how it went.

mod answer;
mod call;
mod connect;
mod failure;
mod feeding;
mod http;
mod output;
mod script;
mod speak;
mod variables;

pub(crate) use answer::AgentBody;

use crate::body::RequestBody;
use crate::deadline::{Expired, Wait};
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::proxy::{Limits, head};
use crate::refusal::Refusal;
use crate::response_body::Body;
use bytes::Bytes;
use call::Call;
use speak::Answered;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use weir_broker::{Lease, Pool, Refused};
use weir_config::{AgentProtocol, PoolHandler, Route};
use weir_journal::stage;
use weir_wire::{Framing, Headers, Known};

/// Most local redirects that one request follows.
const REDIRECTS: usize = 10;
/// Most agents that are tried when connecting fails.
const AGENTS_TRIED: usize = 3;

/// Has an agent answer; the answer's head is then in `exchange.response`.
pub(crate) async fn answer<'a>(
    exchange: &mut Exchange,
    route: &Route,
    handler: &PoolHandler,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
    let live = Rc::clone(exchange.live());
    let settings = &live.site.config.pools[handler.pool.0];
    let pool = live.site.pools[handler.pool.0].pool();
    let limits = Limits {
        first_byte: handler.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    body.at_hand()?;
    let answered = async {
        if settings.protocol == AgentProtocol::Http {
            prepare(exchange, route, &settings.headers);
            return http::answer(exchange, pool, &mut body, limits).await;
        }
        let mut call = Call::default();
        let mut script = script::find(exchange, settings, handler, &call).await?;
        if let Some(path) = &script.own_path {
            exchange.admit_name(path)?;
        }
        prepare(exchange, route, &settings.headers);
        let mut body =
            with_length(exchange, std::mem::replace(&mut body, RequestBody::empty())).await?;
        for _ in 0..=REDIRECTS {
            let asked = (&*script, &call);
            let answered = speak::answer(exchange, (pool, settings), asked, &mut body, limits);
            let location = match answered.await? {
                Answered::Body(body) => return Ok(body),
                Answered::Elsewhere(location) => location,
            };
            let Some(next) = Call::to(exchange, &location) else {
                return Ok(sent_away(exchange, &location));
            };
            call = next;
            body = RequestBody::empty();
            script = script::find(exchange, settings, handler, &call).await?;
        }
        Err(Refusal::new(Problem::UpstreamGarbage).detail("too many local redirects"))
    };
    let result = answered.await;
    if result.is_err() {
        // Nobody gets the request. What has come of its body is recorded all the same.
        let _ = body.drop_at_hand();
    }
    result
}

/// Makes the headers that an agent would be told of; nothing is sent.
pub(crate) fn outline(exchange: &mut Exchange, route: &Route, handler: &PoolHandler) {
    let live = Rc::clone(exchange.live());
    prepare(exchange, route, &live.site.config.pools[handler.pool.0].headers);
}

/// Tells the client to go where a program has sent weir, if that is not to be answered here.
fn sent_away<'a>(exchange: &mut Exchange, location: &str) -> Body<'a> {
    let response = &mut exchange.response;
    response.clear();
    response.status = 302;
    response.headers.push("location", location.as_bytes());
    Body::Whole(Bytes::new())
}

/// Programs are told how long a body is, and read no more: one of unknown length is read first.
async fn with_length<'a>(
    exchange: &Exchange,
    mut body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Refusal> {
    match body.framing() {
        Framing::None | Framing::Length(_) => Ok(body),
        Framing::Chunked | Framing::UntilClose => {
            Ok(RequestBody::whole(body.read_whole(&exchange.deadline).await?))
        }
    }
}

/// Turns the client's headers into the agent's, in place.
fn prepare(exchange: &mut Exchange, route: &Route, passed: &[String]) {
    let live = Rc::clone(exchange.live());
    withhold(&mut exchange.request.headers, passed, |known, name| {
        live.site.redaction.is_masked(known, name)
    });
    head::prepare(exchange, route, None, passed);
}

/// Removes what programs are not to see unless it is listed: credentials. (Names with an underscore go
/// as they do for every upstream.) `Proxy` would become `HTTP_PROXY`, which many take for the address
/// of a proxy to use.
fn withhold(headers: &mut Headers, passed: &[String], secret: impl Fn(Known, &str) -> bool) {
    headers.retain(|known, name, _| {
        if name.eq_ignore_ascii_case("proxy") {
            return false;
        }
        let listed = passed.iter().any(|listed| listed.eq_ignore_ascii_case(name));
        listed || !secret(known, name)
    });
}

/// Leases an agent, waiting in the pool's queue if there is none.
async fn lease(exchange: &mut Exchange, pool: &Arc<Pool>) -> Result<Lease, Refusal> {
    let mut waiting = match pool.lease(exchange.worker.index) {
        Ok(Ok(lease)) => return Ok(lease),
        Ok(Err(waiting)) => waiting,
        Err(refused) => return Err(turned_away(refused)),
    };
    let (deadline, limit) = (Rc::clone(&exchange.deadline), waiting.limit());
    deadline.progress();
    let granted = poll_fn(|cx| {
        if let Poll::Ready(granted) = waiting.poll(cx) {
            return Poll::Ready(Ok(granted));
        }
        deadline.poll(cx, Wait::Agent, limit).map(Err)
    });
    let lease = match granted.await {
        Ok(Ok(lease)) => lease,
        Ok(Err(refused)) => return Err(turned_away(refused)),
        Err(Expired::Request) => return Err(Refusal::from(Expired::Request)),
        Err(Expired::Wait(_)) => return Err(turned_away(waiting.expire())),
    };
    deadline.progress();
    exchange.recording.took(stage::QUEUE, lease.waited());
    Ok(lease)
}

/// 503, and when to come again.
fn turned_away(refused: Refused) -> Refusal {
    let (problem, retry, detail) = match refused {
        Refused::Full { retry } => (Problem::PoolBusy, retry, "the pool's queue is full"),
        Refused::Expired { retry } => (Problem::PoolBusy, retry, "no agent was available in time"),
        Refused::Unavailable { retry } => {
            (Problem::PoolUnavailable, retry, "no agent can be started")
        }
    };
    let seconds = retry.max(Duration::from_secs(1)).as_secs();
    Refusal::new(problem).detail(detail).header("retry-after", seconds.to_string())
}

#[cfg(test)]
mod tests;
