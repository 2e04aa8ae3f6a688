//! Leases of quotas: in a fleet, a node admits the calls of a consumer only while it has used fewer
//! than it was granted in the window.
//!
//! The fleet grants *slices* of what is left of the quota, so the nodes together never admit more
//! than the quota, whichever of them ends. The thread that talks to the fleet lists the
//! [demands](QuotaDemand) and answers each with a [grant](QuotaGrant); nothing here does I/O.
//!
//! A request takes this path with atomics (calendar) or under the lock of the ring (rolling). Only
//! when more is needed, it locks the [`State`] of the lease, under which every lease is opened and
//! extended: what a request has found under that lock is not outdated by a grant.

mod grants;

pub(super) use grants::Leases;
pub use grants::{LeaseStatistics, QuotaDemand, QuotaGrant, QuotaLeased};

use super::fleet::Mode;
use super::keys::lock;
use super::quota::{Calendar, Used};
use super::rolling::Rolling;
use super::signal::{Ask, Signal};
use super::tally::{Renewal, Tally};
use super::{Moment, OnShortage};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use weir_config::QuotaPeriod;

/// Seconds after which a client may retry that was rejected during an outage, which lasts longer
/// than a moment, but seldom until the end of the window.
const OUTAGE_RETRY: u64 = 10;

/// The counters of one consumer and its plan.
#[derive(Debug)]
pub(super) struct PlanCell {
    /// Name of the plan.
    pub(super) plan: String,
    /// Name of the consumer.
    pub(super) consumer: String,
    pub(super) tat: AtomicU64,
    pub(super) used: Used,
    pub(super) lease: QuotaLease,
    /// Requests rejected by the rate, and by the quota.
    pub(super) over_rate: AtomicU64,
    pub(super) over_quota: AtomicU64,
}

/// The lease of one consumer and its plan.
#[derive(Debug)]
pub(super) struct QuotaLease {
    /// Calls of the window from which on more are requested; the maximum while that is pointless.
    low: AtomicU64,
    /// Calls that the fleet has left, as far as known.
    rest: AtomicU64,
    state: Mutex<State>,
}

impl Default for QuotaLease {
    fn default() -> Self {
        let state = Mutex::default();
        Self { low: AtomicU64::new(u64::MAX), rest: AtomicU64::new(0), state }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The window that the lease is for; `None` before the first.
    account: Option<Account>,
    /// Calls that the fleet has left; `None` if no grant has come in this window.
    rest: Option<u64>,
    /// Begin of a window, and calls that an earlier run was granted in it.
    stored: Option<(u64, u64)>,
    /// The cell is in the list of demands.
    is_listed: bool,
    /// Calls used when the demand was listed last, and the time in nanoseconds.
    used_before: u64,
    listed_at: u64,
    /// Times that a request found no lease, since the demand was listed last.
    short: u64,
    /// Wakes the requests that wait for a grant.
    signal: Option<Arc<Signal>>,
}

/// The window of a lease.
#[derive(Clone, Debug)]
struct Account {
    /// Its first second since 1970, and its end.
    start: u64,
    end: u64,
    /// Calls of the quota.
    most: u64,
    /// The length of a rolling quota, and its calls.
    rolling: Option<(QuotaPeriod, Arc<Rolling>)>,
}

/// The decision about a call.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Counted; the calls that are left.
    Admitted(u64, Renewal),
    /// The fleet has no more, or nobody can be asked.
    Exhausted(Renewal),
    /// The fleet may have more.
    Ask(Ask),
    /// The fleet may have more, but the request waits no longer.
    Unavailable(Renewal),
}

/// A call against a leased quota.
pub(super) struct LeasedCall<'a> {
    pub(super) cell: &'a Arc<PlanCell>,
    pub(super) rolling: Option<&'a Arc<Rolling>>,
    pub(super) calendar: &'a Calendar,
    pub(super) now: Moment,
    pub(super) mode: Mode,
}

