//! Throttling of failed authentication, by the client's address.
//!
//! A failure is charged to the bucket of the address, a success is not. While the bucket is empty,
//! no signature of a credential from this address is verified and no token introspected. Credentials
//! in the cache of verified ones pass.

use super::gcra::Gcra;
use super::keys::{Key, Slot, lock};
use super::registry::{LimitCounter, LimitName, Limiter};
use super::{Moment, seconds_up};
use std::net::IpAddr;
use std::sync::Arc;
use weir_config::Rate;

/// The limit on failures of one Config.
#[derive(Debug)]
pub(super) struct Failures {
    gcra: Gcra,
    counter: Arc<LimitCounter>,
}

impl Failures {
    /// `None` if failures are not limited. Buckets outlive the Config.
    pub(super) fn new(limiter: &Limiter, rate: Option<Rate>) -> Option<Self> {
        let gcra = Gcra::new(rate?);
        // No API has an empty name.
        let name =
            LimitName { api: String::new(), limit: "failed_authentication".into(), occurrence: 0 };
        let counter = lock(&limiter.registry).limit(name);
        Some(Self { gcra, counter })
    }

    /// Number of the limit in the registry.
    pub(super) fn number(&self) -> u32 {
        self.counter.number
    }

    fn slot(&self, address: IpAddr) -> Slot {
        Slot { limit: self.counter.number, key: Key::address(address) }
    }

    /// Whether a credential from this address may be verified; otherwise the seconds until then.
    pub(super) fn peek(&self, limiter: &Limiter, address: IpAddr, now: Moment) -> Result<(), u64> {
        let slot = self.slot(address);
        let peeked = limiter.buckets.peek(&slot, &self.counter.overflow, self.gcra, now.nanos);
        peeked.map(|_| ()).map_err(seconds_up)
    }

    /// Counts a failure; beyond the limit, the seconds until the next may be tried.
    pub(super) fn count(&self, limiter: &Limiter, address: IpAddr, now: Moment) -> Result<(), u64> {
        let slot = self.slot(address);
        let (admitted, _) =
            limiter.buckets.admit(&slot, &self.counter.overflow, self.gcra, now.nanos);
        admitted.map(|_| ()).map_err(seconds_up)
    }
}
