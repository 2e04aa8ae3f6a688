//! The attempt engine: sends a request to an upstream, with retries and hedges, by HTTP/1.1 or
//! HTTP/2.
//!
//! ```text
//! pick → check out → attempt (hedged) → retry? attempts, deadline, budget → backoff → pick …
//! ```
//!
//! Without a further attempt, the client gets the result of the last one: its response, or its
//! failure. The first attempt may connect to up to three targets, even without retries, as nothing
//! has been sent yet.

mod hedge;

use crate::attempt::{Scope, Timeouts, Upload, attempt};
use crate::pick::Pick;
use crate::retry::RetryPolicy;
use crate::target_upload::{Finished, TargetUpload};
use crate::{
    CheckOutError, EndedAttempt, OpenAttempt, OutboundRequest, Target, Upstream, UpstreamBody,
    failed_check,
};
use hedge::Hedge;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_http::clock;
use weir_http::deadline::{Deadline, Expired};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_model::stage;
use weir_net::descriptors::is_exhausted;
use weir_telemetry::labels::{RetryDenied, RetryReason};
use weir_telemetry::spans::{AttemptSpan, RequestSpan};
use weir_telemetry::stage_times::StageTimes;
use weir_wire::{Known, ResponseHead};

/// Maximum number of targets to connect to for an attempt.
const MAX_CONNECTS: usize = 3;

/// A request to be sent, with its limits.
pub struct Plan<'p> {
    /// The request.
    pub request: OutboundRequest<'p>,
    /// The upstream.
    pub upstream: &'p Upstream,
    /// Hash key of `balance: hash`.
    pub key: Option<u64>,
    /// Timeouts of the response.
    pub timeouts: Timeouts,
    /// Deadline of the request.
    pub deadline: &'p Deadline,
    /// Whether the retry policy of the upstream applies; otherwise there are no retries and hedges.
    pub retries: bool,
    /// Buffer for interim responses, if the client accepts them.
    pub interim: Option<&'p RefCell<Vec<u8>>>,
    /// Some if the request is traced.
    pub span: Option<&'p Rc<RequestSpan>>,
    /// Some if durations are recorded.
    pub times: Option<&'p mut StageTimes>,
    /// The report of the attempts.
    pub report: &'p mut SendReport,
}

/// State of the attempts. Owned by the caller, so that there is a report if the client cancels the
/// request.
#[derive(Debug, Default)]
pub struct SendReport {
    /// The attempt that received the response; ends with the response.
    pub open: Option<OpenAttempt>,
    /// Those that gave the client no response.
    ended: RefCell<Vec<EndedAttempt>>,
    /// Number of retries.
    pub retries: Cell<u32>,
}

impl SendReport {
    /// The target whose response the client gets, or of the last attempt.
    pub fn target(&self) -> Option<Rc<Target>> {
        let ended = self.ended.borrow();
        let target = self.open.as_ref().map(OpenAttempt::target);
        let last = || ended.iter().max_by_key(|attempt| attempt.started());
        target.or_else(|| last().map(EndedAttempt::target)).map(Rc::clone)
    }

    /// Those that gave the client no response, in the order of their starts.
    pub fn take_ended(&mut self) -> Vec<EndedAttempt> {
        let mut ended = self.ended.take();
        ended.sort_by_key(EndedAttempt::started);
        ended
    }

    pub(super) fn add_ended(&self, attempt: Option<EndedAttempt>) {
        if let Some(attempt) = attempt {
            self.ended.borrow_mut().push(attempt);
        }
    }

    pub(super) fn count_retry(&self) {
        self.retries.set(self.retries.get() + 1);
    }
}

/// Response of an upstream.
pub type Outcome<'a> = Finished<UpstreamBody<'a>>;

/// An attempt without a usable response.
pub(super) struct FailedAttempt {
    pub(super) rejection: Rejection,
    /// Why a retry may succeed.
    retry: Option<RetryReason>,
    /// The connection was closed before it accepted the request. This is not a failure of the
    /// target yet.
    is_stale: bool,
    /// No connection was available.
    is_unsent: bool,
}

