//! A request to an HTTP/1.1 agent.

use super::agents;
use crate::handler::HandlerInput;
use crate::response_body::ResponseBody;
use std::sync::Arc;
use weir_broker::Pool;
use weir_http::body::RequestBody;
use weir_http::clock;
use weir_http::headers::strip_response;
use weir_http::rejection::Rejection;
use weir_upstream::{Http1Response, Http1Upload, OutboundRequest, Scope, Timeouts, UpstreamBody};

/// Sends the request. The head of the response is in `input.response` afterwards.
pub(super) async fn send<'a>(
    input: &mut HandlerInput<'_>,
    pool: &Arc<Pool>,
    body: &mut RequestBody<'a>,
    timeouts: Timeouts,
) -> Result<ResponseBody<'a>, Rejection> {
    let connection = agents(input, pool).0.check_out().await?;
    let called = clock::recent();
    let (method, interim) = (input.request.method, input.context.interim());
    let head = {
        let request = &*input.request;
        let host = input.context.arrival.client.host.as_deref().unwrap_or(request.authority());
        let host = if host.is_empty() { "localhost" } else { host };
        let (name, target) = (request.method_name(), request.target());
        OutboundRequest::new(method, name, target, &request.headers).http1(
            host,
            body.framing(),
            None,
        )
    };
    let mut upload = Http1Upload::new(std::mem::replace(body, RequestBody::empty()));
    upload.set_head(head);
    let (mut agents, response) = agents(input, pool);
    let scope = Scope { method, deadline: agents.deadline, timeouts, upgrade: false, interim };
    let (connection, ()) = agents.send(connection, &mut upload, response, &scope).await?;
    input.recording.responded(called);
    strip_response(input.response, method);
    let body = Http1Response::new(connection, upload, input.response, timeouts.idle);
    Ok(ResponseBody::Upstream(UpstreamBody::Http1(body)))
}
