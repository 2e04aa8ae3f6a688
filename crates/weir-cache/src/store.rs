//! Stored responses of a route, shared by all workers, bounded in memory.
//!
//! Eviction is by the clock algorithm: first the responses that were not used since the last round. A
//! response counts with its headers, its key and the overhead of the map. The lock is held for a lookup
//! or an insertion, never over a body or an await.

use super::rules::{self, Freshness};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::watch;
use weir_wire::Headers;

/// Approximate memory of a response besides its bytes.
const OVERHEAD_BYTES: u64 = 512;
/// Most responses of one resource.
const MAX_VARIANTS: usize = 32;
/// How long requests for an uncacheable resource are not collapsed, in seconds.
const HIT_FOR_MISS_SECONDS: u64 = 10;

type Key = Arc<[u8]>;

/// Stored responses.
#[derive(Debug)]
pub struct Store {
    memory: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    resources: HashMap<Key, Vec<Arc<Entry>>, foldhash::fast::RandomState>,
    order: VecDeque<(Key, Weak<Entry>)>,
    entries: usize,
    bytes: u64,
    filling: HashMap<Box<[u8]>, watch::Receiver<()>, foldhash::fast::RandomState>,
}

/// A stored response, or the fact that the response to these requests is uncacheable.
#[derive(Debug)]
pub struct Entry {
    /// Caller and upstream that it belongs to.
    tag: Vec<u8>,
    /// Request headers that select it, with their values.
    vary: Vec<(String, Option<Vec<u8>>)>,
    /// The response; `None` if it must not be stored.
    pub response: Option<StoredResponse>,
    /// Seconds since 1970 when it arrived.
    stored_at: u64,
    cost: u64,
    used: AtomicBool,
}

/// A response.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// Status code of the response.
    pub status: u16,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Bytes,
    /// Its freshness.
    pub freshness: Freshness,
}

impl Entry {
    fn fits(&self, tag: &[u8], request: &Headers) -> bool {
        self.tag == tag
            && self.vary.iter().all(|(name, value)| rules::value_of(request, name) == *value)
    }

    /// Age in seconds.
    pub fn age(&self, now: u64) -> u64 {
        let before = self.response.as_ref().map_or(0, |response| response.freshness.age);
        before.saturating_add(now.saturating_sub(self.stored_at))
    }

    /// Remaining seconds of freshness.
    pub fn fresh_for(&self, now: u64) -> u64 {
        let fresh = self
            .response
            .as_ref()
            .map_or(HIT_FOR_MISS_SECONDS, |response| response.freshness.fresh);
        fresh.saturating_sub(self.age(now))
    }
}

/// Result of a lookup.
pub enum StoreLookup {
    /// No stored response.
    Miss,
    /// A fresh response.
    Fresh(Arc<Entry>),
    /// A stale response with a validator.
    Stale(Arc<Entry>),
    /// The response is known to be uncacheable.
    HitForMiss,
}

/// A cache fill in progress, until dropped.
pub struct FillGuard {
    store: Arc<Store>,
    key: Box<[u8]>,
    /// Its drop wakes collapsed requests.
    _sender: watch::Sender<()>,
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        self.store.state().filling.remove(&self.key);
    }
}

