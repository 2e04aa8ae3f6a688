//! A request to an agent that speaks HTTP/1.1.

use super::{Hold, connect};
use crate::body::{Body, RequestBody};
use crate::clock;
use crate::deadline::{Expired, Wait};
use crate::exchange::Exchange;
use crate::outgoing::Outgoing;
use crate::problem::Problem;
use crate::proxy::sending::Sending;
use crate::proxy::{self, Failure, Limits, UpstreamBody, head};
use crate::refusal::Refusal;
use crate::upstream::{Connection, Failed};
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
        let Err(failure) = sent.await else { break };
        let lost = matches!(failure, Failure::Closed { answered: false });
        let again = lost
            && sending.may_repeat(method)
            && connect::may_repeat(&mut connection, repeats).await;
        if !again {
            return Err(failed(*connection, failure));
        }
        repeats += 1;
        connection = connect::again(exchange, pool, connection).await?;
        sending.rewind();
    }
    if !connection.reused
        && let Some(lease) = connection.hold().and_then(Hold::lease)
    {
        lease.answers();
    }
    exchange.recording.answered(called);
    head::receive(exchange);
    Ok(Body::Upstream(UpstreamBody::new(connection, sending, &exchange.response, limits.idle)))
}

fn encode(exchange: &Exchange, framing: Framing) -> Outgoing {
    let request = &exchange.request;
    let mut out = Outgoing::default();
    let head = out.head();
    encode::request_line(head, request.method_name(), request.target());
    let host = exchange.client.host.as_deref().unwrap_or(request.authority());
    encode::field(head, "host", if host.is_empty() { b"localhost" } else { host.as_bytes() });
    encode::fields(head, &request.headers);
    match framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(length) => encode::content_length(head, length),
        Framing::Chunked => encode::field(head, "transfer-encoding", b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
    out
}

fn failed(connection: Connection, failure: Failure) -> Refusal {
    match failure {
        // Dropped, the agent is looked after.
        Failure::Client(error) => error.into(),
        Failure::Late(Expired::Wait(Wait::RequestBody)) => Problem::RequestTimeout.into(),
        Failure::Closed { .. } => {
            connection.failed(Failed::Closed);
            Problem::UpstreamClosed.into()
        }
        Failure::Garbage(error) => {
            connection.failed(Failed::Garbage);
            Refusal::new(Problem::UpstreamGarbage).detail(error.to_string())
        }
        Failure::Interim => {
            connection.failed(Failed::Garbage);
            Refusal::new(Problem::UpstreamGarbage).detail("unexpected interim answers")
        }
        Failure::Late(expired) => {
            connection.failed(Failed::Late);
            Refusal::from(expired)
        }
    }
}
