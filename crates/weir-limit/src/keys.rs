//! Buckets by key: bounded in number, in shards with short locks. Each limit has a part of every
//! shard to itself, so that invented keys of one limit take no room from another.

use super::gcra::{Gcra, Level};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// Most buckets in one shard, of all limits together: 262,144 in all, about 25 MiB with short keys.
const SHARD_CAPACITY: usize = 4096;

/// Buckets in one shard that a limit has room for however many limits there are: 4,096 in all.
const MIN_CAPACITY: usize = 64;

/// A full part is searched for buckets to evict no more often than this, in nanoseconds, so that
/// invented keys cannot make weir search all the time.
const SEARCH_PAUSE: u64 = 100_000_000;

/// Longest text kept as a key, in bytes; a longer one is kept as its SHA-256.
const MAX_TEXT_BYTES: usize = 64;

/// The key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// An IPv4 address.
    V4(u32),
    /// The first 64 bits of an IPv6 address: the least that a subscriber gets.
    V6(u64),
    /// A consumer, by the number its name has in the registry.
    Consumer(u32),
    /// The value of an expression.
    Text(Box<str>),
}

impl Key {
    /// An IPv4-mapped address counts as the IPv4 address it stands for.
    pub(super) fn address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }

    pub(super) fn text(text: String) -> Self {
        if text.len() <= MAX_TEXT_BYTES {
            return Self::Text(text.into());
        }
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        Self::Text(HEXLOWER.encode(hash.as_ref()).into())
    }
}

/// A limit, and the key of a bucket of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    /// Number of the limit in the registry.
    pub(super) limit: u32,
    pub(super) key: Key,
}

/// The bucket that a request was charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bucket {
    /// The key's own.
    Own,
    /// The one shared by all keys without room for their own.
    Overflow,
}

/// The parts of a shard by the number of their limit.
type Shard = HashMap<u32, Part, foldhash::fast::RandomState>;

/// The buckets of one limit in a shard.
#[derive(Debug, Default)]
struct Part {
    buckets: HashMap<Key, AtomicU64, foldhash::fast::RandomState>,
    /// No bucket can be evicted before this time.
    search_at: u64,
    /// Arrival time of new buckets. An evicted one was full at that time, so its key loses nothing and,
    /// with an older clock, wins nothing.
    floor: u64,
}

impl Part {
    /// Evicts every bucket that is full again; returns their number.
    fn make_room(&mut self, now: u64) -> usize {
        if now < self.search_at {
            return 0;
        }
        let (before, mut next) = (self.buckets.len(), u64::MAX);
        self.buckets.retain(|_, tat| {
            let tat = *tat.get_mut();
            if tat > now {
                next = next.min(tat);
            }
            tat > now
        });
        self.floor = self.floor.max(now);
        self.search_at = next.max(now.saturating_add(SEARCH_PAUSE));
        before - self.buckets.len()
    }
}

/// All buckets that are found by key.
#[derive(Debug)]
pub(super) struct Buckets {
    shards: Vec<Mutex<Shard>>,
    hasher: foldhash::fast::RandomState,
    /// Most buckets in a part.
    capacity: AtomicUsize,
    evicted: AtomicU64,
    overflowed: AtomicU64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            capacity: AtomicUsize::new(SHARD_CAPACITY),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        }
    }
}

impl Buckets {
    /// Charges a request to the bucket of a key, or to `overflow` if there is no room for one more.
    pub(super) fn admit(
        &self,
        slot: &Slot,
        overflow: &AtomicU64,
        gcra: Gcra,
        now: u64,
    ) -> (Result<Level, u64>, Bucket) {
        let mut shard = self.shard(slot);
        let part = shard.entry(slot.limit).or_default();
        if let Some(tat) = part.buckets.get(&slot.key) {
            return (gcra.admit(tat, now), Bucket::Own);
        }
        if part.buckets.len() >= self.capacity.load(Ordering::Relaxed) {
            let evicted = part.make_room(now);
            self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
            if evicted == 0 {
                drop(shard);
                self.overflowed.fetch_add(1, Ordering::Relaxed);
                return (gcra.admit(overflow, now), Bucket::Overflow);
            }
        }
        let tat = AtomicU64::new(part.floor);
        let outcome = gcra.admit(&tat, now);
        part.buckets.insert(slot.key.clone(), tat);
        (outcome, Bucket::Own)
    }

