//! Token leases of rates: where the load of the nodes is uneven, each bucket of a fleet's rate is kept
//! elsewhere (Redis), and a node leases tokens of it.
//!
//! A lease is a number of tokens that are valid until a moment. The node admits only what it has
//! leased, so the fleet admits in any interval t at most burst + rate·(t + validity). The next tokens
//! are requested at half of the last lease. A denial is remembered for [`DENIAL`], so that overload
//! is rejected here. The thread that talks to the fleet lists the [demands](RateDemand) and answers
//! each with a grant or a denial; nothing here does I/O.

mod demands;

pub use demands::{RateDemand, TokenStatistics};

use super::OnShortage;
use super::fleet::{Fallback, Mode};
use super::keys::{Slot, lock};
use super::share::Rule;
use super::signal::{Ask, Signal};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

const SHARDS: usize = 64;

/// Most keys in one shard, of all limits together: 65,536 in all, about 20 MiB.
const SHARD_CAPACITY: usize = 1024;

/// A full shard is searched for keys without a lease no more often than this, in nanoseconds.
const SEARCH_PAUSE: u64 = 100_000_000;

/// Time in nanoseconds for which a denial is remembered.
const DENIAL: u64 = 20_000_000;

/// Time of the demand seen, in nanoseconds, that a lease is requested for.
const DEMAND: u64 = 100_000_000;

/// Tokens that are valid until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lease {
    tokens: u64,
    /// Nanoseconds on the clock of the limiter.
    until: u64,
}

impl Lease {
    fn left(self, now: u64) -> u64 {
        if now < self.until { self.tokens } else { 0 }
    }
}

/// The leases of one bucket.
#[derive(Debug)]
struct Bucket {
    /// Name of the bucket in the whole fleet.
    name: Box<str>,
    rule: Rule,
    /// The lease in use, and the next: a grant does not extend earlier tokens.
    leases: [Lease; 2],
    /// Tokens at which the next lease is requested.
    low: u64,
    /// The demand is in the list.
    is_listed: bool,
    /// The demand was listed, and has no answer yet.
    is_requested: bool,
    /// Denied until this time; the time from which the fleet has a token.
    denied_until: u64,
    token_at: u64,
    /// Requests since the demand was listed last, and that time.
    seen: u64,
    seen_since: u64,
    signal: Option<Arc<Signal>>,
}

impl Bucket {
    fn new(name: Box<str>, rule: Rule, now: u64) -> Self {
        Self {
            name,
            rule,
            leases: [Lease::default(); 2],
            low: 0,
            is_listed: false,
            is_requested: false,
            denied_until: 0,
            token_at: 0,
            seen: 0,
            seen_since: now,
            signal: None,
        }
    }

    /// Takes a token; returns the end of its lease.
    fn take(&mut self, now: u64) -> Option<u64> {
        let lease = self.leases.iter_mut().find(|lease| lease.left(now) > 0)?;
        lease.tokens -= 1;
        Some(lease.until)
    }

    fn left(&self, now: u64) -> u64 {
        self.leases.iter().map(|lease| lease.left(now)).sum()
    }

    /// Nothing is known of the bucket that is not known after a new demand.
    fn is_idle(&self, now: u64) -> bool {
        self.left(now) == 0 && now >= self.denied_until && !self.is_listed && self.signal.is_none()
    }

    /// Adds tokens that are valid until a time.
    fn grant(&mut self, tokens: u64, until: u64, now: u64) {
        self.leases.sort_by_key(|lease| if lease.left(now) > 0 { lease.until } else { u64::MAX });
        let [first, second] = &mut self.leases;
        let lease = if first.left(now) == 0 { first } else { second };
        *lease = match lease.left(now) {
            0 => Lease { tokens, until },
            // Both are in use: no token becomes valid for longer than it was granted.
            left => Lease { tokens: left.saturating_add(tokens), until: lease.until.min(until) },
        };
        self.low = tokens / 2;
    }

    /// Ends the waits for an answer.
    fn answer(&mut self) {
        self.is_requested = false;
        if let Some(signal) = self.signal.take() {
            signal.answer();
        }
    }
}

#[derive(Debug, Default)]
struct Shard {
    buckets: HashMap<Slot, Bucket, foldhash::fast::RandomState>,
    /// No bucket is searched for to be evicted before this time.
    search_at: u64,
}

impl Shard {
    /// Whether there is room for one more bucket, if need be after evicting idle ones.
    fn has_room(&mut self, now: u64) -> bool {
        if self.buckets.len() >= SHARD_CAPACITY && now >= self.search_at {
            self.buckets.retain(|_, bucket| !bucket.is_idle(now));
            self.search_at = now.saturating_add(SEARCH_PAUSE);
        }
        self.buckets.len() < SHARD_CAPACITY
    }
}

/// Decisions without the fleet, by their reason.
#[derive(Debug, Default)]
struct LocalDecisions {
    late: AtomicU64,
    full: AtomicU64,
    outage: AtomicU64,
}

/// The token leases of all buckets.
#[derive(Debug)]
pub(super) struct TokenLeases {
    shards: Vec<Mutex<Shard>>,
    hasher: foldhash::fast::RandomState,
    /// Buckets with a demand, each once.
    demands: Mutex<Vec<Slot>>,
    demanded: Notify,
    waits: AtomicU64,
    local: LocalDecisions,
    late_grants: AtomicU64,
}

