//! Hedging: a second attempt at another target if the first has no response after a delay (Dean and
//! Barroso, The Tail at Scale, 2013).
//!
//! ```text
//! first attempt ── no head in time ── another target, budget ── both ── the first good head
//! ```
//!
//! The client's own task polls both attempts. The loser is dropped: its connection is closed, or
//! its stream reset.

use super::{Attempted, FailedAttempt, SendContext, SendReport, Sender};
use crate::attempt::Upload;
use crate::pick::Pick;
use crate::retry::RetryPolicy;
use crate::target_upload::TargetUpload;
use crate::{OpenAttempt, Target};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use weir_http::clock;
use weir_telemetry::labels::{Hedged, RetryDenied, RetryReason};
use weir_wire::{Method, ResponseHead};

/// Outcome of an attempt whose result is no longer needed.
const CANCELLED: &str = "cancelled";

/// The request may be hedged.
#[derive(Clone, Copy)]
pub(super) struct Hedge<'u> {
    policy: &'u RetryPolicy,
    after: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Winner {
    First,
    Second,
}

/// Result of a race.
struct Raced<A> {
    winner: Winner,
    result: A,
    /// The result of the loser if it has ended; not usable.
    beaten: Option<A>,
    /// Whether there was a second attempt.
    hedged: bool,
}

/// The second attempt, once started. Unless it is taken, it is cancelled on drop.
struct SecondAttempt<'r> {
    method: Method,
    report: &'r SendReport,
    open: Cell<Option<OpenAttempt>>,
}

impl Drop for SecondAttempt<'_> {
    /// The client disconnected during both attempts.
    fn drop(&mut self) {
        let open = self.open.take();
        self.report.add_ended(open.map(|open| open.end(self.method, CANCELLED, clock::now())));
    }
}

/// Result of an attempt.
struct Ended<U: Upload> {
    attempted: Attempted<U>,
    /// Whether the response is usable, that is, not retried.
    is_usable: bool,
    /// The request and the head of the response; those of the first attempt belong to the caller.
    own: Option<(U, ResponseHead)>,
}

impl<'u> Hedge<'u> {
    /// `None` unless the upstream has `hedge` and another target, and the method is idempotent.
    pub(super) fn new(context: &SendContext<'u>, pick: &Pick<'_>) -> Option<Self> {
        let policy = context.retries?;
        let after = policy.hedge()?;
        let may = pick.upstream.targets.len() > 1
            && context.request.method.is_idempotent()
            && context.request.upgrade.is_none();
        may.then_some(Self { policy, after })
    }

    /// Sends a request to a target, and `spare` to another one after the hedging delay. The request
    /// and the head of the response are then in `upload` and `response`.
    pub(super) async fn race<U: TargetUpload>(
        self,
        sender: &mut Sender<'_>,
        (target, channel): (&Rc<Target>, U::Channel),
        upload: &mut U,
        spare: U,
        response: &mut ResponseHead,
    ) -> Attempted<U> {
        let Sender { context, pick, report, attempts, .. } = sender;
        let (context, report) = (&*context, &mut **report);
        let is_usable = |attempted: &Attempted<U>, response: &ResponseHead| {
            attempted.is_ok() && !self.policy.retries_status(U::retry_status(response))
        };
        let shared = &*report;
        let method = context.scope.method;
        let open = SecondAttempt { method, report: shared, open: Cell::new(None) };
        let second_target = Cell::new(None);
        // Both attempts wait at the same time, for different events.
        let deadline = context.scope.deadline.for_concurrent_wait();
        let mut own = *context;
        (own.scope.deadline, own.scope.interim) = (&deadline, None);
        let first = async {
            let attempted = context.attempt_on(target, channel, upload, response, shared).await;
            Ended { is_usable: is_usable(&attempted, response), attempted, own: None }
        };
        let second = || {
            let other = self.second_target(pick, target)?;
            second_target.set(Some(Rc::clone(other)));
            let (own, open) = (&own, &open);
            Some(async move {
                let (mut upload, mut response) = (spare, ResponseHead::default());
                let started = start_second(own, other, &mut upload, open, shared).await;
                let attempted = match started {
                    Ok(channel) => own
                        .attempt_on(other, channel, &mut upload, &mut response, shared)
                        .await
                        .map_err(|failed| failed.settle(other)),
                    Err(failed) => Err(failed),
                };
                let is_usable = is_usable(&attempted, &response);
                Ended { is_usable, attempted, own: Some((upload, response)) }
            })
        };
        let raced = self.run(first, second, |ended| ended.is_usable).await;
        let second_open = open.open.take();
        drop(open);
        if raced.hedged {
            *attempts += 1;
            report.count_retry();
            let outcome = match raced.winner {
                _ if !raced.result.is_usable => Hedged::None,
                Winner::First => Hedged::First,
                Winner::Second => Hedged::Second,
            };
            target.stats.hedges[outcome as usize].add(1);
            let beaten = match raced.winner {
                Winner::First => second_open,
                Winner::Second => std::mem::replace(&mut report.open, second_open),
            };
            let ended = match raced.beaten {
                None => beaten.map(|open| open.end(method, CANCELLED, clock::now())),
                Some(Ended { attempted, own: Some((upload, response)), .. }) => {
                    context.discard(beaten, &upload, attempted, &response)
                }
                Some(Ended { attempted, .. }) => {
                    let attempted = attempted.map_err(|failed| failed.settle(target));
                    context.discard(beaten, upload, attempted, response)
                }
            };
            report.add_ended(ended);
        }
        if let Some((own, head)) = raced.result.own {
            (*upload, *response) = (own, head);
            second_target.take().iter().for_each(|target| pick.settle(target));
        }
        raced.result.attempted
    }