impl LeasedCall<'_> {
    /// Counts the call if its consumer has a lease.
    pub(super) fn admit(&self, leases: &Leases, on_shortage: OnShortage) -> Verdict {
        let lease = &self.cell.lease;
        let (tally, renewal) = match self.count(0) {
            Ok((tally, renewal)) => {
                if tally.used >= lease.low.load(Relaxed) {
                    let state = &mut lock(&lease.state);
                    self.open(state, tally);
                    self.demand(state, leases);
                }
                return Verdict::Admitted(lease.left(tally), renewal);
            }
            Err(short) => short,
        };
        let state = &mut lock(&lease.state);
        self.open(state, tally);
        // A grant may have come since.
        let allowance = self.allowance(leases, state.rest);
        if let Ok((tally, renewal)) = self.count(allowance) {
            leases.overdraft_calls.fetch_add(u64::from(tally.used > tally.leased), Relaxed);
            return Verdict::Admitted(lease.left(tally), renewal);
        }
        if state.rest == Some(0) {
            return Verdict::Exhausted(renewal);
        }
        state.short += 1;
        self.demand(state, leases);
        if self.mode.is_quota_outage() {
            return Verdict::Exhausted(Renewal { retry: OUTAGE_RETRY, ..renewal });
        }
        match on_shortage {
            OnShortage::Ask => {
                leases.waits.fetch_add(1, Relaxed);
                Verdict::Ask(Ask::new(state.signal.get_or_insert_default()))
            }
            OnShortage::Decide => {
                leases.denied.fetch_add(1, Relaxed);
                Verdict::Unavailable(Renewal { retry: 1, ..renewal })
            }
        }
    }

    /// The result of [`LeasedCall::admit`] now, if the fleet grants what it may have; nothing is
    /// counted and nobody is asked.
    pub(super) fn peek(&self, leases: &Leases) -> Verdict {
        let (tally, renewal) = self.tally();
        let state = &lock(&self.cell.lease.state);
        let is_open = state.account.as_ref().is_some_and(|account| account.start == tally.start);
        let rest = state.rest.filter(|_| is_open);
        let left = tally.leased.saturating_sub(tally.used);
        if left > 0 {
            return Verdict::Admitted(left - 1 + rest.unwrap_or(0), renewal);
        }
        if self.has_overdraft(tally, self.allowance(leases, rest)) {
            return Verdict::Admitted(0, renewal);
        }
        match rest {
            Some(0) => Verdict::Exhausted(renewal),
            _ if self.mode.is_quota_outage() => {
                Verdict::Exhausted(Renewal { retry: OUTAGE_RETRY, ..renewal })
            }
            _ => Verdict::Admitted(rest.map_or(0, |rest| rest - 1), renewal),
        }
    }

    /// Counts the call if fewer than the leased ones are used, or within the overdraft.
    fn count(&self, allowance: u64) -> Result<(Tally, Renewal), (Tally, Renewal)> {
        let unix = self.now.unix;
        match self.rolling {
            Some(rolling) => rolling.admit_leased(self.calendar.calls(), allowance, unix),
            None => {
                let window = self.calendar.window(unix);
                let renewal = window.renewal(unix);
                let counted = self.cell.used.admit_leased(window, allowance);
                counted.map(|tally| (tally, renewal)).map_err(|tally| (tally, renewal))
            }
        }
    }

    fn tally(&self) -> (Tally, Renewal) {
        let unix = self.now.unix;
        match self.rolling {
            Some(rolling) => rolling.tally(self.calendar.calls(), unix),
            None => {
                let window = self.calendar.window(unix);
                (self.cell.used.tally(window), window.renewal(unix))
            }
        }
    }

    /// Calls that this node may admit beyond its lease now; none if the quota is known to be exhausted.
    fn allowance(&self, leases: &Leases, rest: Option<u64>) -> u64 {
        if !self.mode.is_quota_outage() || rest == Some(0) {
            return 0;
        }
        let parts = u128::from(self.calendar.calls()) * u128::from(leases.overdraft.load(Relaxed));
        let calls = parts / u128::from(Leases::WHOLE) / u128::from(self.mode.nodes());
        u64::try_from(calls).unwrap_or(u64::MAX)
    }

    fn has_overdraft(&self, tally: Tally, allowance: u64) -> bool {
        match self.rolling {
            Some(rolling) => rolling.overdrawn(self.now.unix) < allowance,
            None => tally.used < tally.leased.saturating_add(allowance),
        }
    }

    /// Opens the lease of the window of `tally`, if it is another one: what was used in that window
    /// before counts as leased, what was leased in earlier windows is forfeit.
    fn open(&self, state: &mut State, tally: Tally) {
        let ring = |rolling: &Arc<Rolling>| Arc::as_ptr(rolling);
        let is_same = |account: &&mut Account| {
            let before = account.rolling.as_ref().map(|(_, rolling)| ring(rolling));
            account.start == tally.start && before == self.rolling.map(ring)
        };
        let length = match self.rolling {
            Some(rolling) => rolling.step(),
            None => self.calendar.window(self.now.unix).seconds(),
        };
        let (end, most) = (tally.start.saturating_add(length), self.calendar.calls());
        if let Some(account) = state.account.as_mut().filter(is_same) {
            // A reload may have changed them.
            (account.end, account.most) = (end, most);
            return;
        }
        match self.rolling {
            Some(rolling) => rolling.open_lease(tally.start),
            None => {
                let stored = state.stored.filter(|(start, _)| *start == tally.start);
                let leased = stored.map_or(u64::MAX, |(_, leased)| leased);
                self.cell.used.open_lease(tally.start, leased);
            }
        }
        let lease = &self.cell.lease;
        lease.low.store(u64::MAX, Relaxed);
        lease.rest.store(0, Relaxed);
        state.account = Some(Account {
            start: tally.start,
            end,
            most,
            rolling: self.rolling.map(|rolling| (rolling.per(), Arc::clone(rolling))),
        });
        state.rest = None;
        (state.used_before, state.listed_at) = (self.tally().0.used, self.now.nanos);
        state.short = 0;
        if let Some(signal) = state.signal.take() {
            signal.answer();
        }
    }

    /// Lists the demand of the consumer.
    fn demand(&self, state: &mut State, leases: &Leases) {
        self.cell.lease.low.store(u64::MAX, Relaxed);
        if state.rest != Some(0) && !state.is_listed {
            state.is_listed = true;
            leases.list(self.cell);
        }
    }
}

impl QuotaLease {
    /// Calls left of the lease, and of the quota as far as known.
    fn left(&self, tally: Tally) -> u64 {
        let lease = tally.leased.saturating_sub(tally.used);
        lease.saturating_add(self.rest.load(Relaxed))
    }

    /// Calls left in the window of `tally`, once the fleet has told.
    pub(super) fn known_rest(&self, tally: Tally) -> Option<u64> {
        let state = lock(&self.state);
        let is_open = state.account.as_ref().is_some_and(|account| account.start == tally.start);
        let rest = state.rest.filter(|_| is_open)?;
        Some(tally.leased.saturating_sub(tally.used).saturating_add(rest))
    }

    /// Sets what an earlier run was granted in a window.
    pub(super) fn restore(&self, start: u64, leased: u64) {
        lock(&self.state).stored = Some((start, leased));
    }

    /// Forgets the lease: the next call opens it anew.
    pub(super) fn close(&self, cell: &PlanCell) {
        let mut state = lock(&self.state);
        cell.used.close_lease();
        if let Some(Account { rolling: Some((_, rolling)), .. }) = &state.account {
            rolling.close_lease();
        }
        state.account = None;
    }
}
