//! How limits are enforced on this node of a fleet, in one word that a request reads in one step.

use super::registry::Limiter;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Quotas are enforced by leases.
const QUOTAS_LEASED: u64 = 1 << 32;
/// Nobody grants leases of quotas now.
const QUOTA_OUTAGE: u64 = 1 << 33;

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

impl Limiter {
    /// How limits are enforced now.
    pub(super) fn mode(&self) -> Mode {
        Mode(self.mode.0.load(Relaxed))
    }

    /// Changes the mode; returns the one before.
    pub(super) fn change_mode(&self, change: impl Fn(Mode) -> Mode) -> Mode {
        let changed = |mode| Some(change(Mode(mode)).0);
        // The closure always returns a mode.
        let (Ok(before) | Err(before)) = self.mode.0.fetch_update(Relaxed, Relaxed, changed);
        Mode(before)
    }

    /// The number of live nodes, at least 1.
    pub fn nodes(&self) -> u32 {
        self.mode().nodes()
    }
}
