//! Health of a target: ejection by failed requests and by health checks, and its end; shared
//! between workers.
//!
//! [`Health::admits`] is one atomic load while the target is in rotation. Ejection and its end are
//! rare; both hold the lock of the upstream, so that the ejection limit holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use strum::VariantNames;
use weir_config::Check;
use weir_telemetry::labels::EjectionReason;

/// The bit of a reason in `Health::reasons`.
fn bit(reason: EjectionReason) -> u8 {
    1 << reason as u8
}

/// Health of a target.
#[derive(Debug)]
pub struct Health {
    start: Instant,
    group: Arc<Group>,
    /// Reasons of its ejection, one bit each; changed under the lock of the group only.
    reasons: AtomicU8,
    /// Consecutive failures that eject it; 0: no limit.
    limit: AtomicU32,
    ejection_ms: AtomicU64,
    failures: AtomicU32,
    /// End of an ejection by failed requests, in milliseconds after `start`.
    ejected_until: AtomicU64,
    /// One request may test the ejected target.
    probing: AtomicBool,
    errors: Errors,
    pub(super) checks: Checks,
    /// Ejections, by [`EjectionReason`].
    ejections: [AtomicU64; EjectionReason::VARIANTS.len()],
}

/// Share of responses with 5xx, per window.
#[derive(Debug, Default)]
struct Errors {
    /// In hundredths of a percent; 0: not counted.
    share: AtomicU32,
    min_responses: AtomicU32,
    window_ms: AtomicU64,
    started_ms: AtomicU64,
    responses: AtomicU32,
    failed: AtomicU32,
}

/// Results of health checks.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Milliseconds after `start` from which the next check may start.
    due_ms: AtomicU64,
    /// A check is running.
    running: AtomicBool,
    /// Consecutive passed checks; failed ones are negative.
    streak: AtomicI32,
    passed: AtomicU64,
    failed: AtomicU64,
}

/// Metrics of the health of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthSeries {
    /// Why the target is ejected; `None` while it is in rotation.
    pub out: Option<&'static str>,
    /// Ejections, by [`EjectionReason`].
    pub ejections: [u64; EjectionReason::VARIANTS.len()],
    /// Health checks: passed, failed.
    pub checks: [u64; 2],
}

/// The targets of one upstream that are in use.
#[derive(Debug, Default)]
pub(super) struct Group(Mutex<Members>);

#[derive(Debug, Default)]
struct Members {
    targets: Vec<Weak<Health>>,
    /// In hundredths of a percent.
    max_ejected: u32,
}

impl Health {
    fn new(group: Arc<Group>) -> Self {
        Self {
            start: Instant::now(),
            group,
            reasons: AtomicU8::default(),
            limit: AtomicU32::default(),
            ejection_ms: AtomicU64::default(),
            failures: AtomicU32::default(),
            ejected_until: AtomicU64::default(),
            probing: AtomicBool::default(),
            errors: Errors::default(),
            checks: Checks::default(),
            ejections: Default::default(),
        }
    }

    /// Applies settings.
    fn set(&self, settings: &weir_config::Health) {
        self.limit.store(settings.failures, Relaxed);
        self.ejection_ms.store(settings.pause.as_millis() as u64, Relaxed);
        self.errors.min_responses.store(settings.errors.map_or(0, |e| e.requests), Relaxed);
        let window = settings.errors.map_or(Duration::ZERO, |e| e.window);
        self.errors.window_ms.store(window.as_millis() as u64, Relaxed);
        self.errors.share.store(settings.errors.map_or(0, |e| e.share.max(1)), Relaxed);
        if settings.errors.is_none() {
            self.readmit(EjectionReason::Errors);
        }
        if settings.check.is_none() {
            self.checks.streak.store(0, Relaxed);
            self.readmit(EjectionReason::Check);
        }
    }

