//! The side of token leases that the thread of the fleet calls: demands, grants, denials.

use super::{Bucket, DEMAND, DENIAL, TokenLeases};
use crate::Moment;
use crate::keys::{Slot, lock};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The demand for tokens of a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct RateDemand {
    slot: Slot,
    /// Name of the bucket, the same on all nodes: 64 hexadecimal digits, the SHA-256 of the names of
    /// limit and key.
    pub name: String,
    /// Time until one token is refilled.
    pub interval: Duration,
    /// Most tokens of the bucket.
    pub burst: u64,
    /// Tokens requested, at least 1: the demand of 100 ms.
    pub tokens: u64,
}

/// Without the key, which may be a value of the request.
impl fmt::Debug for RateDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, interval, burst, tokens, .. } = self;
        let mut shown = f.debug_struct("RateDemand");
        shown.field("name", name).field("interval", interval);
        shown.field("burst", burst).field("tokens", tokens).finish_non_exhaustive()
    }
}

/// Counters of token leases since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenStatistics {
    /// Buckets held.
    pub buckets: usize,
    /// Waits of requests for tokens; a request may wait several times.
    pub waits: u64,
    /// Decisions without the fleet because it gave no answer in time.
    pub local_late: u64,
    /// Those because there was no room for the bucket.
    pub local_full: u64,
    /// Those of an outage, where every request is admitted, or none. Those by the share of this node
    /// are not counted.
    pub local_outage: u64,
    /// Grants for buckets that were evicted: forfeit.
    pub late_grants: u64,
}

impl TokenLeases {
    /// Waits until there is a demand that no earlier wait has ended for.
    pub(crate) async fn demanded(&self) {
        self.demanded.notified().await;
    }

    /// Takes the demands out of the list.
    pub(crate) fn demands(&self, now: Moment) -> Vec<RateDemand> {
        let slots = std::mem::take(&mut *lock(&self.demands));
        let demand = |slot: Slot| {
            let mut shard = self.shard(&slot);
            let bucket = shard.buckets.get_mut(&slot)?;
            bucket.is_listed = false;
            if !bucket.is_requested {
                // It was answered since.
                return None;
            }
            let (interval, burst) = bucket.rule.tokens();
            let name = bucket.name.to_string();
            let tokens = bucket.demand(now.nanos).min(burst);
            drop(shard);
            Some(RateDemand { slot, name, interval, burst, tokens })
        };
        slots.into_iter().filter_map(demand).collect()
    }

    /// Adds tokens to a bucket, valid for so long from now; false if it was evicted.
    pub(crate) fn grant(
        &self,
        demand: &RateDemand,
        tokens: u64,
        valid: Duration,
        now: Moment,
    ) -> bool {
        let until = now.nanos.saturating_add(nanos(valid));
        let is_there = self.answer(demand, |bucket| bucket.grant(tokens, until, now.nanos));
        self.late_grants.fetch_add(u64::from(!is_there), Relaxed);
        is_there
    }

    /// Remembers a denial of a bucket.
    pub(crate) fn deny(&self, demand: &RateDemand, retry_after: Duration, now: Moment) {
        self.answer(demand, |bucket| {
            bucket.denied_until = now.nanos.saturating_add(DENIAL);
            bucket.token_at = now.nanos.saturating_add(nanos(retry_after));
        });
    }

    pub(crate) fn statistics(&self) -> TokenStatistics {
        TokenStatistics {
            buckets: self.shards.iter().map(|shard| lock(shard).buckets.len()).sum(),
            waits: self.waits.load(Relaxed),
            local_late: self.local.late.load(Relaxed),
            local_full: self.local.full.load(Relaxed),
            local_outage: self.local.outage.load(Relaxed),
            late_grants: self.late_grants.load(Relaxed),
        }
    }

    /// Answers a demand; false if the bucket is not there any more.
    fn answer(&self, demand: &RateDemand, answer: impl FnOnce(&mut Bucket)) -> bool {
        let mut shard = self.shard(&demand.slot);
        let Some(bucket) = shard.buckets.get_mut(&demand.slot) else { return false };
        answer(bucket);
        bucket.answer();
        true
    }
}

impl Bucket {
    /// The tokens of [`DEMAND`], by the requests since the last listing.
    fn demand(&mut self, now: u64) -> u64 {
        let elapsed = u128::from(now.saturating_sub(self.seen_since).max(DEMAND));
        let tokens = (u128::from(self.seen) * u128::from(DEMAND)).div_ceil(elapsed);
        (self.seen, self.seen_since) = (0, now);
        u64::try_from(tokens).unwrap_or(u64::MAX).max(1)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
