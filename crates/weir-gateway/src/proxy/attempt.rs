//! One try: the request goes out, the head of an answer comes in.

use super::choice::{Lost, not_connected};
use super::sending::{Sending, SendingError};
use super::{ANSWER_LIMITS, Limits, head};
use crate::body::RequestBodyError;
use crate::clock;
use crate::deadline::{Deadline, Expired, Wait};
use crate::exchange::Exchange;
use crate::labels::Again;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::upstream::{Connection, Retrying, Target};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;
use weir_wire::{HeadError, Method, ResponseHead, Scan};

/// Most interim (1xx) answers before the final one.
const INTERIM: usize = 8;

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

/// What a try needs to know of its request.
pub(super) struct Asking<'e> {
    pub(super) method: Method,
    pub(super) deadline: &'e Deadline,
    pub(super) limits: Limits,
    /// There if repeats have to be within a budget.
    pub(super) retrying: Option<&'e Retrying>,
    /// Where interim answers go to, if the client takes them.
    pub(super) pass_on: Option<&'e RefCell<Vec<u8>>>,
    /// How often it was sent again because a kept connection was closed.
    pub(super) repeats: Cell<u32>,
}

impl<'e> Asking<'e> {
    pub(super) fn of(
        exchange: &'e Exchange,
        limits: Limits,
        retrying: Option<&'e Retrying>,
    ) -> Self {
        Self {
            method: exchange.request.method,
            deadline: &exchange.deadline,
            limits,
            retrying,
            pass_on: exchange.takes_interim().then_some(&*exchange.interim),
            repeats: Cell::new(0),
        }
    }
}

/// One try of a client's request; the answer's head is then in `exchange.response`.
pub(super) async fn once(
    exchange: &mut Exchange,
    target: &Rc<Target>,
    connection: Box<Connection>,
    sending: &mut Sending<'_>,
    limits: Limits,
    retrying: Option<&Retrying>,
) -> Result<Box<Connection>, Lost> {
    let asking = Asking {
        method: exchange.request.method,
        deadline: &exchange.deadline,
        limits,
        retrying,
        pass_on: exchange.takes_interim().then_some(&*exchange.interim),
        repeats: Cell::new(0),
    };
    let response = &mut exchange.response;
    let attempted = attempt(&asking, target, connection, sending, response).await;
    let repeats = asking.repeats.get();
    (0..repeats).for_each(|_| exchange.recording.sent_again());
    attempted
}

/// Sends the request over `connection`; once more over a fresh one when a kept connection turns
/// out to be closed and that does no harm. Gives the connection on which the head of an answer has
/// come.
pub(super) async fn attempt(
    asking: &Asking<'_>,
    target: &Rc<Target>,
    mut connection: Box<Connection>,
    sending: &mut Sending<'_>,
    response: &mut ResponseHead,
) -> Result<Box<Connection>, Lost> {
    let Asking { method, deadline, limits, retrying, pass_on, .. } = *asking;
    loop {
        let sent =
            send_and_wait(&mut connection, sending, method, response, deadline, limits, pass_on);
        let Err(failure) = sent.await else { return Ok(connection) };
        let stale = connection.reused && matches!(failure, Failure::Closed { answered: false });
        if stale
            && sending.may_repeat(method)
            && retrying.is_none_or(|retrying| retrying.spend(clock::now()))
        {
            drop(connection);
            target.stats.sent_again(Again::Stale);
            asking.repeats.set(asking.repeats.get() + 1);
            connection = Box::pin(target.take_fresh(deadline))
                .await
                .map_err(|e| not_connected(target, e))?;
            sending.rewind();
            continue;
        }
        return Err(failed(target, failure));
    }
}

pub(super) fn failed(target: &Target, failure: Failure) -> Lost {
    let final_one = |refusal| Lost { refusal, why: None };
    let lost = match failure {
        // Not the upstream's doing.
        Failure::Client(error) => return final_one(error.into()),
        Failure::Late(Expired::Wait(Wait::RequestBody)) => {
            return final_one(Problem::RequestTimeout.into());
        }
        Failure::Closed { answered } => Lost {
            refusal: Problem::UpstreamClosed.into(),
            why: (!answered).then_some(Again::Closed),
        },
        Failure::Garbage(error) => {
            final_one(Refusal::new(Problem::UpstreamGarbage).detail(error.to_string()))
        }
        Failure::Interim => {
            final_one(Refusal::new(Problem::UpstreamGarbage).detail("unexpected interim responses"))
        }
        Failure::Late(Expired::Request) => final_one(Expired::Request.into()),
        Failure::Late(expired) => {
            Lost { refusal: Refusal::from(expired), why: Some(Again::Timeout) }
        }
    };
    target.health.failed(Instant::now());
    lost
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
    let mut reading = Reading { scan: Scan::new(), interim: 0, upgrade: limits.upgrade, pass_on };
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
    /// It may be one that switches protocols.
    upgrade: bool,
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
                    if response.status >= 200 || (response.status == 101 && self.upgrade) {
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