/// A channel with the received head of a response, or the reason why there is none.
pub(super) type Attempted<U> =
    Result<(<U as Upload>::Channel, <U as Upload>::Arrived), FailedAttempt>;

/// Sends a request. The head of the response is then in `response`.
///
/// # Errors
/// The failure of the last attempt.
pub async fn send<'a, U: TargetUpload<Body: Into<UpstreamBody<'a>>>>(
    plan: Plan<'_>,
    mut upload: U,
    response: &mut ResponseHead,
) -> Result<Outcome<'a>, Rejection> {
    let started = clock::recent();
    let (idle, is_grpc) = (plan.timeouts.idle, plan.request.is_grpc);
    let mut sender = Sender::new(plan, started);
    let (channel, arrived) = loop {
        let attempted = sender.attempt(&mut upload, response).await;
        let Some((reason, backoff)) = sender.retry(&upload, &attempted, response) else {
            sender.record_retry_time(started);
            match attempted {
                Ok(arrived) => break arrived,
                Err(failed) => {
                    if failed.is_unsent {
                        upload.abandon();
                    }
                    return Err(failed.rejection);
                }
            }
        };
        sender.pick.target().stats.count_retry(reason);
        sender.report.count_retry();
        let open = sender.report.open.take();
        sender.report.add_ended(sender.context.discard(open, &upload, attempted, response));
        Box::pin(tokio::time::sleep(backoff)).await;
        sender.attempts += 1;
    };
    if let Some(open) = &mut sender.report.open {
        open.responded(response.status);
        if let Some(times) = sender.times {
            times.responded(open.started(), clock::now());
        }
    }
    Ok(match upload.finish(channel, arrived, response, idle, is_grpc) {
        Finished::Response(body) => Outcome::Response(body.into()),
        Finished::Switched { connection, is_complete } => {
            Outcome::Switched { connection, is_complete }
        }
    })
}

/// A request being sent.
pub(super) struct Sender<'p> {
    pub(super) context: SendContext<'p>,
    pub(super) pick: Pick<'p>,
    /// Number of attempts, including the current one.
    pub(super) attempts: u32,
    times: Option<&'p mut StageTimes>,
    pub(super) report: &'p mut SendReport,
}

/// Parameters of all attempts of a request.
#[derive(Clone, Copy)]
pub(super) struct SendContext<'p> {
    pub(super) request: OutboundRequest<'p>,
    pub(super) scope: Scope<'p>,
    pub(super) retries: Option<&'p RetryPolicy>,
    span: Option<&'p Rc<RequestSpan>>,
}

impl<'p> Sender<'p> {
    fn new(plan: Plan<'p>, started: Instant) -> Self {
        let Plan { request, upstream, mut timeouts, deadline, interim, .. } = plan;
        let retries = upstream.retries.as_ref().filter(|_| plan.retries);
        if let Some(policy) = retries {
            policy.request(started);
            timeouts.first_byte = policy.attempt_time(timeouts.first_byte);
        }
        let upgrade = request.upgrade.is_some();
        let scope = Scope { method: request.method, deadline, timeouts, upgrade, interim };
        Self {
            context: SendContext { request, scope, retries, span: plan.span },
            pick: Pick::new(upstream, plan.key),
            attempts: 1,
            times: plan.times,
            report: plan.report,
        }
    }

    /// An attempt at the next target that accepts a connection.
    async fn attempt<U: TargetUpload>(
        &mut self,
        upload: &mut U,
        response: &mut ResponseHead,
    ) -> Attempted<U> {
        let context = self.context;
        let started = if self.attempts == 1 { clock::recent() } else { clock::now() };
        let mut was_stale = false;
        loop {
            let (target, mut channel) = self.connect::<U>(started).await?;
            let span = context.attempt_span();
            let addressed = upload.address(&mut channel, &context.request, target, span.as_ref());
            self.report.open = Some(OpenAttempt::new(Rc::clone(target), started, span));
            addressed.ok_or_else(FailedAttempt::bad_request)?;
            let hedge = Hedge::new(&context, &self.pick).filter(|_| self.attempts == 1);
            let attempted = match hedge.and_then(|hedge| Some((hedge, upload.duplicate()?))) {
                None => {
                    let retries = &*self.report;
                    context.attempt_on(target, channel, upload, response, retries).await
                }
                Some((hedge, spare)) => {
                    let first = (target, channel);
                    Box::pin(hedge.race(self, first, upload, spare, response)).await
                }
            };
            match attempted {
                Err(failed) if failed.is_stale => {
                    let may_repeat = !std::mem::replace(&mut was_stale, true) && context.spend();
                    if !may_repeat {
                        return Err(failed.settle(target));
                    }
                    target.stats.count_retry(RetryReason::Stale);
                    self.report.count_retry();
                    self.report.open = None;
                    self.pick.forget();
                }
                attempted => return attempted,
            }
        }
    }