    /// Whether a request may be sent to the target. After the ejection time one request may; the
    /// target stays ejected unless that request succeeds.
    pub fn admits(&self, now: Instant) -> bool {
        let out = self.reasons.load(Relaxed);
        if out == 0 {
            return true;
        }
        if out & bit(EjectionReason::Check) != 0 {
            return false;
        }
        let (until, now) = (self.ejected_until.load(Relaxed), self.millis(now));
        let next = now + self.ejection_ms.load(Relaxed);
        let first = now >= until
            && self.ejected_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok();
        if first {
            self.probing.store(true, Relaxed);
        }
        first
    }

    /// Whether [`Health::admits`] would admit a request, without consuming the test request.
    pub(crate) fn may_admit(&self, now: Instant) -> bool {
        let out = self.reasons.load(Relaxed);
        let by_check = out & bit(EjectionReason::Check) != 0;
        out == 0 || (!by_check && self.millis(now) >= self.ejected_until.load(Relaxed))
    }

    /// Whether the target is in rotation.
    pub fn is_up(&self) -> bool {
        self.reasons.load(Relaxed) == 0
    }

    /// Records a response with this status. Reads the clock only if errors are counted.
    pub fn responded(&self, status: u16, now: impl FnOnce() -> Instant) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
            self.readmit(EjectionReason::Failures);
        }
        let share = self.errors.share.load(Relaxed);
        if share == 0 {
            return;
        }
        let now = self.millis(now());
        if self.is_ejected(EjectionReason::Errors) {
            // Responses to requests sent before the ejection do not count.
            if self.probing.swap(false, Relaxed) && status < 500 {
                self.errors.restart(now);
                self.readmit(EjectionReason::Errors);
            }
        } else if self.errors.count(status >= 500, share, now) {
            self.eject(EjectionReason::Errors, now);
        }
    }

    /// Records a failure: the target refused, reset, timed out or violated the protocol.
    pub fn failed(&self, now: Instant) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let limit = self.limit.load(Relaxed);
        let now = self.millis(now);
        if limit > 0 && failures >= limit {
            self.eject(EjectionReason::Failures, now);
        }
        let share = self.errors.share.load(Relaxed);
        if self.is_ejected(EjectionReason::Errors) {
            self.probing.store(false, Relaxed);
        } else if share > 0 && self.errors.count(true, share, now) {
            self.eject(EjectionReason::Errors, now);
        }
    }

    /// Whether a check is due; the caller then runs it and reports the result.
    pub(crate) fn may_check(&self, check: &Check, now: Instant) -> bool {
        let now = self.millis(now);
        if now < self.checks.due_ms.load(Relaxed) || self.checks.running.swap(true, Relaxed) {
            return false;
        }
        self.checks.due_ms.store(now + check.every.as_millis() as u64, Relaxed);
        true
    }

    /// Records the result of a check; `None` if the target could not be checked.
    pub fn checked(&self, check: &Check, passed: Option<bool>, now: Instant) {
        let streak = self.checks.streak.load(Relaxed);
        match passed {
            Some(true) => {
                self.checks.passed.fetch_add(1, Relaxed);
                let streak = streak.max(0).saturating_add(1);
                self.checks.streak.store(streak, Relaxed);
                if streak.unsigned_abs() >= check.healthy {
                    self.readmit(EjectionReason::Check);
                }
            }
            Some(false) => {
                self.checks.failed.fetch_add(1, Relaxed);
                let streak = streak.min(0).saturating_sub(1);
                self.checks.streak.store(streak, Relaxed);
                if streak.unsigned_abs() >= check.unhealthy {
                    self.eject(EjectionReason::Check, self.millis(now));
                }
            }
            None => {}
        }
    }

    /// Ends a check: the next one may start when due.
    pub(crate) fn finish_check(&self) {
        self.checks.running.store(false, Relaxed);
    }

    fn is_ejected(&self, reason: EjectionReason) -> bool {
        self.reasons.load(Relaxed) & bit(reason) != 0
    }

    /// Ejects the target, unless too many are ejected; after failed requests for the ejection time.
    fn eject(&self, reason: EjectionReason, now_ms: u64) -> bool {
        let members = self.group.lock();
        let out = self.reasons.load(Relaxed);
        if out == 0 && !members.may_eject_another() {
            return false;
        }
        if reason != EjectionReason::Check {
            self.probing.store(false, Relaxed);
            self.ejected_until.store(now_ms + self.ejection_ms.load(Relaxed), Relaxed);
        }
        if out & bit(reason) == 0 {
            self.ejections[reason as usize].fetch_add(1, Relaxed);
            self.reasons.store(out | bit(reason), Relaxed);
        }
        true
    }

    fn readmit(&self, reason: EjectionReason) {
        if self.is_ejected(reason) {
            let _members = self.group.lock();
            self.reasons.fetch_and(!bit(reason), Relaxed);
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }

    fn series(&self) -> HealthSeries {
        use EjectionReason::{Check, Errors, Failures};
        let reasons = [Check, Failures, Errors];
        let out = reasons.into_iter().find(|reason| self.is_ejected(*reason)).map(Into::into);
        let checks = [&self.checks.passed, &self.checks.failed].map(|count| count.load(Relaxed));
        let ejections = reasons.map(|reason| self.ejections[reason as usize].load(Relaxed));
        HealthSeries { out, ejections, checks }
    }
}

