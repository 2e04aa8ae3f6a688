//! The `proxy` handler: a request goes to an upstream, its answer comes back, both as they flow.
//!
//! Everything happens in the task of the client's connection: no other task, no channel. The
//! request is pumped while the answer is awaited and while it is sent, so an early answer is
//! passed on and a client that sends before it reads does not hang.

mod answer;
mod fetch;
pub(crate) mod head;
pub(crate) mod sending;

pub(crate) use answer::UpstreamBody;
pub(crate) use fetch::fetch;

use crate::body::{Body, RequestBody, RequestBodyError};
use crate::clock;
use crate::deadline::{Deadline, Expired, Wait};
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::upstream::{Call, Connection, TakeError, Target, Upstream};
use sending::{Sending, SendingError};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use weir_config::{Proxy, Route};
use weir_wire::{Framing, HeadError, HeadLimits, Method, ResponseHead, Scan};

/// Bounds on an answer's head. Not a client's doing, so not a setting.
pub(crate) const ANSWER_LIMITS: HeadLimits =
    HeadLimits { bytes: 64 * 1024, fields: 256, target: 0 };
/// Most interim (1xx) answers before the final one.
const INTERIM: usize = 8;
/// Most targets that are tried when connecting fails.
const TARGETS_TRIED: usize = 3;

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client's body cannot be had.
    Client(RequestBodyError),
    /// The upstream closed before a whole head; whether any byte of one had come.
    Closed {
        answered: bool,
    },
    Garbage(HeadError),
    /// More interim answers than there may be, or an upgrade nobody asked for.
    Interim,
    Late(Expired),
}

/// Forwards a request; the answer's head is then in `exchange.response`.
pub(crate) async fn forward<'a>(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
    let live = Rc::clone(exchange.live());
    let upstream = &live.upstreams[proxy.upstream.0];
    let settings = &live.site.config.upstreams[proxy.upstream.0];
    let limits = Limits {
        first_byte: proxy.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
    };
    body.at_hand()?;
    head::prepare(exchange, route, Some(&proxy.headers), settings.credential.as_ref());

    // The reading of the request's start, if nothing has been waited for since.
    let started = clock::recent();
    let (target, connection) =
        match connect(&exchange.deadline, exchange.request.method, upstream, started).await {
            Ok(connected) => connected,
            Err(refusal) => {
                // Nobody gets the request. What has come of its body is recorded all the same.
                let _ = body.drop_at_hand();
                return Err(refusal);
            }
        };
    if !connection.reused {
        exchange.recording.connected(started);
    }
    exchange.call = Some(Call::new(Rc::clone(&target), started));
    let head = head::encode(exchange, proxy, &target.authority, body.framing());
    let mut sending = Sending::new(head, body);
    let connection = attempt(exchange, &target, connection, &mut sending, limits).await?;
    target.health.succeeded();
    if let Some(call) = &mut exchange.call {
        call.answered(exchange.response.status);
    }
    exchange.recording.answered(started);
    head::receive(exchange);
    let body = UpstreamBody::new(connection, sending, &exchange.response, limits.idle);
    Ok(Body::Upstream(body))
}

/// The head that a request would be forwarded with, and the authority of the target it would go to;
/// no connection is made and nothing is sent.
pub(crate) fn outline(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    framing: Framing,
) -> Option<(Vec<u8>, String)> {
    let live = Rc::clone(exchange.live());
    let settings = &live.site.config.upstreams[proxy.upstream.0];
    let upstream = &live.upstreams[proxy.upstream.0];
    head::prepare(exchange, route, Some(&proxy.headers), settings.credential.as_ref());
    let target = &upstream.targets[upstream.choose(&[])?];
    let mut out = head::encode(exchange, proxy, &target.authority, framing);
    Some((std::mem::take(out.head()), target.authority.clone()))
}

/// Finds a target that can be reached, and a connection to it.
async fn connect(
    deadline: &Deadline,
    method: Method,
    upstream: &Upstream,
    started: Instant,
) -> Result<(Rc<Target>, Box<Connection>), Refusal> {
    let mut tried = Vec::new();
    loop {
        let Some(index) = upstream.choose(&tried) else {
            return Err(Problem::UpstreamUnreachable.into());
        };
        let target = &upstream.targets[index];
        match target.take(deadline).await {
            Ok(connection) => return Ok((Rc::clone(target), connection)),
            Err(error) => {
                tried.push(index);
                if let Some(why) = error.label() {
                    let call = Call::new(Rc::clone(target), started);
                    call.end(method, why, Instant::now());
                }
                let refusal = not_taken(target, error);
                if tried.len() == upstream.targets.len().min(TARGETS_TRIED) {
                    return Err(refusal);
                }
            }
        }
    }
}

/// How long an upstream may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

fn not_taken(target: &Target, error: TakeError) -> Refusal {
    let refusal = match error {
        TakeError::Busy => return Problem::UpstreamBusy.into(),
        TakeError::Connect(error) => {
            // The kind says enough; the text could name inner addresses.
            Refusal::new(Problem::UpstreamUnreachable).detail(error.kind().to_string())
        }
        TakeError::Late(expired) => Refusal::from(expired),
    };
    target.health.failed(Instant::now());
    refusal
}

