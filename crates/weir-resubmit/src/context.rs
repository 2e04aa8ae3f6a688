//! The context that single resubmissions and the runner share.

use crate::claims::Claims;
use crate::statistics::Statistics;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use weir_config::Config;
use weir_model::{OnDone, RejectionReason, ReplayOutcome, ReplayRequest};
use weir_store::clock::now_us;
use weir_store::ledger::Ledger;
use weir_tracker::Index;

type Check = dyn Fn(&ReplayRequest) -> Result<(), RejectionReason> + Send + Sync;
type Submit =
    dyn Fn(Box<ReplayRequest>, OnDone) -> Result<(), (Box<ReplayRequest>, OnDone)> + Send + Sync;

/// Access to the data path.
pub struct GatewayClient {
    /// The configuration in force.
    pub config: Box<dyn Fn() -> Arc<Config> + Send + Sync>,
    /// Whether the gateway would accept a request, limits aside.
    pub check: Box<Check>,
    /// Sends a request. If the queue is full, both arguments are returned.
    pub send: Box<Submit>,
}

impl std::fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GatewayClient")
    }
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) ledger: Ledger,
    pub(crate) index: Index,
    pub(crate) gateway: GatewayClient,
    pub(crate) claims: Box<dyn Claims>,
    /// Bytes of the bodies of attempts of jobs of the fleet in flight.
    pub(crate) fleet_bytes: AtomicUsize,
    pub(crate) statistics: Mutex<Statistics>,
    /// Outcomes that the runner has not persisted yet: at most as many as attempts in flight.
    pub(crate) outcomes: Mutex<Vec<(u128, ReplayOutcome)>>,
    /// Whether the runner has to check the jobs.
    pub(crate) work: Mutex<bool>,
    pub(crate) waker: Condvar,
}

impl Context {
    pub(crate) fn new(
        ledger: Ledger,
        index: Index,
        gateway: GatewayClient,
        claims: Box<dyn Claims>,
    ) -> Self {
        Self {
            ledger,
            index,
            gateway,
            claims,
            fleet_bytes: AtomicUsize::new(0),
            statistics: Mutex::default(),
            outcomes: Mutex::default(),
            work: Mutex::new(true),
            waker: Condvar::new(),
        }
    }

    /// Wakes the runner.
    pub(crate) fn wake(&self) {
        *self.work.lock() = true;
        self.waker.notify_one();
    }

    /// Leaves the outcome of an attempt to the runner, which persists it.
    pub(crate) fn push_outcome(&self, attempt: u128, outcome: ReplayOutcome) {
        self.outcomes.lock().push((attempt, outcome));
    }
}

/// A new transaction id: a UUIDv7 (RFC 9562 section 5.7) of this moment.
pub(crate) fn new_id() -> u128 {
    let [random @ .., _, _, _, _, _, _] = fastrand::u128(..).to_be_bytes();
    uuid::Builder::from_unix_timestamp_millis(now_us() / 1000, &random).as_uuid().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_unique_uuids_of_version_7() {
        let (one, other) = (new_id(), new_id());
        assert_ne!(one, other);
        assert_eq!((one >> 76 & 0xf, one >> 62 & 3), (7, 2));
        assert!((one >> 80).abs_diff(u128::from(now_us() / 1000)) < 10_000);
    }
}
