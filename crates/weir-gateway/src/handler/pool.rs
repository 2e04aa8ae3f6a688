//! The `pool` handler: sends a request to an agent of a pool, over FastCGI, HTTP/1.1 or as a CGI
//! program.

mod call;
mod fastcgi;
mod http;
mod script;
mod variables;

use super::{HandlerInput, Outline, head};
use crate::context::Context;
use crate::response_body::ResponseBody;
use bytes::Bytes;
use call::Call;
use std::sync::Arc;
use weir_broker::Pool;
use weir_config::PoolHandler;
use weir_http::body::RequestBody;
use weir_http::deadline::Deadline;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_model::pool::AgentProtocol;
use weir_upstream::{AgentOutcome, Agents, Timeouts, UpstreamBody};
use weir_wire::{Framing, Headers, Known, RequestHead, ResponseHead};

/// Maximum number of local redirects of one request.
const MAX_REDIRECTS: usize = 10;

/// Sends a request to an agent.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    handler: &PoolHandler,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = input.context.live;
    let settings = &live.site.config.pools[handler.pool.0];
    let pool = live.site.pools[handler.pool.0].pool();
    let timeouts = Timeouts {
        first_byte: handler.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
    };
    body.read_buffered()?;
    let responded = async {
        if settings.protocol == AgentProtocol::Http {
            prepare(&input.context, input.request, &settings.headers);
            return http::send(input, pool, &mut body, timeouts).await;
        }
        let mut call = Call::default();
        let mut script =
            script::find(&input.context, input.request, settings, handler, &call).await?;
        if let Some(path) = &script.own_path {
            input.context.admit_name(input.request, path)?;
        }
        prepare(&input.context, input.request, &settings.headers);
        let taken = std::mem::replace(&mut body, RequestBody::empty());
        let mut body = with_length(input.context.deadline, taken).await?;
        for _ in 0..=MAX_REDIRECTS {
            let program = (&*script, &call);
            let sent = fastcgi::send(input, (pool, settings), program, &mut body, timeouts);
            let location = match sent.await? {
                AgentOutcome::Buffered(bytes) => return Ok(ResponseBody::Whole(bytes)),
                AgentOutcome::Response(body) => {
                    return Ok(ResponseBody::Upstream(UpstreamBody::FastCgi(body)));
                }
                AgentOutcome::Redirect(location) => location,
            };
            let Some(next) = Call::to(&input.context, input.request, &location) else {
                return Ok(redirect(input.response, &location));
            };
            call = next;
            body = RequestBody::empty();
            script = script::find(&input.context, input.request, settings, handler, &call).await?;
        }
        Err(Rejection::new(Problem::UpstreamProtocolError).detail("too many local redirects"))
    };
    let result = responded.await;
    if result.is_err() {
        // No agent receives the request. Buffered bytes of its body are recorded nevertheless.
        let _ = body.discard_buffered();
    }
    result
}

/// The agents of a pool for a request, and the response head to write.
fn agents<'e>(
    input: &'e mut HandlerInput<'_>,
    pool: &'e Arc<Pool>,
) -> (Agents<'e>, &'e mut ResponseHead) {
    let HandlerInput { context, recording, report, response, .. } = input;
    let (worker, connections) = (context.worker.index, &context.worker.agents);
    let (deadline, times) = (context.deadline, recording.times());
    (Agents { pool, worker, connections, deadline, times, report }, response)
}

/// Builds the headers for an agent.
pub(super) fn outline(input: &mut HandlerInput<'_>, handler: &PoolHandler) -> Outline {
    let settings = &input.context.config().pools[handler.pool.0];
    prepare(&input.context, input.request, &settings.headers);
    Outline::Whole("pool", settings.name.clone())
}

/// Redirects the client to a location that another route serves.
fn redirect<'a>(response: &mut ResponseHead, location: &str) -> ResponseBody<'a> {
    response.clear();
    response.status = 302;
    response.headers.push("location", location.as_bytes());
    ResponseBody::Whole(Bytes::new())
}

/// Programs read as many bytes as declared: a body of unknown length is buffered first.
async fn with_length<'a>(
    deadline: &Deadline,
    mut body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Rejection> {
    match body.framing() {
        Framing::None | Framing::Length(_) => Ok(body),
        Framing::Chunked | Framing::UntilClose => {
            Ok(RequestBody::buffered(body.read_all(deadline).await?))
        }
    }
}

/// Converts the client's headers to the agent's, in place.
fn prepare(context: &Context<'_>, request: &mut RequestHead, passed: &[String]) {
    withhold(&mut request.headers, passed, |known, name| {
        context.live.site.redaction.is_masked(known, name)
    });
    head::prepare(context, request, None, passed);
}

/// Removes credentials, which programs receive only if listed. (Names with an underscore are
/// removed as for every upstream.) `Proxy` would become `HTTP_PROXY`, which many programs use as
/// the address of a proxy.
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
