//! Tokens that an authorization server introspects (RFC 7662), shared by all workers; the request
//! itself is [`crate::authorization_server`].
//!
//! A token is known by its SHA-256. Both answers are remembered for as long as the configuration
//! says, an active one never past its `exp`; each kind in a room of its own, so that tokens somebody
//! makes up push no good one out. There is one question about a token at a time: whoever needs the
//! answer meanwhile waits for it. What is no answer (an error, a status other than 200, none in time)
//! is not remembered, and nobody passes without one.

use super::token_cache;
use crate::clock;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use weir_config::{AuthId, AuthKind, Config, IntrospectAuth};

/// Most tokens remembered of each kind, active and not.
const REMEMBERED: usize = 8192;
/// Most questions under way.
const UNDER_WAY: usize = 256;
/// Longest response, in bytes.
pub(crate) const MAX_BYTES: u64 = 64 << 10;

type Hash = [u8; 32];

/// What is known of the tokens of one auth.
#[derive(Debug)]
pub(crate) struct Introspection {
    /// What tells it apart from others, over reloads.
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
    active: Room<Arc<Map<String, Value>>>,
    inactive: Room<()>,
    under_way: HashMap<Hash, watch::Receiver<()>, foldhash::fast::RandomState>,
}

/// A bounded map; what came first goes first.
#[derive(Debug)]
struct Room<T> {
    entries: HashMap<Hash, (u64, T), foldhash::fast::RandomState>,
    /// The keys of the entries, each once.
    order: VecDeque<Hash>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: VecDeque::new() }
    }
}

impl<T: Clone> Room<T> {
    fn get(&self, key: &Hash, now: u64) -> Option<(u64, T)> {
        self.entries.get(key).filter(|(until, _)| now < *until).cloned()
    }