impl Default for TokenLeases {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            demands: Mutex::default(),
            demanded: Notify::new(),
            waits: AtomicU64::new(0),
            local: LocalDecisions::default(),
            late_grants: AtomicU64::new(0),
        }
    }
}

/// The decision about a request to a bucket of the fleet.
#[derive(Debug)]
pub(super) enum TokenVerdict {
    /// Admitted, with the tokens left here and the end of the lease that it was charged to.
    Admitted { left: u64, until: u64 },
    /// The fleet has no token, for so many nanoseconds.
    Denied(u64),
    /// The fleet may have one.
    Ask(Ask),
    /// The fleet does not decide.
    Local(Fallback),
}

impl TokenLeases {
    /// Takes a token of the bucket at `slot`; `name` is its name in the whole fleet.
    pub(super) fn admit(
        &self,
        slot: &Slot,
        name: impl FnOnce() -> Box<str>,
        rule: Rule,
        (mode, on_shortage): (Mode, OnShortage),
        now: u64,
    ) -> TokenVerdict {
        let fallback = mode.fallback();
        if mode.is_rate_outage() {
            return local(&self.local.outage, fallback);
        }
        let mut shard = self.shard(slot);
        if !shard.buckets.contains_key(slot) {
            if !shard.has_room(now) {
                return local(&self.local.full, Fallback::Share);
            }
            shard.buckets.insert(slot.clone(), Bucket::new(name(), rule, now));
        }
        let Some(bucket) = shard.buckets.get_mut(slot) else {
            return local(&self.local.full, fallback);
        };
        // A reload may have changed it.
        bucket.rule = rule;
        bucket.seen += 1;
        if let Some(until) = bucket.take(now) {
            let left = bucket.left(now);
            if left <= bucket.low && !bucket.is_requested && now >= bucket.denied_until {
                self.list(slot, bucket);
            }
            return TokenVerdict::Admitted { left, until };
        }
        if now < bucket.denied_until {
            return TokenVerdict::Denied(bucket.token_at.saturating_sub(now).max(1));
        }
        self.list(slot, bucket);
        match on_shortage {
            OnShortage::Ask => {
                self.waits.fetch_add(1, Relaxed);
                TokenVerdict::Ask(Ask::new(bucket.signal.get_or_insert_default()))
            }
            OnShortage::Decide => local(&self.local.late, fallback),
        }
    }

    /// The result of [`TokenLeases::admit`] now, if the fleet grants what it may have; nothing is taken
    /// and nobody is asked.
    pub(super) fn peek(&self, slot: &Slot, mode: Mode, now: u64) -> TokenVerdict {
        if mode.is_rate_outage() {
            return TokenVerdict::Local(mode.fallback());
        }
        let shard = self.shard(slot);
        let Some(bucket) = shard.buckets.get(slot) else {
            return TokenVerdict::Admitted { left: 0, until: now };
        };
        match bucket.left(now) {
            0 if now < bucket.denied_until => {
                TokenVerdict::Denied(bucket.token_at.saturating_sub(now).max(1))
            }
            left => TokenVerdict::Admitted { left: left.saturating_sub(1), until: now },
        }
    }

    /// Tokens that a bucket of so many may give now, for operators.
    pub(super) fn available(&self, slot: &Slot, mode: Mode, now: u64, burst: u64) -> u64 {
        match self.peek(slot, mode, now) {
            TokenVerdict::Admitted { left, .. } => left.saturating_add(1).min(burst),
            TokenVerdict::Local(Fallback::Allow) => burst,
            TokenVerdict::Denied(_) | TokenVerdict::Local(_) | TokenVerdict::Ask(_) => 0,
        }
    }

    /// Returns a token to the lease that ends at `until`, if it is valid still.
    pub(super) fn refund(&self, slot: &Slot, until: u64, now: u64) {
        let mut shard = self.shard(slot);
        let Some(bucket) = shard.buckets.get_mut(slot) else { return };
        let is_own = |lease: &&mut Lease| lease.until == until && now < until;
        if let Some(lease) = bucket.leases.iter_mut().find(is_own) {
            lease.tokens += 1;
        }
    }

    /// Forgets every lease, and ends the waits for them.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let buckets = std::mem::take(&mut lock(shard).buckets);
            buckets.into_values().for_each(|mut bucket| bucket.answer());
        }
    }

    /// Adds a bucket to the demands, and wakes the thread of the fleet.
    fn list(&self, slot: &Slot, bucket: &mut Bucket) {
        bucket.is_requested = true;
        if !bucket.is_listed {
            bucket.is_listed = true;
            lock(&self.demands).push(slot.clone());
            self.demanded.notify_one();
        }
    }

    fn shard(&self, slot: &Slot) -> MutexGuard<'_, Shard> {
        // Bits that the map itself does not choose by.
        let number = (self.hasher.hash_one(slot) >> 24) as usize % SHARDS;
        lock(&self.shards[number])
    }
}

/// Counts a decision without the fleet.
fn local(counter: &AtomicU64, fallback: Fallback) -> TokenVerdict {
    counter.fetch_add(1, Relaxed);
    TokenVerdict::Local(fallback)
}