    /// The result of [`Buckets::admit`] now; nothing is charged and nothing evicted.
    pub(super) fn peek(
        &self,
        slot: &Slot,
        overflow: &AtomicU64,
        gcra: Gcra,
        now: u64,
    ) -> Result<Level, u64> {
        let shard = self.shard(slot);
        let Some(part) = shard.get(&slot.limit) else {
            return gcra.peek(&AtomicU64::new(0), now);
        };
        if let Some(tat) = part.buckets.get(&slot.key) {
            return gcra.peek(tat, now);
        }
        if part.buckets.len() < self.capacity.load(Ordering::Relaxed) {
            return gcra.peek(&AtomicU64::new(part.floor), now);
        }
        let full = |tat: &AtomicU64| tat.load(Ordering::Relaxed) <= now;
        let makes_room = now >= part.search_at && part.buckets.values().any(full);
        // Room is made by going on to `now`.
        let fresh = AtomicU64::new(part.floor.max(now));
        gcra.peek(if makes_room { &fresh } else { overflow }, now)
    }

    /// Refunds what [`Buckets::admit`] charged.
    pub(super) fn refund(&self, slot: &Slot, bucket: Bucket, overflow: &AtomicU64, gcra: Gcra) {
        match bucket {
            Bucket::Overflow => gcra.refund(overflow),
            Bucket::Own => {
                let shard = self.shard(slot);
                if let Some(tat) = shard.get(&slot.limit).and_then(|p| p.buckets.get(&slot.key)) {
                    gcra.refund(tat);
                }
            }
        }
    }

    /// Converts the buckets of limits that changed (by number: before, after) to the new rules.
    pub(super) fn migrate(&self, changed: &HashMap<u32, (Gcra, Gcra)>, now: u64) {
        for shard in &self.shards {
            for (limit, part) in lock(shard).iter() {
                let Some((before, after)) = changed.get(limit) else { continue };
                part.buckets.values().for_each(|tat| after.migrate(*before, tat, now));
            }
        }
    }

    /// Divides the room among these limits, by number. Of other limits, which may come back, only
    /// buckets that are not full stay.
    pub(super) fn divide(&self, limits: &HashSet<u32>, now: u64) {
        let capacity = (SHARD_CAPACITY / limits.len().max(1)).max(MIN_CAPACITY);
        self.capacity.store(capacity, Ordering::Relaxed);
        for shard in &self.shards {
            lock(shard).retain(|limit, part| {
                if !limits.contains(limit) {
                    part.buckets.retain(|_, tat| *tat.get_mut() > now);
                    part.floor = part.floor.max(now);
                }
                limits.contains(limit) || !part.buckets.is_empty()
            });
        }
    }

    /// Buckets held, evicted so far, requests counted in overflow buckets so far.
    pub(super) fn statistics(&self) -> (usize, u64, u64) {
        let held = |shard: &Mutex<Shard>| {
            lock(shard).values().map(|part| part.buckets.len()).sum::<usize>()
        };
        let held = self.shards.iter().map(held).sum::<usize>();
        (held, self.evicted.load(Ordering::Relaxed), self.overflowed.load(Ordering::Relaxed))
    }

    fn shard(&self, slot: &Slot) -> MutexGuard<'_, Shard> {
        // Bits that the map itself does not choose by.
        let number = (self.hasher.hash_one(slot) >> 24) as usize % SHARDS;
        lock(&self.shards[number])
    }
}

