//! A second try beside the first one, when that has no answer after a while.
//!
//! ```text
//! first try ──── no head in time ──── another target, budget ──── both ──── the first good head
//! ```
//!
//! The client's own task polls both. Whichever is beaten is dropped where it is: its connection is
//! closed, of HTTP/2 its stream is reset.

use super::sending::Sending;
use super::{Asking, Choice, Limits, Lost, UpstreamBody, attempt, head, not_taken};
use crate::clock;
use crate::exchange::Exchange;
use crate::labels::{Again, Hedged, NotAgain};
use crate::spans::{Open, TrySpan};
use crate::upstream::{Call, Connection, Retrying, Target};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use weir_wire::{Method, ResponseHead};

/// That a request may have a second try beside its first one.
#[derive(Clone, Copy)]
pub(super) struct Hedge<'u> {
    pub(super) retrying: &'u Retrying,
    after: Duration,
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    First,
    Second,
}

/// The call of a second try, once it has begun; beaten, unless it is taken.
pub(super) struct Beside {
    method: Method,
    call: Cell<Option<Call>>,
}

impl Beside {
    pub(super) fn new(method: Method) -> Self {
        Self { method, call: Cell::new(None) }
    }

    pub(super) fn begin(&self, target: &Rc<Target>, started: Instant, span: Option<TrySpan>) {
        self.call.set(Some(Call::traced(Rc::clone(target), started, span)));
    }
}

impl Drop for Beside {
    /// The client left while both were under way.
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call.end(self.method, CANCELLED, clock::now());
        }
    }
}

/// How a call ended that nobody waits for any more.
pub(super) const CANCELLED: &str = "cancelled";

/// How a race ended.
pub(super) struct Raced<A> {
    pub(super) winner: Runner,
    pub(super) answer: A,
    /// What the other one had brought, if it was over: nothing good.
    pub(super) beaten: Option<A>,
    /// There was a second one.
    pub(super) hedged: bool,
}

impl<'u> Hedge<'u> {
    /// `None` unless it is asked for, doing it twice is the same as once, and there is somebody else.
    pub(super) fn of(choice: &Choice<'u>, method: Method) -> Option<Self> {
        let retrying = choice.upstream.retrying.as_ref()?;
        let after = retrying.hedge()?;
        let may = choice.upstream.targets.len() > 1 && method.is_idempotent();
        may.then_some(Self { retrying, after })
    }

    /// Who has the second try, now that `first` has had its time; what may not be is counted.
    pub(super) fn second(&self, choice: &mut Choice<'_>, first: &Rc<Target>) -> Option<Rc<Target>> {
        let other = choice.other_than(first)?;
        if !self.retrying.spend(clock::now()) {
            first.stats.not_sent_again(NotAgain::Budget);
            return None;
        }
        first.stats.sent_again(Again::Hedge);
        Some(Rc::clone(&choice.upstream.targets[other]))
    }

    /// Runs `first`, and beside it after a while what `begin` gives, until one is good or both are
    /// over.
    pub(super) async fn race<A, S: Future<Output = A>>(
        &self,
        first: impl Future<Output = A>,
        begin: impl FnOnce() -> Option<S>,
        is_good: impl Fn(&A) -> bool,
    ) -> Raced<A> {
        let mut first = pin!(first);
        let alone = |answer| Raced { winner: Runner::First, answer, beaten: None, hedged: false };
        if let Ok(answer) = tokio::time::timeout(self.after, first.as_mut()).await {
            return alone(answer);
        }
        let Some(second) = begin() else { return alone(first.await) };
        let mut second = pin!(second);
        // Whichever is over and not good.
        let mut beaten: Option<(Runner, A)> = None;
        poll_fn(|cx| {
            for runner in [Runner::First, Runner::Second] {
                if beaten.as_ref().is_some_and(|(who, _)| *who == runner) {
                    continue;
                }
                let polled = match runner {
                    Runner::First => first.as_mut().poll(cx),
                    Runner::Second => second.as_mut().poll(cx),
                };
                let Poll::Ready(answer) = polled else { continue };
                if is_good(&answer) || beaten.is_some() {
                    let beaten = beaten.take().map(|(_, answer)| answer);
                    return Poll::Ready(Raced { winner: runner, answer, beaten, hedged: true });
                }
                beaten = Some((runner, answer));
            }
            Poll::Pending
        })
        .await
    }
}

impl Choice<'_> {
    /// A target in service that has had no try.
    fn other_than(&mut self, first: &Rc<Target>) -> Option<usize> {
        let Self { upstream, key, tried, .. } = self;
        let is_first = |target: &Rc<Target>| Rc::ptr_eq(target, first);
        tried.extend(upstream.targets.iter().position(is_first));
        let now = clock::now();
        let mut targets = upstream.targets.iter().enumerate();
        if !targets.any(|(index, one)| !tried.contains(&index) && one.health.may_admit(now)) {
            return None;
        }
        let other = upstream.choose(tried, *key)?;
        tried.push(other);
        Some(other)
    }
}