    /// The target of the second attempt, after the hedging delay. A denied hedge is counted.
    fn second_target<'p>(&self, pick: &mut Pick<'p>, first: &Target) -> Option<&'p Rc<Target>> {
        let now = clock::now();
        let other = pick.other(now)?;
        if !self.policy.spend(now) {
            first.stats.count_retry_denied(RetryDenied::Budget);
            return None;
        }
        first.stats.count_retry(RetryReason::Hedge);
        Some(other)
    }

    /// Runs `first`, and after the delay the result of `begin` concurrently, until one is usable or
    /// both have ended.
    async fn run<A, S: Future<Output = A>>(
        &self,
        first: impl Future<Output = A>,
        start_second: impl FnOnce() -> Option<S>,
        is_usable: impl Fn(&A) -> bool,
    ) -> Raced<A> {
        let mut first = pin!(first);
        let alone = |result| Raced { winner: Winner::First, result, beaten: None, hedged: false };
        if let Ok(result) = tokio::time::timeout(self.after, first.as_mut()).await {
            return alone(result);
        }
        let Some(second) = start_second() else { return alone(first.await) };
        let mut second = pin!(second);
        // The attempt that has ended without a usable response.
        let mut beaten: Option<(Winner, A)> = None;
        poll_fn(|cx| {
            for attempt in [Winner::First, Winner::Second] {
                if beaten.as_ref().is_some_and(|(ended, _)| *ended == attempt) {
                    continue;
                }
                let polled = match attempt {
                    Winner::First => first.as_mut().poll(cx),
                    Winner::Second => second.as_mut().poll(cx),
                };
                let Poll::Ready(result) = polled else { continue };
                if is_usable(&result) || beaten.is_some() {
                    let beaten = beaten.take().map(|(_, result)| result);
                    return Poll::Ready(Raced { winner: attempt, result, beaten, hedged: true });
                }
                beaten = Some((attempt, result));
            }
            Poll::Pending
        })
        .await
    }
}

/// Checks out a channel for the second attempt, and encodes the head for its target.
async fn start_second<U: TargetUpload>(
    context: &SendContext<'_>,
    target: &Rc<Target>,
    upload: &mut U,
    open: &SecondAttempt<'_>,
    report: &SendReport,
) -> Result<U::Channel, FailedAttempt> {
    let started = clock::now();
    let mut channel = U::check_out(target, context.scope.deadline)
        .await
        .map_err(|error| context.check_out_failed(target, error, started, report))?;
    let span = context.attempt_span();
    let addressed = upload.address(&mut channel, &context.request, target, span.as_ref());
    open.open.set(Some(OpenAttempt::new(Rc::clone(target), started, span)));
    addressed.ok_or_else(FailedAttempt::bad_request)?;
    Ok(channel)
}
