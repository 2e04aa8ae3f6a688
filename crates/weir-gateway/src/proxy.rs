//! The `proxy` handler: a request goes to an upstream, its answer comes back, both as they flow.
//!
//! Everything happens in the task of the client's connection: no other task, no channel. The
//! request is pumped while the answer is awaited and while it is sent, so an early answer is
//! passed on and a client that sends before it reads does not hang.

mod answer;
mod fetch;
pub(crate) mod head;
mod hedge;
pub(crate) mod http2;
pub(crate) mod mirror;
mod retry;
pub(crate) mod sending;

pub(crate) use answer::UpstreamBody;
pub(crate) use fetch::fetch;

use crate::body::{Body, RequestBody, RequestBodyError};
use crate::clock;
use crate::deadline::{Deadline, Expired, Wait};
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::stats::Again;
use crate::upgrade;
use crate::upstream::{Call, Connection, Retrying, TakeError, Target, Upstream, hash};
use hedge::Hedge;
use sending::{Sending, SendingError};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use weir_config::{Credential, Instead, Protocol, Proxy, Route, UpstreamId};
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
    let id = exchange.upstream_of(proxy).0;
    let (upstream, settings) = (&live.upstreams[id], &live.site.config.upstreams[id]);
    if settings.protocol == Protocol::Http2 {
        return Box::pin(http2::forward(exchange, route, proxy, body)).await;
    }
    let mut limits = Limits {
        first_byte: proxy.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    body.at_hand()?;
    let upgrade = upgrade::wanted(exchange, proxy, body.framing() == Framing::None)?;
    limits.upgrade = upgrade.is_some();
    if limits.upgrade {
        // What it becomes cannot be copied.
        exchange.mirrors.clear();
    }
    // Before the headers are the upstream's.
    let key = settings.hash.as_ref().and_then(|by| hash::key_of(exchange, by));
    prepare(exchange, route, proxy, settings.credential.as_ref(), &mut body);

    // The reading of the request's start, if nothing has been waited for since.
    let started = clock::recent();
    let retrying = upstream.retrying.as_ref();
    if let Some(retrying) = retrying {
        retrying.request(started);
        limits.first_byte = retrying.try_time(limits.first_byte);
    }
    let method = exchange.request.method;
    let mut choice = Choice { upstream, key, tried: Vec::new() };
    let connected = match connect(&exchange.deadline, method, started, &mut choice).await {
        Err(lost) if retrying.is_none() || lost.why.is_none() => {
            // Nobody gets the request. What has come of its body is recorded all the same.
            let _ = body.drop_at_hand();
            return Err(lost.refusal);
        }
        connected => connected,
    };
    let target = connected.as_ref().map_or(&upstream.targets[0], |(target, _)| target);
    let way = head::Way { proxy, upgrade: upgrade.as_deref() };
    let head = head::encode(exchange, way, &target.authority, body.framing());
    let mut sending = Sending::new(head, body);
    let mut made = 1;
    let mut attempted = match connected {
        Ok((target, connection)) => {
            if !connection.reused {
                exchange.recording.connected(started);
            }
            exchange.call = Some(Call::new(Rc::clone(&target), started));
            match Hedge::of(&choice, method).filter(|_| !limits.upgrade) {
                None => once(exchange, &target, connection, &mut sending, limits, retrying).await,
                Some(hedge) => {
                    let first = (target, connection);
                    let (choice, sending) = (&mut choice, &mut sending);
                    let both =
                        hedge::attempt_both(hedge, exchange, way, choice, first, sending, limits);
                    let attempted;
                    (attempted, made) = Box::pin(both).await;
                    attempted
                }
            }
        }
        Err(lost) => Err(lost),
    };
    if let Some(retrying) = retrying
        && (attempted.is_err() || retrying.wants_another(exchange.response.status))
    {
        let tries = retry::Tries { way, retrying, limits, choice, made, begun: started };
        attempted = Box::pin(tries.more(exchange, &mut sending, attempted)).await;
    } else if made > 1 {
        retry::took(exchange, started);
    }
    let connection = attempted?;
    if let Some(call) = &mut exchange.call {
        call.answered(exchange.response.status);
        exchange.recording.answered(call.started());
    }
    if exchange.response.status == 101 {
        switch(exchange, proxy, upgrade, connection, sending.is_complete())?;
        return Ok(Body::Empty);
    }
    head::receive(exchange);
    let body = UpstreamBody::new(connection, sending, &exchange.response, limits.idle);
    Ok(Body::Upstream(body))
}

/// Turns the client's headers into the upstream's; copies of the request begin with them.
fn prepare(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    credential: Option<&Credential>,
    body: &mut RequestBody<'_>,
) {
    if exchange.mirrors.is_empty() {
        head::prepare(exchange, route, Some(&proxy.headers));
    } else {
        mirror::prepare(exchange, route, proxy, body);
    }
    head::sign(&mut exchange.request.headers, credential);
}