impl Store {
    /// A store of at most `memory` bytes.
    pub fn new(memory: u64) -> Self {
        Self { memory, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic at most the count of bytes is wrong, which only evicts early.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stored responses and bytes.
    pub fn size(&self) -> (u64, u64) {
        let state = self.state();
        (state.entries as u64, state.bytes)
    }

    /// Looks up the response to a request with these headers at `now`, seconds since 1970.
    pub fn lookup(&self, key: &[u8], tag: &[u8], request: &Headers, now: u64) -> StoreLookup {
        let state = self.state();
        let entries = state.resources.get(key).map(Vec::as_slice).unwrap_or_default();
        let Some(entry) = entries.iter().find(|entry| entry.fits(tag, request)) else {
            return StoreLookup::Miss;
        };
        let fresh = entry.fresh_for(now) > 0;
        match &entry.response {
            None if fresh => StoreLookup::HitForMiss,
            None => StoreLookup::Miss,
            Some(response) => {
                entry.used.store(true, Relaxed);
                match (fresh, rules::has_validator(&response.headers)) {
                    (true, _) => StoreLookup::Fresh(Arc::clone(entry)),
                    (false, true) => StoreLookup::Stale(Arc::clone(entry)),
                    (false, false) => StoreLookup::Miss,
                }
            }
        }
    }

    /// Starts a cache fill; `Err` ends with the fill in progress.
    pub fn start_fill(
        self: &Arc<Self>,
        key: &[u8],
        tag: &[u8],
    ) -> Result<FillGuard, watch::Receiver<()>> {
        let key: Box<[u8]> = [key, tag].concat().into();
        let mut state = self.state();
        if let Some(receiver) = state.filling.get(&key) {
            return Err(receiver.clone());
        }
        let (sender, receiver) = watch::channel(());
        state.filling.insert(key.clone(), receiver);
        Ok(FillGuard { store: Arc::clone(self), key, _sender: sender })
    }

    /// Stores the response to `request` that arrived at `now`; `None`: it is uncacheable. Returns
    /// the number of evictions.
    pub fn insert(
        &self,
        key: &[u8],
        tag: &[u8],
        request: &Headers,
        response: Option<StoredResponse>,
        now: u64,
    ) -> u64 {
        let names = response.as_ref().and_then(|response| rules::varies_by(&response.headers));
        let value = |name: String| {
            let value = rules::value_of(request, &name);
            (name, value)
        };
        let vary: Vec<_> = names.unwrap_or_default().into_iter().map(value).collect();
        let values =
            vary.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
        let own = response.as_ref().map_or(0, |response| {
            let fields =
                response.headers.iter().map(|(_, name, value)| name.len() + value.len() + 32);
            response.body.len() + fields.sum::<usize>()
        });
        let cost =
            OVERHEAD_BYTES + (2 * key.len() + tag.len() + values.sum::<usize>() + own) as u64;
        if cost > self.memory {
            return 0;
        }
        let tag = tag.to_vec();
        let entry =
            Arc::new(Entry { tag, vary, response, stored_at: now, cost, used: false.into() });
        let mut state = self.state();
        let state = &mut *state;
        state.remove(key, |old| old.fits(&entry.tag, request));
        let key: Key = match state.resources.get_key_value(key) {
            Some((known, _)) => Arc::clone(known),
            None => key.into(),
        };
        let mut evicted = 0;
        while state.resources.get(&key).is_some_and(|entries| entries.len() >= MAX_VARIANTS) {
            let oldest = state.resources.get(&key).and_then(|entries| entries.first()).cloned();
            state.remove(&key, |old| oldest.as_ref().is_some_and(|o| std::ptr::eq(&**o, old)));
            evicted += 1;
        }
        state.order.push_back((Arc::clone(&key), Arc::downgrade(&entry)));
        state.resources.entry(key).or_default().push(entry);
        state.entries += 1;
        state.bytes += cost;
        while state.bytes > self.memory && state.evict() {
            evicted += 1;
        }
        if state.order.len() > 2 * state.entries + 64 {
            state.order.retain(|(_, entry)| entry.strong_count() > 0);
        }
        evicted
    }

    /// Invalidates a resource after a change.
    pub fn invalidate(&self, key: &[u8]) {
        self.state().remove(key, |_| true);
    }
}

impl State {
    /// Removes entries of a resource.
    fn remove(&mut self, key: &[u8], is_removed: impl Fn(&Entry) -> bool) {
        let Some(entries) = self.resources.get_mut(key) else { return };
        let (count, bytes) = (&mut self.entries, &mut self.bytes);
        entries.retain(|entry| {
            let is_removed = is_removed(entry);
            if is_removed {
                *count -= 1;
                *bytes -= entry.cost;
            }
            !is_removed
        });
        if entries.is_empty() {
            self.resources.remove(key);
        }
    }

    /// Removes the first entry that was not used since the last round.
    fn evict(&mut self) -> bool {
        // After one round every entry is unused.
        for _ in 0..=2 * self.order.len() {
            let Some((key, weak)) = self.order.pop_front() else { return false };
            let Some(entry) = weak.upgrade() else { continue };
            let stored = self.resources.get(&key);
            if !stored.is_some_and(|entries| entries.iter().any(|e| Arc::ptr_eq(e, &entry))) {
                // A response in flight still holds it, but it is not stored any more.
                continue;
            }
            if entry.used.swap(false, Relaxed) {
                self.order.push_back((key, weak));
                continue;
            }
            self.remove(&key, |old| std::ptr::eq(old, &*entry));
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        headers
    }

    fn response(body: &str, fields: &[(&str, &str)]) -> Option<StoredResponse> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let freshness = Freshness { fresh: 60, age: 0 };
        Some(StoredResponse { status: 200, headers: headers(fields), body, freshness })
    }

    fn body(found: &StoreLookup) -> Option<&[u8]> {
        match found {
            StoreLookup::Fresh(entry) => entry.response.as_ref().map(|response| &response.body[..]),
            _ => None,
        }
    }

    #[test]
    fn an_answer_is_for_requests_like_the_one_it_came_for() {
        let store = Store::new(1 << 20);
        let (de, en) =
            (headers(&[("accept-language", "de")]), headers(&[("accept-language", "en")]));
        let vary = [("vary", "Accept-Language")];
        store.insert(b"a", b"", &de, response("ja", &vary), 0);
        store.insert(b"a", b"", &en, response("yes", &vary), 0);
        assert_eq!(body(&store.lookup(b"a", b"", &de, 0)), Some(&b"ja"[..]));
        assert_eq!(body(&store.lookup(b"a", b"", &en, 0)), Some(&b"yes"[..]));
        assert!(matches!(store.lookup(b"a", b"", &Headers::new(), 0), StoreLookup::Miss));
        assert!(matches!(store.lookup(b"a", b"me", &de, 0), StoreLookup::Miss), "somebody else's");
        assert!(matches!(store.lookup(b"b", b"", &de, 0), StoreLookup::Miss));
        store.insert(b"a", b"", &de, response("doch", &vary), 1);
        assert_eq!(body(&store.lookup(b"a", b"", &de, 1)), Some(&b"doch"[..]));
        assert_eq!(store.size().0, 2);
        store.invalidate(b"a");
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn it_is_fresh_as_long_as_it_says_and_then_asked_for_again() {
        let store = Store::new(1 << 20);
        let request = Headers::new();
        store.insert(b"a", b"", &request, response("a", &[("etag", "\"1\"")]), 100);
        store.insert(b"b", b"", &request, response("b", &[]), 100);
        store.insert(b"c", b"", &request, None, 100);
        assert!(matches!(store.lookup(b"a", b"", &request, 159), StoreLookup::Fresh(_)));
        assert!(matches!(store.lookup(b"a", b"", &request, 160), StoreLookup::Stale(_)));
        assert!(matches!(store.lookup(b"b", b"", &request, 160), StoreLookup::Miss));
        assert!(matches!(store.lookup(b"c", b"", &request, 109), StoreLookup::HitForMiss));
        assert!(matches!(store.lookup(b"c", b"", &request, 110), StoreLookup::Miss));
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let store = Store::new(20_000);
        let request = Headers::new();
        let large = "x".repeat(2_000);
        let mut evicted = 0;
        for number in 0..100u32 {
            evicted += store.insert(&number.to_be_bytes(), b"", &request, response(&large, &[]), 0);
            assert!(store.size().1 <= 20_000);
            let first = store.lookup(&0u32.to_be_bytes(), b"", &request, 0);
            assert!(matches!(first, StoreLookup::Fresh(_)), "used all the time: {number}");
        }
        let (entries, _) = store.size();
        assert_eq!(entries + evicted, 100);
        assert_eq!(store.insert(b"a", b"", &request, response(&"x".repeat(30_000), &[]), 0), 0);
        assert!(matches!(store.lookup(b"a", b"", &request, 0), StoreLookup::Miss));
        for round in 0..10_000u64 {
            store.insert(b"same", b"", &request, response("a", &[]), round);
        }
        let state = store.state();
        assert!(state.order.len() <= 2 * state.entries + 64);
    }

    #[test]
    fn variants_of_a_resource_are_bounded() {
        let store = Store::new(1 << 20);
        for number in 0..100 {
            let request = headers(&[("accept", &number.to_string())]);
            store.insert(b"a", b"", &request, response("a", &[("vary", "accept")]), 0);
        }
        assert_eq!(store.size().0, MAX_VARIANTS as u64);
    }

    #[test]
    fn one_request_for_a_resource_is_under_way() {
        let store = Arc::new(Store::new(1 << 20));
        let Ok(first) = store.start_fill(b"a", b"") else { panic!("nobody else is there") };
        assert!(store.start_fill(b"a", b"").is_err());
        assert!(store.start_fill(b"a", b"me").is_ok() && store.start_fill(b"b", b"").is_ok());
        drop(first);
        assert!(store.start_fill(b"a", b"").is_ok());
    }
}
