//! How limits are enforced on this node of a fleet, in one word that a request reads in one step.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Quotas are enforced by leases.
const QUOTAS_LEASED: u64 = 1 << 32;
/// Nobody grants leases of quotas now.
const QUOTA_OUTAGE: u64 = 1 << 33;

/// The lowest bit of the [`RateMode`].
const RATES_SHIFT: u32 = 34;
const RATES: u64 = 7 << RATES_SHIFT;

/// How rates with the scope `fleet` are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateMode {
    /// Each node enforces its share.
    Shares,
    /// Each node enforces the full rate by itself.
    Local,
    /// Tokens are leased; the fallback decides about a request that gets no answer in time.
    Leases(Fallback),
    /// Tokens would be leased, but nobody grants any: the fallback decides, and no request waits.
    Outage(Fallback),
}

/// How a rate is enforced without an answer of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// By the share of this node.
    Share,
    /// No request is admitted.
    Deny,
    /// Every request is admitted.
    Allow,
}

impl RateMode {
    /// Its bits; from 2 on, leases or their fallback decide.
    fn bits(self) -> u64 {
        match self {
            // The share of this node decides in both cases.
            Self::Shares | Self::Outage(Fallback::Share) => 0,
            Self::Local => 1,
            Self::Leases(Fallback::Share) => 2,
            Self::Leases(Fallback::Deny) => 3,
            Self::Leases(Fallback::Allow) => 4,
            Self::Outage(Fallback::Deny) => 5,
            Self::Outage(Fallback::Allow) => 6,
        }
    }
}

/// How limits are enforced: the number of live nodes in the lower half, flags above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(u64);

/// A node that is alone.
const ALONE: Mode = Mode(1);

impl Mode {
    /// The number of live nodes, at least 1.
    pub(super) fn nodes(self) -> u32 {
        self.0 as u32
    }

    /// The number of nodes that rates are divided among.
    pub(super) fn sharing_nodes(self) -> u32 {
        if self.rates() == 1 { 1 } else { self.nodes() }
    }

    /// Whether rates are enforced by token leases, or by what takes their place in an outage.
    pub(super) fn leases_rates(self) -> bool {
        self.rates() > 1
    }

    /// Whether nobody grants tokens now.
    pub(super) fn is_rate_outage(self) -> bool {
        self.rates() > 4
    }

    /// How rates are enforced without an answer of the fleet.
    pub(super) fn fallback(self) -> Fallback {
        match self.rates() {
            3 | 5 => Fallback::Deny,
            4 | 6 => Fallback::Allow,
            _ => Fallback::Share,
        }
    }

    fn rates(self) -> u64 {
        (self.0 & RATES) >> RATES_SHIFT
    }

    pub(super) fn with_rates(self, rates: RateMode) -> Self {
        Self(self.0 & !RATES | rates.bits() << RATES_SHIFT)
    }

    /// Whether quotas are enforced by leases.
    pub(super) fn leases_quotas(self) -> bool {
        self.0 & QUOTAS_LEASED != 0
    }

    /// Whether nobody grants leases of quotas now.
    pub(super) fn is_quota_outage(self) -> bool {
        self.0 & QUOTA_OUTAGE != 0
    }

    pub(super) fn with_nodes(self, nodes: u32) -> Self {
        Self(self.0 >> 32 << 32 | u64::from(nodes.max(1)))
    }

    pub(super) fn with_leased_quotas(self, on: bool) -> Self {
        self.with(QUOTAS_LEASED, on)
    }

    pub(super) fn with_quota_outage(self, on: bool) -> Self {
        self.with(QUOTA_OUTAGE, on)
    }

    fn with(self, flag: u64, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }
}

/// The mode, shared by all workers.
#[derive(Debug)]
pub(super) struct SharedMode(AtomicU64);

impl Default for SharedMode {
    fn default() -> Self {
        Self(AtomicU64::new(ALONE.0))
    }
}

impl SharedMode {
    pub(super) fn get(&self) -> Mode {
        Mode(self.0.load(Relaxed))
    }

    /// Changes the mode; returns the one before.
    pub(super) fn change(&self, change: impl Fn(Mode) -> Mode) -> Mode {
        let changed = |mode| Some(change(Mode(mode)).0);
        // The closure always returns a mode.
        let (Ok(before) | Err(before)) = self.0.fetch_update(Relaxed, Relaxed, changed);
        Mode(before)
    }
}