/// Sends the request over `connection`; once more over a fresh one when a kept connection turns
/// out to be closed and that does no harm. Gives the connection on which the head of an answer has
/// come.
async fn attempt(
    exchange: &mut Exchange,
    target: &Rc<Target>,
    mut connection: Box<Connection>,
    sending: &mut Sending<'_>,
    limits: Limits,
) -> Result<Box<Connection>, Refusal> {
    loop {
        let method = exchange.request.method;
        let pass_on = exchange.takes_interim().then_some(&*exchange.interim);
        let failure = match send_and_wait(
            &mut connection,
            sending,
            method,
            &mut exchange.response,
            &exchange.deadline,
            limits,
            pass_on,
        )
        .await
        {
            Ok(()) => return Ok(connection),
            Err(failure) => failure,
        };
        let stale = connection.reused && matches!(failure, Failure::Closed { answered: false });
        if stale && sending.may_repeat(method) {
            drop(connection);
            target.stats.retries.add(1);
            exchange.recording.sent_again();
            connection = Box::pin(target.take_fresh(&exchange.deadline))
                .await
                .map_err(|e| not_taken(target, e))?;
            sending.rewind();
            continue;
        }
        return Err(failed(target, failure));
    }
}

fn failed(target: &Target, failure: Failure) -> Refusal {
    let refusal = match failure {
        // Not the upstream's doing.
        Failure::Client(error) => return error.into(),
        Failure::Late(Expired::Wait(Wait::RequestBody)) => return Problem::RequestTimeout.into(),
        Failure::Closed { .. } => Problem::UpstreamClosed.into(),
        Failure::Garbage(error) => Refusal::new(Problem::UpstreamGarbage).detail(error.to_string()),
        Failure::Interim => {
            Refusal::new(Problem::UpstreamGarbage).detail("unexpected interim answers")
        }
        Failure::Late(expired) => Refusal::from(expired),
    };
    target.health.failed(Instant::now());
    refusal
}

/// Sends the request and waits for the head of the answer, both at once.
pub(crate) async fn send_and_wait(
    connection: &mut Connection,
    sending: &mut Sending<'_>,
    method: Method,
    response: &mut ResponseHead,
    deadline: &Deadline,
    limits: Limits,
    pass_on: Option<&RefCell<Vec<u8>>>,
) -> Result<(), Failure> {
    let mut reading = Reading { scan: Scan::new(), interim: 0, pass_on };
    deadline.progress();
    poll_fn(|cx| {
        let mut body_late = false;
        if !sending.is_over() {
            match sending.poll(&connection.stream, cx) {
                Poll::Ready(Ok(())) => deadline.progress(),
                Poll::Ready(Err(SendingError::Client(error))) => {
                    return Poll::Ready(Err(Failure::Client(error)));
                }
                // The upstream takes no more; perhaps it has answered.
                Poll::Ready(Err(SendingError::Upstream)) => {}
                Poll::Pending => body_late = true,
            }
            if sending.take_moved() {
                deadline.progress();
            }
        }
        if let Poll::Ready(done) = reading.poll(connection, method, response, cx) {
            return Poll::Ready(done);
        }
        let (wait, limit) = match (body_late, sending.waits_for_client()) {
            (true, true) => (Wait::RequestBody, sending.client_idle()),
            (true, false) => (Wait::UpstreamBody, limits.idle),
            (false, _) => (Wait::FirstByte, limits.first_byte),
        };
        deadline.poll(cx, wait, limit).map(|expired| Err(Failure::Late(expired)))
    })
    .await
}

/// Where reading an answer's head stands.
struct Reading<'i> {
    scan: Scan,
    interim: usize,
    /// Where interim answers go to, if the client takes them.
    pass_on: Option<&'i RefCell<Vec<u8>>>,
}

impl Reading<'_> {
    fn poll(
        &mut self,
        connection: &mut Connection,
        method: Method,
        response: &mut ResponseHead,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            let bytes = connection.buffer.filled();
            match response.parse(bytes, method, &mut self.scan, &ANSWER_LIMITS) {
                Err(error) => return Poll::Ready(Err(Failure::Garbage(error))),
                Ok(Some(length)) => {
                    connection.buffer.consume(length);
                    self.scan = Scan::new();
                    if response.status >= 200 {
                        return Poll::Ready(Ok(()));
                    }
                    self.interim += 1;
                    if response.status == 101 || self.interim > INTERIM {
                        return Poll::Ready(Err(Failure::Interim));
                    }
                    // Weir itself tells the client to go on.
                    if let Some(interim) = self.pass_on.filter(|_| response.status != 100) {
                        head::pass_interim(response, &mut interim.borrow_mut());
                    }
                    continue;
                }
                Ok(None) => {}
            }
            let answered = self.interim > 0 || !connection.buffer.is_empty();
            match connection.poll_fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(Err(Failure::Closed { answered }));
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
    }
}
