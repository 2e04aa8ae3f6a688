//! Token introspection by an authorization server (RFC 7662); its cache is shared by all workers. The
//! caller sends the request.
//!
//! A token is known by its SHA-256. Both results are cached for the configured time, an active one
//! never past its `exp`; each kind in a cache of its own, so that made-up tokens evict no good one. A
//! token has one introspection in flight: other requests with it wait for that. A failure (an error, a
//! status other than 200, a timeout) is not cached, and the request is rejected.

use super::token_cache;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use weir_config::{AuthId, AuthKind, Config, IntrospectAuth};
use weir_http::clock;

/// Most cached tokens of each kind, active and not.
const MAX_CACHED: usize = 8192;
/// Most introspections in flight.
const MAX_IN_FLIGHT: usize = 256;
/// Longest response, in bytes.
pub const MAX_BYTES: u64 = 64 << 10;

type Hash = [u8; 32];

/// The introspected tokens of one auth.
#[derive(Debug)]
pub struct Introspection {
    /// Identifies it over reloads.
    name: String,
    settings: IntrospectAuth,
    state: Mutex<State>,
    active: AtomicU64,
    inactive: AtomicU64,
    failed: AtomicU64,
    crowded: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    active: BoundedCache<Arc<Map<String, Value>>>,
    inactive: BoundedCache<()>,
    in_flight: HashMap<Hash, watch::Receiver<()>, foldhash::fast::RandomState>,
}

/// A bounded map; the oldest entry is evicted.
#[derive(Debug, Default)]
struct BoundedCache<T> {
    entries: HashMap<Hash, (u64, T), foldhash::fast::RandomState>,
    /// The keys of the entries, each once.
    order: VecDeque<Hash>,
}

impl<T: Clone> BoundedCache<T> {
    fn get(&self, key: &Hash, now: u64) -> Option<(u64, T)> {
        self.entries.get(key).filter(|(until, _)| now < *until).cloned()
    }

    fn insert(&mut self, key: Hash, until: u64, value: T) {
        if self.entries.insert(key, (until, value)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_CACHED
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Hash) {
        if self.entries.remove(key).is_some() {
            self.order.retain(|kept| kept != key);
        }
    }
}

/// The cached result of an introspection.
#[derive(Clone, Debug)]
pub(super) enum Introspected {
    /// The claims, and the second at which the result expires.
    Active(Arc<Map<String, Value>>, u64),
    /// The token is not valid, or not any more.
    Inactive,
}

/// Results of introspections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntrospectionSeries {
    /// Name of the auth.
    pub auth: String,
    /// The token was active.
    pub active: u64,
    /// The token was not active.
    pub inactive: u64,
    /// Introspections that failed.
    pub failed: u64,
    /// Introspections that were not started because too many were in flight.
    pub crowded: u64,
}

/// Those of a Config by auth; those of `before` with the same settings are kept.
pub fn all(
    config: &Config,
    before: Option<&[Option<Arc<Introspection>>]>,
) -> Vec<Option<Arc<Introspection>>> {
    let known = || before.unwrap_or_default().iter().flatten();
    let one = |auth: &weir_config::Auth| {
        let AuthKind::Introspect(settings) = &auth.kind else { return None };
        let same = |old: &&Arc<Introspection>| old.name == auth.name && old.settings == **settings;
        let new = || Arc::new(Introspection::new(&auth.name, settings));
        Some(known().find(same).map_or_else(new, Arc::clone))
    };
    config.auths.iter().map(one).collect()
}