    /// Picks targets until one accepts a connection.
    async fn connect<U: TargetUpload>(
        &mut self,
        started: Instant,
    ) -> Result<(&'p Rc<Target>, U::Channel), FailedAttempt> {
        let is_first = self.attempts == 1;
        let max_connects = if is_first || !U::REOPENS { MAX_CONNECTS } else { 1 };
        let max_connects = max_connects.min(self.pick.upstream.targets.len());
        let mut connects = 0;
        loop {
            let target = self.pick.next();
            let error = match U::check_out(target, self.context.scope.deadline).await {
                Ok(channel) => {
                    // Other requests share a connection of HTTP/2, and the time to connect.
                    let connected = is_first && U::REOPENS && !U::is_reused(&channel);
                    if let Some(times) = self.times.as_mut().filter(|_| connected) {
                        times.add(stage::CONNECT, clock::now().saturating_duration_since(started));
                    }
                    return Ok((target, channel));
                }
                Err(error) => error,
            };
            connects += 1;
            let failed = self.context.check_out_failed(target, error, started, self.report);
            if connects == max_connects {
                return Err(failed);
            }
        }
    }

    /// Whether there is another attempt, its reason and the backoff.
    fn retry<U: TargetUpload>(
        &self,
        upload: &U,
        attempted: &Attempted<U>,
        response: &ResponseHead,
    ) -> Option<(RetryReason, Duration)> {
        let policy = self.context.retries?;
        let reason = match attempted {
            Ok(_) if !policy.retries_status(U::retry_status(response)) => return None,
            Ok(_) => RetryReason::Status,
            Err(failed) => failed.retry?,
        };
        let Scope { method, deadline, .. } = self.context.scope;
        if !upload.may_retry(reason, policy.any_method() || method.is_idempotent()) {
            return None;
        }
        let (now, backoff) = (clock::now(), policy.backoff(self.attempts));
        let denied = if self.attempts >= policy.max_attempts() {
            RetryDenied::Tries
        } else if !deadline.allows(now + backoff) {
            RetryDenied::Deadline
        } else if !policy.spend(now) {
            RetryDenied::Budget
        } else {
            return Some((reason, backoff));
        };
        self.pick.target().stats.count_retry_denied(denied);
        None
    }

    /// Records the time of all attempts except the last.
    fn record_retry_time(&mut self, started: Instant) {
        if let Some(times) = self.times.as_mut().filter(|_| self.attempts > 1) {
            let last = self.report.open.as_ref().map_or_else(clock::now, OpenAttempt::started);
            let elapsed = last.saturating_duration_since(started);
            if !elapsed.is_zero() {
                times.add(stage::RETRY, elapsed);
            }
        }
    }
}

