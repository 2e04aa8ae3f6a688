//! Throttling of failed authentication, by the client's address.
//!
//! A failure is charged to the bucket of the address, a success is not. While the bucket is empty,
//! no signature of a credential from this address is verified and no token introspected. Credentials
//! in the cache of verified ones pass.

use super::gcra::Gcra;
use super::keys::{Key, Slot, lock};
use super::registry::{LimitCounter, LimitName, Limiter};
use super::{LimitPlan, Moment, seconds_up};
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
}

impl LimitPlan {
    /// Whether a credential from this address may be verified, which costs something.
    ///
    /// # Errors
    /// Too many have failed; the seconds until another may be tried, at least 1.
    pub fn may_authenticate(&self, address: IpAddr, now: Moment) -> Result<(), u64> {
        let Some(Failures { gcra, counter }) = &self.failures else { return Ok(()) };
        let slot = Slot { limit: counter.number, key: Key::address(address) };
        let peeked = self.limiter.buckets.peek(&slot, &counter.overflow, *gcra, now.nanos);
        peeked.map(|_| ()).map_err(seconds_up)
    }

    /// Counts a failed authentication from this address.
    ///
    /// # Errors
    /// Too many have failed; the seconds until another may be tried, at least 1.
    pub fn authentication_failed(&self, address: IpAddr, now: Moment) -> Result<(), u64> {
        let Some(Failures { gcra, counter }) = &self.failures else { return Ok(()) };
        let slot = Slot { limit: counter.number, key: Key::address(address) };
        let (counted, _) = self.limiter.buckets.admit(&slot, &counter.overflow, *gcra, now.nanos);
        counted.map(|_| ()).map_err(seconds_up)
    }
}
