//! Cache of verified tokens of one worker: signatures are not verified with every request.

use super::Principal;
use aws_lc_rs::digest;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use weir_config::AuthId;

/// Most cached tokens.
const CAPACITY: usize = 4096;

/// Longest time in seconds until a cached token is verified again.
const MAX_SECONDS: u64 = 300;

/// An auth, the number of its key set, and the SHA-256 of the whole token: another signature of the same
/// claims is another token, and so is the same token after a change of the key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(AuthId, u64, [u8; 32]);

impl Key {
    pub(super) fn new(auth: AuthId, number: u64, token: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token).as_ref());
        Self(auth, number, hash)
    }

    /// A credential that is known by its SHA-256.
    pub(super) fn of_hash(auth: AuthId, hash: [u8; 32]) -> Self {
        Self(auth, 0, hash)
    }

    /// The SHA-256.
    pub(super) fn hash(&self) -> &[u8; 32] {
        &self.2
    }
}

#[derive(Debug)]
struct Entry {
    principal: Rc<Principal>,
    /// The second at which the entry expires.
    until: u64,
    /// Its number in the order of insertion.
    number: u64,
}

/// A bounded map from tokens to principals.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    entries: HashMap<Key, Entry, foldhash::fast::RandomState>,
    /// Keys in the order of insertion; those whose entry has another number are left over from an
    /// entry that was replaced.
    order: VecDeque<(u64, Key)>,
    next: u64,
}

impl TokenCache {
    /// The principal of a cached token.
    pub(super) fn get(&self, key: &Key, now: u64) -> Option<Rc<Principal>> {
        let entry = self.entries.get(key)?;
        (now < entry.until).then(|| Rc::clone(&entry.principal))
    }

    /// Caches a token until `expires` (seconds since 1970, leeway included), five minutes at most.
    /// Whether one that was still valid was evicted.
    pub(super) fn insert(
        &mut self,
        key: Key,
        principal: Rc<Principal>,
        now: u64,
        expires: Option<u64>,
    ) -> bool {
        let until = expires.unwrap_or(u64::MAX).min(now.saturating_add(MAX_SECONDS));
        if until <= now {
            return false;
        }
        let evicted = self.entries.len() >= CAPACITY
            && !self.entries.contains_key(&key)
            && self.make_room(now);
        let number = self.next;
        self.next += 1;
        self.entries.insert(key, Entry { principal, until, number });
        self.order.push_back((number, key));
        if self.order.len() >= 2 * CAPACITY {
            self.tidy();
        }
        evicted
    }

    /// Drops every expired token, or the oldest one if none has expired.
    fn make_room(&mut self, now: u64) -> bool {
        self.entries.retain(|_, entry| now < entry.until);
        self.tidy();
        if self.entries.len() < CAPACITY {
            return false;
        }
        self.order.pop_front().is_some_and(|(_, key)| self.entries.remove(&key).is_some())
    }

    fn tidy(&mut self) {
        let entries = &self.entries;
        self.order.retain(|(number, key)| entries.get(key).is_some_and(|e| e.number == *number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::ConsumerId;

    fn key(number: u32) -> Key {
        Key::new(AuthId(0), 0, &number.to_be_bytes())
    }

    fn principal() -> Rc<Principal> {
        Rc::new(Principal::for_test(Some(ConsumerId(0))))
    }

    #[test]
    fn a_token_is_believed_for_five_minutes_and_never_past_its_expiry() {
        let mut cache = TokenCache::default();
        cache.insert(key(1), principal(), 1000, None);
        cache.insert(key(2), principal(), 1000, Some(1010));
        cache.insert(key(3), principal(), 1000, Some(1000));
        assert!(cache.get(&key(1), 1299).is_some());
        assert!(cache.get(&key(1), 1300).is_none());
        assert!(cache.get(&key(2), 1009).is_some());
        assert!(cache.get(&key(2), 1010).is_none());
        assert!(cache.get(&key(3), 1000).is_none());
    }

    #[test]
    fn the_same_token_of_another_auth_is_another_token() {
        let mut cache = TokenCache::default();
        cache.insert(Key::new(AuthId(0), 0, b"t"), principal(), 0, None);
        assert!(cache.get(&Key::new(AuthId(1), 0, b"t"), 0).is_none());
        // Nor is one that was verified with keys that may be gone.
        assert!(cache.get(&Key::new(AuthId(0), 1, b"t"), 0).is_none());
    }

    #[test]
    fn a_full_cache_drops_the_expired_first_and_then_the_oldest() {
        let mut cache = TokenCache::default();
        for number in 0..CAPACITY as u32 {
            let expires = if number == 5 { Some(1001) } else { None };
            assert!(!cache.insert(key(number), principal(), 1000, expires));
        }
        assert!(!cache.insert(key(10_000), principal(), 1001, None));
        assert!(cache.get(&key(0), 1001).is_some());
        assert!(cache.insert(key(10_001), principal(), 1001, None));
        assert!(cache.get(&key(0), 1001).is_none());
        assert!(cache.get(&key(1), 1001).is_some());
        assert_eq!(cache.entries.len(), CAPACITY);
    }

    #[test]
    fn verifying_one_token_again_and_again_does_not_grow_the_cache() {
        let mut cache = TokenCache::default();
        for round in 0..3 * CAPACITY as u64 {
            cache.insert(key(1), principal(), round * MAX_SECONDS, None);
        }
        assert_eq!(cache.entries.len(), 1);
        assert!(cache.order.len() < 2 * CAPACITY);
    }
}