impl SendContext<'_> {
    /// The span of an attempt, if the request is traced.
    pub(super) fn attempt_span(&self) -> Option<AttemptSpan> {
        let parent = self.request.headers.known(Known::Traceparent);
        self.span.map(|span| span.attempt(parent, self.request.target))
    }

    /// Whether the budget admits one more request; always true without a budget.
    pub(super) fn spend(&self) -> bool {
        self.retries.is_none_or(|policy| policy.spend(clock::now()))
    }

    /// Sends the request over `channel`; if a reused one turns out to be closed, once more over a
    /// new one to the same target, provided that is safe.
    pub(super) async fn attempt_on<U: TargetUpload>(
        &self,
        target: &Rc<Target>,
        mut channel: U::Channel,
        upload: &mut U,
        response: &mut ResponseHead,
        report: &SendReport,
    ) -> Attempted<U> {
        let Scope { method, deadline, .. } = self.scope;
        loop {
            let failure = match attempt(&mut channel, upload, response, &self.scope).await {
                Ok(arrived) => return Ok((channel, arrived)),
                Err(failure) => failure,
            };
            let is_stale = U::is_reused(&channel) && upload.is_stale(&failure, method);
            if is_stale && U::REOPENS && self.spend() {
                drop(channel);
                target.stats.count_retry(RetryReason::Stale);
                report.count_retry();
                let reopened = Box::pin(U::reopen(target, deadline)).await;
                channel = reopened.map_err(|error| FailedAttempt::not_connected(target, error))?;
                upload.rewind();
                continue;
            }
            let is_stale = is_stale && !U::REOPENS;
            if !is_stale && failure.peer_failure().is_some() {
                target.health.failed(Instant::now());
            }
            let retry = failure.retry_reason();
            return Err(FailedAttempt { is_stale, ..FailedAttempt::new(failure.into(), retry) });
        }
    }

    /// Counts that a request, started at `started`, got no connection to `target`.
    pub(super) fn check_out_failed(
        &self,
        target: &Rc<Target>,
        error: CheckOutError,
        started: Instant,
        report: &SendReport,
    ) -> FailedAttempt {
        if let Some(label) = error.label() {
            let attempt = OpenAttempt::new(Rc::clone(target), started, self.attempt_span());
            report.add_ended(Some(attempt.end(self.scope.method, label, Instant::now())));
        }
        FailedAttempt::not_connected(target, error)
    }

    /// Ends an attempt whose result is discarded.
    pub(super) fn discard<U: TargetUpload>(
        &self,
        open: Option<OpenAttempt>,
        upload: &U,
        attempted: Attempted<U>,
        response: &ResponseHead,
    ) -> Option<EndedAttempt> {
        let (error, status) = match attempted {
            Ok((channel, arrived)) => {
                upload.discard(channel, arrived, response, &self.scope);
                ("", Some(response.status))
            }
            Err(failed) => (failed.rejection.problem.slug(), None),
        };
        let mut open = open?;
        if let Some(status) = status {
            open.responded(status);
        }
        Some(open.end(self.scope.method, error, clock::now()))
    }
}

impl FailedAttempt {
    /// The head of the request would be invalid.
    pub(super) fn bad_request() -> Self {
        Self::new(Problem::BadRequest.into(), None)
    }

    /// The request is not repeated over another connection: the failure counts against the target.
    pub(super) fn settle(self, target: &Target) -> Self {
        if self.is_stale {
            target.health.failed(Instant::now());
        }
        Self { is_stale: false, ..self }
    }

    fn new(rejection: Rejection, retry: Option<RetryReason>) -> Self {
        Self { rejection, retry, is_stale: false, is_unsent: false }
    }

    fn not_connected(target: &Target, error: CheckOutError) -> Self {
        let (rejection, retry) = match error {
            CheckOutError::Busy => (Problem::UpstreamBusy.into(), None),
            // The target was not contacted: the failure does not count against it.
            CheckOutError::Connect(error) if is_exhausted(&error) => {
                let rejection = Rejection::new(Problem::DescriptorsExhausted);
                (rejection.header("retry-after", "1".to_owned()), None)
            }
            CheckOutError::Connect(error) => {
                target.health.failed(Instant::now());
                // Only the kind is shown: the message could contain internal addresses.
                let why = failed_check(&error, target.upstream());
                let why = why.unwrap_or_else(|| error.kind().to_string());
                (
                    Rejection::new(Problem::UpstreamUnreachable).detail(why),
                    Some(RetryReason::Connect),
                )
            }
            CheckOutError::TimedOut(expired) => {
                target.health.failed(Instant::now());
                (expired.into(), (expired != Expired::Request).then_some(RetryReason::Connect))
            }
        };
        Self { is_unsent: true, ..Self::new(rejection, retry) }
    }
}
