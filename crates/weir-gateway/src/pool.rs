//! The `pool` handler: a request goes to an agent of a pool, over FastCGI, HTTP/1.1 or as a CGI program.

mod call;
mod fastcgi;
mod http;
mod script;
mod variables;

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::proxy::head;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::upstream::{AgentOutcome, Agents, Timeouts, UpstreamBody};
use bytes::Bytes;
use call::Call;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weir_broker::Pool;
use weir_config::{AgentProtocol, PoolHandler, Route};
use weir_wire::{Framing, Headers, Known, ResponseHead};

/// Most local redirects that one request follows.
const MAX_REDIRECTS: usize = 10;

/// Sends a request to an agent. The head of the response is then in `exchange.response`.
pub(crate) async fn answer<'a>(
    exchange: &mut Exchange,
    route: &Route,
    handler: &PoolHandler,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let settings = &live.site.config.pools[handler.pool.0];
    let pool = live.site.pools[handler.pool.0].pool();
    let timeouts = Timeouts {
        first_byte: handler.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
    };
    body.at_hand()?;
    let responded = async {
        if settings.protocol == AgentProtocol::Http {
            prepare(exchange, route, &settings.headers);
            return http::send(exchange, pool, &mut body, timeouts).await;
        }
        let mut call = Call::default();
        let mut script = script::find(exchange, settings, handler, &call).await?;
        if let Some(path) = &script.own_path {
            exchange.admit_name(path)?;
        }
        prepare(exchange, route, &settings.headers);
        let mut body =
            with_length(exchange, std::mem::replace(&mut body, RequestBody::empty())).await?;
        for _ in 0..=MAX_REDIRECTS {
            let program = (&*script, &call);
            let sent = fastcgi::send(exchange, (pool, settings), program, &mut body, timeouts);
            let location = match sent.await? {
                AgentOutcome::Buffered(bytes) => return Ok(ResponseBody::Whole(bytes)),
                AgentOutcome::Response(body) => {
                    return Ok(ResponseBody::Upstream(UpstreamBody::FastCgi(body)));
                }
                AgentOutcome::Redirect(location) => location,
            };
            let Some(next) = Call::to(exchange, &location) else {
                return Ok(redirect(exchange, &location));
            };
            call = next;
            body = RequestBody::empty();
            script = script::find(exchange, settings, handler, &call).await?;
        }
        Err(Rejection::new(Problem::UpstreamProtocolError).detail("too many local redirects"))
    };
    let result = responded.await;
    if result.is_err() {
        // No agent gets the request. What has come of its body is recorded all the same.
        let _ = body.drop_at_hand();
    }
    result
}

/// The agents of a pool for a request, where the head of the response goes, and interim ones.
fn agents<'e>(
    exchange: &'e mut Exchange,
    pool: &'e Arc<Pool>,
) -> (Agents<'e>, &'e mut ResponseHead, &'e RefCell<Vec<u8>>) {
    let Exchange { worker, deadline, recording, report, response, interim, .. } = exchange;
    let (worker, connections) = (worker.index, &worker.agents);
    let times = recording.times();
    (Agents { pool, worker, connections, deadline, times, report }, response, interim)
}

/// Makes the headers that an agent would get; nothing is sent.
pub(crate) fn outline(exchange: &mut Exchange, route: &Route, handler: &PoolHandler) {
    let live = Rc::clone(exchange.live());
    prepare(exchange, route, &live.site.config.pools[handler.pool.0].headers);
}

/// Redirects the client to the location of a local redirect that this route does not serve.
fn redirect<'a>(exchange: &mut Exchange, location: &str) -> ResponseBody<'a> {
    let response = &mut exchange.response;
    response.clear();
    response.status = 302;
    response.headers.push("location", location.as_bytes());
    ResponseBody::Whole(Bytes::new())
}

/// Programs get the length of a body, and read no more: one of unknown length is buffered first.
async fn with_length<'a>(
    exchange: &Exchange,
    mut body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Rejection> {
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

/// Removes credentials, which programs get only if they are listed. (Names with an underscore are removed
/// as for every upstream.) `Proxy` would become `HTTP_PROXY`, which many programs take for the address
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

#[cfg(test)]
mod tests;