impl Introspection {
    fn new(name: &str, settings: &IntrospectAuth) -> Self {
        Self {
            name: name.to_owned(),
            settings: settings.clone(),
            state: Mutex::default(),
            active: AtomicU64::new(0),
            inactive: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done in there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached result for a token at `now`, seconds since 1970.
    pub(super) fn known(&self, key: &token_cache::Key, now: u64) -> Option<Introspected> {
        let state = self.state();
        if let Some((until, claims)) = state.active.get(key.hash(), now) {
            return Some(Introspected::Active(claims, until));
        }
        state.inactive.get(key.hash(), now).map(|_| Introspected::Inactive)
    }

    /// Results so far.
    pub fn series(&self) -> IntrospectionSeries {
        IntrospectionSeries {
            auth: self.name.clone(),
            active: self.active.load(Relaxed),
            inactive: self.inactive.load(Relaxed),
            failed: self.failed.load(Relaxed),
            crowded: self.crowded.load(Relaxed),
        }
    }

    /// Caches the result of an introspection that was started at `now`.
    fn take(&self, hash: Hash, response: Option<Response>, now: u64) {
        let until = now.saturating_add(self.settings.remember.as_secs());
        let mut state = self.state();
        let counter = match response {
            Some(Response::Active(claims)) => {
                state.inactive.remove(&hash);
                state.active.insert(hash, until, Arc::new(claims));
                &self.active
            }
            Some(Response::Inactive) => {
                state.active.remove(&hash);
                state.inactive.insert(hash, until, ());
                &self.inactive
            }
            None => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// The response of the server.
#[derive(Debug, PartialEq)]
enum Response {
    Active(Map<String, Value>),
    Inactive,
}

/// Reads a response (RFC 7662 section 2.2). Only `true` is active; without `true` or `false` the
/// introspection has failed.
fn read(text: &[u8]) -> Option<Response> {
    let claims: Map<String, Value> = serde_json::from_slice(text).ok()?;
    match claims.get("active") {
        Some(Value::Bool(true)) => Some(Response::Active(claims)),
        Some(Value::Bool(false)) => Some(Response::Inactive),
        _ => None,
    }
}

/// An introspection in flight, until dropped: also if its task ends early.
pub struct InFlight {
    source: Arc<Introspection>,
    hash: Hash,
    /// Its end wakes those who wait.
    _sender: watch::Sender<()>,
}

impl InFlight {
    /// The settings of the introspection.
    pub fn settings(&self) -> &IntrospectAuth {
        &self.source.settings
    }

    /// Takes the text of a response; `None` if none came. `now` are the seconds since 1970 when the
    /// request came.
    pub fn end(self, text: Option<&[u8]>, now: u64) {
        self.source.take(self.hash, text.and_then(read), now);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.source.state().in_flight.remove(&self.hash);
    }
}

impl Introspection {
    /// Has a token introspected by `start`, or waits for the introspection in flight, at most until
    /// `deadline`; whether there may be a result now.
    pub async fn wait(
        self: &Arc<Self>,
        auth: AuthId,
        token: &[u8],
        deadline: Option<Instant>,
        start: impl FnOnce(InFlight),
    ) -> bool {
        let Some(mut ended) = self.join(auth, token, start) else { return false };
        let latest = clock::now() + self.settings.timeout;
        let latest = deadline.map_or(latest, |deadline| deadline.min(latest));
        // It ends by the sender's end.
        tokio::time::timeout_at(latest.into(), ended.changed()).await.is_ok()
    }

    /// Ends with the introspection of a token, which is started unless it is in flight; `None` if too
    /// many are.
    fn join(
        self: &Arc<Self>,
        auth: AuthId,
        token: &[u8],
        start: impl FnOnce(InFlight),
    ) -> Option<watch::Receiver<()>> {
        let hash = *token_cache::Key::new(auth, 0, token).hash();
        let mut state = self.state();
        if let Some(receiver) = state.in_flight.get(&hash) {
            return Some(receiver.clone());
        }
        if state.in_flight.len() >= MAX_IN_FLIGHT {
            self.crowded.fetch_add(1, Relaxed);
            return None;
        }
        let (sender, receiver) = watch::channel(());
        state.in_flight.insert(hash, receiver.clone());
        start(InFlight { source: Arc::clone(self), hash, _sender: sender });
        Some(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u32) -> Hash {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_be_bytes());
        hash
    }

    #[test]
    fn only_true_is_active_and_anything_else_is_a_failure() {
        assert!(matches!(read(br#"{"active":true,"sub":"me"}"#), Some(Response::Active(_))));
        assert_eq!(read(br#"{"active":false,"sub":"me"}"#), Some(Response::Inactive));
        for text in [&br#"{"active":"true"}"#[..], b"{}", b"[]", b"", br#"{"active":1}"#, b"<a/>"] {
            assert_eq!(read(text), None);
        }
    }

    #[test]
    fn the_oldest_entry_is_evicted() {
        let mut cache = BoundedCache::default();
        for number in 0..MAX_CACHED as u32 + 2 {
            cache.insert(hash(number), 10, number);
            cache.insert(hash(number), 11, number);
        }
        assert_eq!((cache.entries.len(), cache.order.len()), (MAX_CACHED, MAX_CACHED));
        assert!(cache.get(&hash(1), 0).is_none());
        assert_eq!(cache.get(&hash(2), 10), Some((11, 2)));
        assert!(cache.get(&hash(2), 11).is_none(), "its time is over");
        cache.remove(&hash(2));
        assert_eq!((cache.entries.len(), cache.order.len()), (MAX_CACHED - 1, MAX_CACHED - 1));
    }
}