/// Counts who answered, and takes over his call; gives that of the other one, if he got so far.
pub(super) fn settle<A>(
    exchange: &mut Exchange,
    first: &Target,
    second: &Beside,
    raced: &Raced<A>,
    is_good: bool,
) -> Option<Call> {
    if !raced.hedged {
        return None;
    }
    let second = second.call.take();
    exchange.recording.sent_again();
    let outcome = match raced.winner {
        _ if !is_good => Hedged::None,
        Runner::First => Hedged::First,
        Runner::Second => Hedged::Second,
    };
    first.stats.hedges[outcome as usize].add(1);
    match raced.winner {
        Runner::First => second,
        Runner::Second => std::mem::replace(&mut exchange.call, second),
    }
}

/// How a try over HTTP/1 ended.
struct Ended {
    attempted: Result<Box<Connection>, Lost>,
    response: ResponseHead,
    /// What was sent; of the first try it is the caller's.
    sending: Option<Sending<'static>>,
    /// All of the request has gone.
    whole: bool,
}

/// Tries a request at `target`, and at another one when that takes too long; the answer's head is
/// then in `exchange.response`. Gives how many tries that were, too.
pub(super) async fn attempt_both(
    hedge: Hedge<'_>,
    exchange: &mut Exchange,
    way: head::Way<'_>,
    choice: &mut Choice<'_>,
    (target, connection): (Rc<Target>, Box<Connection>),
    sending: &mut Sending<'_>,
    limits: Limits,
) -> (Result<Box<Connection>, Lost>, u32) {
    let (method, framing) = (exchange.request.method, sending.framing());
    let Some(body) = sending.at_hand() else {
        let attempted =
            super::once(exchange, &target, connection, sending, limits, Some(hedge.retrying));
        return (attempted.await, 1);
    };
    let shared: &Exchange = exchange;
    let asking = Asking::of(shared, limits, Some(hedge.retrying));
    let beside = shared.deadline.beside();
    let asking_beside = Asking {
        deadline: &beside,
        pass_on: None,
        ..Asking::of(shared, limits, Some(hedge.retrying))
    };
    let call = Beside::new(method);
    let first = async {
        let mut response = ResponseHead::default();
        let attempted = attempt(&asking, &target, connection, sending, &mut response).await;
        Ended { attempted, response, whole: sending.is_complete(), sending: None }
    };
    let begin = || {
        let other = hedge.second(choice, &target)?;
        let span = shared.span.as_ref().map(Open::take_try);
        let beside = span.as_ref().map(TrySpan::context);
        let way = head::Way { beside: beside.as_ref(), ..way };
        let head = head::encode(shared, way, &other.authority, framing);
        let (asking, call) = (&asking_beside, &call);
        Some(async move {
            let mut sending = Sending::again(head, &body, framing);
            let (mut response, started) = (ResponseHead::default(), clock::now());
            let attempted = match other.take(asking.deadline).await {
                Ok(connection) => {
                    call.begin(&other, started, span);
                    attempt(asking, &other, connection, &mut sending, &mut response).await
                }
                Err(error) => {
                    Err(not_taken(&other, error, method, (started, shared.span.as_ref())))
                }
            };
            Ended { attempted, response, whole: sending.is_complete(), sending: Some(sending) }
        })
    };
    let is_good = |ended: &Ended| {
        ended.attempted.is_ok() && !hedge.retrying.wants_another(ended.response.status)
    };
    let raced = hedge.race(first, begin, is_good).await;
    let repeats = asking.repeats.get() + asking_beside.repeats.get();
    (0..repeats).for_each(|_| exchange.recording.sent_again());
    let good = is_good(&raced.answer);
    let beaten = settle(exchange, &target, &call, &raced, good);
    if let Some(beaten) = beaten {
        put_away(exchange, beaten, raced.beaten, method, limits.idle);
    }
    exchange.response = raced.answer.response;
    if let Some(own) = raced.answer.sending {
        *sending = own;
    }
    (raced.answer.attempted, 1 + u32::from(raced.hedged))
}

/// Ends a try that was beaten.
fn put_away(
    exchange: &Exchange,
    mut call: Call,
    ended: Option<Ended>,
    method: Method,
    idle: Duration,
) {
    let error = match ended {
        None => CANCELLED,
        Some(Ended { attempted: Err(lost), .. }) => lost.refusal.problem.slug(),
        Some(Ended { attempted: Ok(connection), response, whole, .. }) => {
            call.answered(response.status);
            UpstreamBody::discard(connection, whole, &response, idle, &exchange.deadline);
            ""
        }
    };
    call.end(method, error, clock::now());
}
