//! A request to an agent that speaks HTTP/1.1.

use super::connect;
use super::failure::Failure;
use crate::body::RequestBody;
use crate::clock;
use crate::exchange::Exchange;
use crate::headers::strip_response;
use crate::outgoing::Outgoing;
use crate::proxy::sending::Sending;
use crate::proxy::{self, Limits, UpstreamBody, head};
use crate::refusal::Refusal;
use crate::response_body::Body;
use std::sync::Arc;
use weir_broker::Pool;
use weir_wire::{Framing, encode};

/// Has it answer.
pub(super) async fn answer<'a>(
    exchange: &mut Exchange,
    pool: &Arc<Pool>,
    body: &mut RequestBody<'a>,
    limits: Limits,
) -> Result<Body<'a>, Refusal> {
    let mut connection = connect::agent(exchange, pool, true).await?;
    let called = clock::recent();
    let head = encode(exchange, body.framing());
    let mut sending = Sending::new(head, std::mem::replace(body, RequestBody::empty()));
    let method = exchange.request.method;
    let mut repeats = 0;
    loop {
        let pass_on = exchange.takes_interim().then_some(&*exchange.interim);
        let sent = proxy::send_and_wait(
            &mut connection,
            &mut sending,
            method,
            &mut exchange.response,
            &exchange.deadline,
            limits,
            pass_on,
        );
        let Err(failure) = sent.await.map_err(Failure::from) else { break };
        let again = failure.is_lost()
            && sending.may_repeat(method)
            && connect::may_repeat(&mut connection, repeats).await;
        if !again {
            return Err(failure.give_up(*connection));
        }
        repeats += 1;
        connection = connect::again(exchange, pool, connection).await?;
        sending.rewind();
    }
    connect::answers(&mut connection);
    exchange.recording.answered(called);
    strip_response(&mut exchange.response, exchange.request.method);
    Ok(Body::Upstream(UpstreamBody::new(connection, sending, &exchange.response, limits.idle)))
}

fn encode(exchange: &Exchange, framing: Framing) -> Outgoing {
    let request = &exchange.request;
    let mut out = Outgoing::default();
    let written = out.head();
    encode::request_line(written, request.method_name(), request.target());
    let host = exchange.client.host.as_deref().unwrap_or(request.authority());
    encode::field(written, "host", if host.is_empty() { b"localhost" } else { host.as_bytes() });
    head::finish(written, &request.headers, framing);
    out
}