impl Errors {
    /// Counts a response; returns whether the share is too large. Workers may count a few responses
    /// of the last window in the next one: the share is approximate.
    fn count(&self, failed: bool, share: u32, now_ms: u64) -> bool {
        let started = self.started_ms.load(Relaxed);
        if now_ms.saturating_sub(started) >= self.window_ms.load(Relaxed)
            && self.started_ms.compare_exchange(started, now_ms, Relaxed, Relaxed).is_ok()
        {
            self.restart(now_ms);
        }
        let responses = self.responses.fetch_add(1, Relaxed).saturating_add(1);
        if !failed {
            return false;
        }
        let failed = self.failed.fetch_add(1, Relaxed).saturating_add(1);
        responses >= self.min_responses.load(Relaxed)
            && u64::from(failed) * 10_000 >= u64::from(responses) * u64::from(share)
    }

    fn restart(&self, now_ms: u64) {
        self.started_ms.store(now_ms, Relaxed);
        self.responses.store(0, Relaxed);
        self.failed.store(0, Relaxed);
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn may_eject_another(&self) -> bool {
        let out = self.targets.iter().filter_map(Weak::upgrade).filter(|one| !one.is_up()).count();
        (out as u64 + 1) * 10_000 <= self.targets.len() as u64 * u64::from(self.max_ejected)
    }
}

/// Health of every target that was ever configured; outlives reloads.
#[derive(Debug, Default)]
pub struct Healths(Mutex<HashMap<String, Known>>);

/// The targets of an upstream by name.
#[derive(Debug, Default)]
struct Known {
    group: Arc<Group>,
    targets: HashMap<String, Arc<Health>>,
}

impl Healths {
    /// The health of an upstream's targets, in their order, with its settings.
    pub(super) fn configure(&self, config: &weir_config::Upstream) -> Vec<Arc<Health>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { group, targets } = all.entry(config.name.clone()).or_default();
        let health = |target: &weir_config::Target| {
            let fresh = || Arc::new(Health::new(Arc::clone(group)));
            Arc::clone(targets.entry(target.name().to_owned()).or_insert_with(fresh))
        };
        let found: Vec<Arc<Health>> = config.targets.iter().map(health).collect();
        let mut members = group.lock();
        let used = found.iter().zip(&config.targets).filter(|(_, target)| target.weight > 0);
        members.targets = used.map(|(health, _)| Arc::downgrade(health)).collect();
        members.max_ejected = config.health.max_ejected;
        drop(members);
        found.iter().for_each(|health| health.set(&config.health));
        found
    }

    /// The metrics of a target of an upstream.
    pub fn series(&self, upstream: &str, target: &str) -> HealthSeries {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let health = all.get(upstream).and_then(|known| known.targets.get(target));
        health.map_or_else(HealthSeries::default, |health| health.series())
    }
}

#[cfg(test)]
mod tests;