/// Another upstream that a request goes to, if one takes it.
pub(crate) fn instead(exchange: &Exchange, proxy: &Proxy) -> Option<UpstreamId> {
    if proxy.instead.is_empty() {
        return None;
    }
    let scope = exchange.scope();
    let takes = |other: &&Instead| {
        other.when.as_ref().is_none_or(|when| when.holds(&scope))
            && other.share.as_ref().is_none_or(|share| {
                hash::key_of(exchange, &share.by).is_some_and(|key| hash::is_in(key, share.part))
            })
    };
    proxy.instead.iter().find(takes).map(|other| other.upstream)
}

/// The upstream says that it has switched to another protocol.
fn switch(
    exchange: &mut Exchange,
    proxy: &Proxy,
    upgrade: Option<String>,
    connection: Box<Connection>,
    whole: bool,
) -> Result<(), Refusal> {
    let settings = proxy.upgrade.as_ref().filter(|_| whole);
    let switched = settings
        .zip(upgrade)
        .and_then(|(settings, protocol)| upgrade::accept(exchange, connection, protocol, settings));
    switched.ok_or_else(|| {
        Refusal::new(Problem::UpstreamGarbage).detail("it agreed to an upgrade nobody asked for")
    })
}

/// The head that a request would be forwarded with, and the authority of the target it would go to;
/// no connection is made and nothing is sent.
pub(crate) fn outline(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    framing: Framing,
    upgrade: Option<&str>,
) -> Option<(Vec<u8>, String)> {
    let live = Rc::clone(exchange.live());
    let id = exchange.upstream_of(proxy).0;
    let (upstream, settings) = (&live.upstreams[id], &live.site.config.upstreams[id]);
    let key = settings.hash.as_ref().and_then(|by| hash::key_of(exchange, by));
    head::prepare(exchange, route, Some(&proxy.headers));
    head::sign(&mut exchange.request.headers, settings.credential.as_ref());
    let target = &upstream.targets[upstream.choose(&[], key)?];
    let way = head::Way { proxy, upgrade };
    let mut out = head::encode(exchange, way, &target.authority, framing);
    Some((std::mem::take(out.head()), target.name.clone()))
}

/// A try that did not bring an answer.
struct Lost {
    refusal: Refusal,
    /// Why another try might.
    why: Option<Again>,
}

impl From<Lost> for Refusal {
    fn from(lost: Lost) -> Self {
        lost.refusal
    }
}

/// Where a request may go.
struct Choice<'u> {
    upstream: &'u Upstream,
    /// What it is kept together with others by.
    key: Option<u64>,
    /// Targets that have had their try, or could not be connected to.
    tried: Vec<usize>,
}

/// Finds a target that can be reached, and a connection to it; those that cannot have been tried.
async fn connect(
    deadline: &Deadline,
    method: Method,
    started: Instant,
    choice: &mut Choice<'_>,
) -> Result<(Rc<Target>, Box<Connection>), Lost> {
    let Choice { upstream, key, tried } = choice;
    loop {
        let Some(index) = upstream.choose(tried, *key) else {
            return Err(Lost { refusal: Problem::UpstreamUnreachable.into(), why: None });
        };
        let target = &upstream.targets[index];
        match target.take(deadline).await {
            Ok(connection) => return Ok((Rc::clone(target), connection)),
            Err(error) => {
                tried.push(index);
                let lost = not_taken(target, error, method, started);
                if tried.len() == upstream.targets.len().min(TARGETS_TRIED) {
                    return Err(lost);
                }
            }
        }
    }
}

/// How long an upstream may take, and what it may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    /// It may switch to another protocol.
    pub(crate) upgrade: bool,
}

/// There is no connection to `target` for a request that wanted one since `started`; that is
/// counted.
fn not_taken(target: &Rc<Target>, error: TakeError, method: Method, started: Instant) -> Lost {
    if let Some(label) = error.label() {
        Call::new(Rc::clone(target), started).end(method, label, Instant::now());
    }
    not_connected(target, error)
}

fn not_connected(target: &Target, error: TakeError) -> Lost {
    let (refusal, why) = match error {
        TakeError::Busy => return Lost { refusal: Problem::UpstreamBusy.into(), why: None },
        TakeError::Connect(error) => {
            // The kind says enough; the text could name inner addresses.
            let kind = error.kind().to_string();
            (Refusal::new(Problem::UpstreamUnreachable).detail(kind), Some(Again::Connect))
        }
        TakeError::Late(Expired::Request) => (Refusal::from(Expired::Request), None),
        TakeError::Late(expired) => (Refusal::from(expired), Some(Again::Connect)),
    };
    target.health.failed(Instant::now());
    Lost { refusal, why }
}

/// What a try needs to know of its request.
struct Asking<'e> {
    method: Method,
    deadline: &'e Deadline,
    limits: Limits,
    /// There if repeats have to be within a budget.
    retrying: Option<&'e Retrying>,
    /// Where interim answers go to, if the client takes them.
    pass_on: Option<&'e RefCell<Vec<u8>>>,
    /// How often it was sent again because a kept connection was closed.
    repeats: Cell<u32>,
}

impl<'e> Asking<'e> {
    fn of(exchange: &'e Exchange, limits: Limits, retrying: Option<&'e Retrying>) -> Self {
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
async fn once(
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
async fn attempt(
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

fn failed(target: &Target, failure: Failure) -> Lost {
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
            final_one(Refusal::new(Problem::UpstreamGarbage).detail("unexpected interim answers"))
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
