//! Further tries of a request whose first one did not bring a good answer.
//!
//! ```text
//! failed or unwanted → may it be sent again? → tries, deadline, budget → pause → next target → try
//! ```
//!
//! When there is no further one, the client gets what the last one brought: its answer, or what
//! went wrong.

use super::{Choice, Limits, Lost, UpstreamBody, head, not_taken, once};
use crate::clock;
use crate::exchange::Exchange;
use crate::labels::{Again, NotAgain};
use crate::proxy::sending::Sending;
use crate::upstream::{Call, Connection, Retrying, Target};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_journal::stage;

/// What the tries of one request have in common.
pub(super) struct Tries<'p> {
    pub(super) way: head::Way<'p>,
    pub(super) retrying: &'p Retrying,
    pub(super) limits: Limits,
    pub(super) choice: Choice<'p>,
    /// Tries made so far.
    pub(super) made: u32,
    /// When the first of them began.
    pub(super) begun: Instant,
}

/// Records the time that tries took before the last one, the first of which began then.
pub(super) fn took(exchange: &mut Exchange, begun: Instant) {
    let last = exchange.call.as_ref().map_or_else(clock::now, Call::started);
    let took = last.saturating_duration_since(begun);
    if !took.is_zero() {
        exchange.recording.took(stage::RETRY, took);
    }
}

impl Choice<'_> {
    /// A target that has had no try; when all have, one that did not have the last.
    pub(super) fn next(&mut self) -> usize {
        let Self { upstream, key, tried, .. } = self;
        let index = upstream.choose(tried, *key).unwrap_or_else(|| {
            let last = tried.last().copied();
            tried.clear();
            tried.extend(last.filter(|_| upstream.targets.len() > 1));
            upstream.choose(tried, *key).unwrap_or(0)
        });
        tried.push(index);
        index
    }
}

/// The pause before another try, after so many; `None`, which is counted, if there may be none.
pub(super) fn pause(
    exchange: &Exchange,
    retrying: &Retrying,
    target: &Target,
    tries: u32,
) -> Option<Duration> {
    let (now, pause) = (clock::now(), retrying.pause(tries));
    let not = if tries >= retrying.tries() {
        NotAgain::Tries
    } else if !exchange.deadline.allows(now + pause) {
        NotAgain::Deadline
    } else if !retrying.spend(now) {
        NotAgain::Budget
    } else {
        return Some(pause);
    };
    target.stats.not_sent_again(not);
    None
}

impl Tries<'_> {
    /// Tries again until an answer is good enough or there may be no more tries.
    pub(super) async fn more(
        mut self,
        exchange: &mut Exchange,
        sending: &mut Sending<'_>,
        mut attempted: Result<Box<Connection>, Lost>,
    ) -> Result<Box<Connection>, Lost> {
        let mut target = self.last(exchange);
        let mut tries = self.made;
        while let Some((why, pause)) = self.admit(exchange, sending, &attempted, &target, tries) {
            target.stats.sent_again(why);
            exchange.recording.sent_again();
            self.put_away(exchange, sending, attempted);
            tokio::time::sleep(pause).await;
            tries += 1;
            target = Rc::clone(&self.choice.upstream.targets[self.choice.next()]);
            attempted = self.once_more(exchange, sending, &target).await;
        }
        if tries > 1 {
            took(exchange, self.begun);
        }
        if attempted.as_ref().is_err_and(|lost| lost.why == Some(Again::Connect)) {
            sending.give_up();
        }
        attempted
    }

    /// The target of the first try; the one asked last if none could be connected to.
    fn last(&mut self, exchange: &Exchange) -> Rc<Target> {
        let targets = &self.choice.upstream.targets;
        if let Some(call) = &exchange.call
            && let Some(index) = targets.iter().position(|target| call.is_to(target))
        {
            self.choice.tried.push(index);
        }
        Rc::clone(&targets[self.choice.tried.last().copied().unwrap_or(0)])
    }

    /// Whether there is another try, why, and after which pause.
    fn admit(
        &self,
        exchange: &Exchange,
        sending: &Sending<'_>,
        attempted: &Result<Box<Connection>, Lost>,
        target: &Target,
        tries: u32,
    ) -> Option<(Again, Duration)> {
        let why = match attempted {
            Ok(_) if !self.retrying.wants_another(exchange.response.status) => return None,
            Ok(_) => Again::Status,
            Err(lost) => lost.why?,
        };
        let twice = self.retrying.any_method() || exchange.request.method.is_idempotent();
        if !sending.may_be_sent_on(twice) {
            return None;
        }
        Some((why, pause(exchange, self.retrying, target, tries)?))
    }

    /// Ends a try whose outcome nobody gets.
    fn put_away(
        &self,
        exchange: &mut Exchange,
        sending: &Sending<'_>,
        attempted: Result<Box<Connection>, Lost>,
    ) {
        let method = exchange.request.method;
        let call = exchange.call.take();
        let error = match attempted {
            Ok(connection) => {
                let whole = sending.is_complete();
                let (response, deadline) = (&exchange.response, &exchange.deadline);
                UpstreamBody::discard(connection, whole, response, self.limits.idle, deadline);
                exchange.deadline.progress();
                ""
            }
            Err(lost) => lost.refusal.problem.slug(),
        };
        if let Some(mut call) = call {
            if error.is_empty() {
                call.answered(exchange.response.status);
            }
            call.end(method, error, clock::now());
        }
    }

    async fn once_more(
        &self,
        exchange: &mut Exchange,
        sending: &mut Sending<'_>,
        target: &Rc<Target>,
    ) -> Result<Box<Connection>, Lost> {
        head::announce_try(exchange, self.way.proxy);
        let head = head::encode(exchange, self.way, &target.authority, sending.framing());
        sending.readdress(&head);
        let (started, method) = (clock::now(), exchange.request.method);
        let connection = target
            .take(&exchange.deadline)
            .await
            .map_err(|error| not_taken(target, error, method, (started, exchange.span.as_ref())))?;
        exchange.call = Some(Call::new(Rc::clone(target), started, exchange.span.as_ref()));
        once(exchange, target, connection, sending, self.limits, Some(self.retrying)).await
    }
}
