//! The retry policy of an upstream: which failures are retried, how often, and the retry budget.

use super::budget::{self, Budget};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_config::{RetriedMethods, Retries};

/// Maximum backoff, as a multiple of the backoff before the second attempt.
const MAX_BACKOFF: u32 = 10;

/// Which requests are retried, and how often.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    settings: Retries,
    budget: Rc<Budget>,
    /// Retries of this worker per window that are always permitted.
    minimum: f64,
}

impl RetryPolicy {
    /// From `retries`, with the budget of the policy `before` a reload.
    pub(super) fn new(retries: &Retries, workers: usize, before: Option<&Self>) -> Self {
        let budget = before.map(|policy| Rc::clone(&policy.budget));
        Self {
            budget: budget.unwrap_or_else(|| Rc::new(Budget::new(Instant::now()))),
            settings: retries.clone(),
            minimum: budget::minimum_of_worker(retries.minimum, workers),
        }
    }

    /// Counts a first attempt.
    pub(super) fn request(&self, now: Instant) {
        self.budget.request(now);
    }

    /// Whether the budget admits a retry, which is then counted.
    pub(super) fn spend(&self, now: Instant) -> bool {
        self.budget.spend(self.settings.budget, self.minimum, now)
    }

    /// Whether a response with this status is retried.
    pub(super) fn retries_status(&self, status: u16) -> bool {
        self.settings.statuses.contains(&status)
    }

    /// The timeout of an attempt to the first byte of its response.
    pub(super) fn attempt_time(&self, of_request: Duration) -> Duration {
        self.settings.timeout.map_or(of_request, |timeout| timeout.min(of_request))
    }

    /// Whether requests that may have been processed are retried with any method.
    pub(super) fn any_method(&self) -> bool {
        self.settings.methods == RetriedMethods::Any
    }

    /// Maximum number of attempts, including the first.
    pub(super) fn max_attempts(&self) -> u32 {
        self.settings.tries
    }

    /// Time without a response after which the request is hedged.
    pub(super) fn hedge(&self) -> Option<Duration> {
        self.settings.hedge
    }

    /// The backoff after this number of attempts: random, up to a bound that doubles with each.
    pub(super) fn backoff(&self, attempts: u32) -> Duration {
        let limit = self.settings.backoff * 2u32.saturating_pow(attempts - 1).min(MAX_BACKOFF);
        limit.mul_f64(fastrand::f64())
    }
}