/// Locks a mutex, also after a panic: the numbers are valid at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_config::{Rate, RateScope};

    const SECOND: u64 = 1_000_000_000;

    fn per_second(requests: u64) -> Gcra {
        Gcra::new(Rate {
            requests,
            per: Duration::from_secs(1),
            burst: requests,
            scope: RateScope::Fleet,
        })
    }

    fn slot(number: u32) -> Slot {
        Slot { limit: 0, key: Key::V4(number) }
    }

    fn key(text: &str) -> Key {
        Key::address(text.parse().expect("an address"))
    }

    #[test]
    fn looking_says_what_admitting_would_and_takes_nothing() {
        let (buckets, overflow, gcra) = (Buckets::default(), AtomicU64::new(0), per_second(2));
        // More keys than there is room for, some of them again.
        for number in 0..(SHARDS * SHARD_CAPACITY) as u32 * 5 / 4 {
            let slot = slot(if number % 7 == 0 { number / 2 } else { number });
            let now = SECOND + u64::from(number / 1000);
            let peeked = buckets.peek(&slot, &overflow, gcra, now);
            assert_eq!(peeked, buckets.peek(&slot, &overflow, gcra, now));
            assert_eq!(peeked, buckets.admit(&slot, &overflow, gcra, now).0, "{number}");
        }
        assert!(buckets.statistics().2 > 0, "some had no room");
    }

    #[test]
    fn addresses_are_one_key_by_subscriber() {
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::2"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.2"), key("192.0.2.1"));
    }

    #[test]
    fn long_texts_are_bounded_and_still_differ() {
        let (a, b) = (Key::text("a".repeat(5000)), Key::text("a".repeat(5001)));
        assert_ne!(a, b);
        assert!(matches!(a, Key::Text(text) if text.len() == MAX_TEXT_BYTES));
        assert_eq!(Key::text("short".into()), Key::Text("short".into()));
    }

    #[test]
    fn keys_and_limits_have_buckets_of_their_own() {
        let (buckets, overflow, gcra) = (Buckets::default(), AtomicU64::new(0), per_second(1));
        let other_limit = Slot { limit: 1, ..slot(1) };
        for slot in [slot(1), slot(2), other_limit] {
            assert!(buckets.admit(&slot, &overflow, gcra, SECOND).0.is_ok());
            assert!(buckets.admit(&slot, &overflow, gcra, SECOND).0.is_err());
            buckets.refund(&slot, Bucket::Own, &overflow, gcra);
            assert!(buckets.admit(&slot, &overflow, gcra, SECOND).0.is_ok());
        }
        assert_eq!(buckets.statistics(), (3, 0, 0));
    }

    #[test]
    fn keys_invented_for_one_limit_take_no_room_from_another() {
        let (buckets, overflow) = (Buckets::default(), AtomicU64::new(0));
        buckets.divide(&HashSet::from([0, 1]), SECOND);
        for number in 0..(SHARDS * SHARD_CAPACITY) as u32 {
            let _ = buckets.admit(&slot(number), &overflow, per_second(1), SECOND);
        }
        assert!(buckets.statistics().2 > 0, "the limit is out of room");
        assert!(buckets.statistics().0 <= SHARDS * SHARD_CAPACITY / 2);
        for number in 0..10_000 {
            let other = Slot { limit: 1, ..slot(number) };
            let admitted = buckets.admit(&other, &overflow, per_second(1), SECOND);
            assert!(matches!(admitted, (Ok(_), Bucket::Own)), "{number}");
        }
        // A limit that is gone leaves its room once its buckets are full again.
        buckets.divide(&HashSet::from([1]), SECOND);
        assert!(buckets.statistics().0 > 10_000);
        buckets.divide(&HashSet::from([2]), 3 * SECOND);
        assert_eq!(buckets.statistics().0, 0);
        let returned = buckets.admit(&slot(1), &overflow, per_second(1), 3 * SECOND);
        assert!(matches!(returned, (Ok(_), Bucket::Own)));
    }

    #[test]
    fn many_limits_have_some_room_each() {
        let (buckets, overflow) = (Buckets::default(), AtomicU64::new(0));
        buckets.divide(&(0..100_000).collect(), SECOND);
        for number in 0..1000 {
            let admitted = buckets.admit(&slot(number), &overflow, per_second(1), SECOND);
            assert!(matches!(admitted, (Ok(_), Bucket::Own)), "{number}");
        }
    }

    /// Fills every shard with buckets that are full again after a second.
    fn crowded(now: u64) -> Buckets {
        let (buckets, overflow) = (Buckets::default(), AtomicU64::new(0));
        let mut number = 0;
        while buckets.statistics().0 < SHARDS * SHARD_CAPACITY {
            for _ in 0..20_000 {
                let _ = buckets.admit(&slot(number), &overflow, per_second(1), now);
                number += 1;
            }
        }
        buckets
    }

    #[test]
    fn keys_without_room_share_a_bucket_until_others_are_full_again() {
        let (buckets, overflow, gcra) = (crowded(SECOND), AtomicU64::new(0), per_second(1));
        let overflowed = buckets.statistics().2;
        let (first, second) = (slot(u32::MAX), slot(u32::MAX - 1));
        assert!(matches!(
            buckets.admit(&first, &overflow, gcra, SECOND),
            (Ok(_), Bucket::Overflow)
        ));
        assert!(matches!(
            buckets.admit(&second, &overflow, gcra, SECOND),
            (Err(_), Bucket::Overflow)
        ));
        assert_eq!(buckets.statistics().2, overflowed + 2);
        buckets.refund(&first, Bucket::Overflow, &overflow, gcra);
        assert!(buckets.admit(&second, &overflow, gcra, SECOND).0.is_ok());

        let later = 2 * SECOND + SEARCH_PAUSE;
        assert!(matches!(buckets.admit(&first, &overflow, gcra, later), (Ok(_), Bucket::Own)));
        assert!(matches!(buckets.admit(&first, &overflow, gcra, later), (Err(_), Bucket::Own)));
        let (held, evicted, _) = buckets.statistics();
        assert_eq!(evicted, SHARD_CAPACITY as u64);
        assert_eq!(held, (SHARDS - 1) * SHARD_CAPACITY + 1);
    }

    #[test]
    fn a_bucket_that_is_not_full_is_never_evicted() {
        let (buckets, overflow) = (crowded(SECOND), AtomicU64::new(0));
        // Half of a shard's buckets last longer.
        let slow = Gcra::new(Rate {
            requests: 1,
            per: Duration::from_secs(3600),
            burst: 1,
            scope: RateScope::Fleet,
        });
        let late = 2 * SECOND + SEARCH_PAUSE;
        let kept: Vec<_> = (0..2000).map(slot).collect();
        for slot in &kept {
            assert!(buckets.admit(slot, &overflow, slow, late - 1).0.is_ok());
        }
        for number in 0..5_000_000u32 {
            let _ = buckets.admit(&slot(u32::MAX - number), &overflow, slow, late);
            if buckets.statistics_evicted() >= ((SHARDS * SHARD_CAPACITY) as u64) - 2000 {
                break;
            }
        }
        for slot in &kept {
            assert!(buckets.admit(slot, &overflow, slow, late).0.is_err());
        }
    }

    impl Buckets {
        fn statistics_evicted(&self) -> u64 {
            self.evicted.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn buckets_of_a_changed_limit_keep_what_was_taken() {
        let (buckets, overflow) = (Buckets::default(), AtomicU64::new(0));
        let (before, after) = (per_second(1), per_second(10));
        let untouched = Slot { limit: 1, ..slot(1) };
        for slot in [&slot(1), &untouched] {
            assert!(buckets.admit(slot, &overflow, before, SECOND).0.is_ok());
        }
        buckets.migrate(&HashMap::from([(0, (before, after))]), SECOND);
        let left = |slot: &Slot, gcra| buckets.admit(slot, &overflow, gcra, SECOND).0;
        assert_eq!(left(&slot(1), after).map(|level| level.remaining), Ok(8));
        assert_eq!(left(&untouched, before), Err(SECOND));
    }
}