    fn insert(&mut self, key: Hash, until: u64, value: T) {
        if self.entries.insert(key, (until, value)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
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

/// What the server has said of a token.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// All it says of it, and the second from which that is not believed any more.
    Active(Arc<Map<String, Value>>, u64),
    /// It is none, or none any more.
    Inactive,
}

/// How asking went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntrospectionSeries {
    /// Name of the auth.
    pub auth: String,
    /// Answers that a token is active.
    pub active: u64,
    /// Answers that it is not.
    pub inactive: u64,
    /// Questions without an answer.
    pub failed: u64,
    /// Questions that were not asked because too many were under way.
    pub crowded: u64,
}

/// Those of a Config by auth; what `before` knows under the same settings is known on.
pub(crate) fn all(
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

    /// What is known of a token at `now`, seconds since 1970.
    pub(super) fn known(&self, key: &token_cache::Key, now: u64) -> Option<Answer> {
        let state = self.state();
        if let Some((until, claims)) = state.active.get(key.hash(), now) {
            return Some(Answer::Active(claims, until));
        }
        state.inactive.get(key.hash(), now).map(|_| Answer::Inactive)
    }

    /// How asking went so far.
    pub(crate) fn series(&self) -> IntrospectionSeries {
        IntrospectionSeries {
            auth: self.name.clone(),
            active: self.active.load(Relaxed),
            inactive: self.inactive.load(Relaxed),
            failed: self.failed.load(Relaxed),
            crowded: self.crowded.load(Relaxed),
        }
    }

    /// Remembers what came of a question asked at `now`.
    fn take(&self, hash: Hash, answer: Option<Said>, now: u64) {
        let until = now.saturating_add(self.settings.remember.as_secs());
        let mut state = self.state();
        let counter = match answer {
            Some(Said::Active(claims)) => {
                state.inactive.remove(&hash);
                state.active.insert(hash, until, Arc::new(claims));
                &self.active
            }
            Some(Said::Inactive) => {
                state.active.remove(&hash);
                state.inactive.insert(hash, until, ());
                &self.inactive
            }
            None => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// An answer as it stands in the server's words.
#[derive(Debug, PartialEq)]
enum Said {
    Active(Map<String, Value>),
    Inactive,
}

/// Reads an answer (RFC 7662 section 2.2). Only `true` is active, and what does not say either way
/// is no answer.
fn read(text: &[u8]) -> Option<Said> {
    let claims: Map<String, Value> = serde_json::from_slice(text).ok()?;
    match claims.get("active") {
        Some(Value::Bool(true)) => Some(Said::Active(claims)),
        Some(Value::Bool(false)) => Some(Said::Inactive),
        _ => None,
    }
}

/// An introspection under way, until dropped: also if its task ends before its time.
pub(crate) struct UnderWay {
    source: Arc<Introspection>,
    hash: Hash,
    /// Those who wait see it go.
    _sender: watch::Sender<()>,
}

impl UnderWay {
    /// Where the token is introspected, and how.
    pub(crate) fn settings(&self) -> &IntrospectAuth {
        &self.source.settings
    }

    /// Takes the text of a response; `None` if none came. `now` are the seconds since 1970 when the
    /// request came.
    pub(crate) fn end(self, text: Option<&[u8]>, now: u64) {
        self.source.take(self.hash, text.and_then(read), now);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.source.state().under_way.remove(&self.hash);
    }
}

impl Introspection {
    /// Has a token introspected by `start`, or waits for somebody's response, at most until
    /// `deadline`; says whether there may be one now.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        auth: AuthId,
        token: &[u8],
        deadline: Option<Instant>,
        start: impl FnOnce(UnderWay),
    ) -> bool {
        let Some(mut over) = self.join(auth, token, start) else { return false };
        let latest = clock::now() + self.settings.timeout;
        let latest = deadline.map_or(latest, |deadline| deadline.min(latest));
        // It ends by the sender's end.
        tokio::time::timeout_at(latest.into(), over.changed()).await.is_ok()
    }

    /// What ends with the introspection of a token, which is started unless it is under way; `None`
    /// if too many are.
    fn join(
        self: &Arc<Self>,
        auth: AuthId,
        token: &[u8],
        start: impl FnOnce(UnderWay),
    ) -> Option<watch::Receiver<()>> {
        let hash = *token_cache::Key::new(auth, 0, token).hash();
        let mut state = self.state();
        if let Some(receiver) = state.under_way.get(&hash) {
            return Some(receiver.clone());
        }
        if state.under_way.len() >= UNDER_WAY {
            self.crowded.fetch_add(1, Relaxed);
            return None;
        }
        let (sender, receiver) = watch::channel(());
        state.under_way.insert(hash, receiver.clone());
        start(UnderWay { source: Arc::clone(self), hash, _sender: sender });
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
    fn only_true_is_active_and_what_says_nothing_is_no_answer() {
        assert!(matches!(read(br#"{"active":true,"sub":"me"}"#), Some(Said::Active(_))));
        assert_eq!(read(br#"{"active":false,"sub":"me"}"#), Some(Said::Inactive));
        for text in [&br#"{"active":"true"}"#[..], b"{}", b"[]", b"", br#"{"active":1}"#, b"<a/>"] {
            assert_eq!(read(text), None);
        }
    }

    #[test]
    fn a_room_is_bounded_and_forgets_what_came_first() {
        let mut room = Room::default();
        for number in 0..REMEMBERED as u32 + 2 {
            room.insert(hash(number), 10, number);
            room.insert(hash(number), 11, number);
        }
        assert_eq!((room.entries.len(), room.order.len()), (REMEMBERED, REMEMBERED));
        assert!(room.get(&hash(1), 0).is_none());
        assert_eq!(room.get(&hash(2), 10), Some((11, 2)));
        assert!(room.get(&hash(2), 11).is_none(), "its time is over");
        room.remove(&hash(2));
        assert_eq!((room.entries.len(), room.order.len()), (REMEMBERED - 1, REMEMBERED - 1));
    }
}
