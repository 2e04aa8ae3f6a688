//! Key sets (RFC 7517) that are fetched from URLs, shared by all workers. The caller fetches.
//!
//! A set is fetched when it is due, by the first worker that notices, and at once for a token with an
//! unknown `kid`, at most every 30 s. Requests that need a missing key wait for the fetch in flight,
//! at most its timeout. A set that cannot be fetched again is used for another day; each failure
//! doubles the wait for the next attempt. Each new set has another number, which is part of the key in
//! the token cache: tokens signed by a removed key are verified again, and rejected.

use crate::jwks::{self, Origin, VerificationKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use weir_config::{Algorithm, AuthKind, Config, RemoteKeys};
use weir_http::clock;

/// Shortest time between fetches for unknown `kid`s.
const UNKNOWN_KID_INTERVAL: Duration = Duration::from_secs(30);
/// Longest wait after failures.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Longest use of a set that cannot be fetched again.
const MAX_STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest set, in bytes.
pub const MAX_BYTES: u64 = 512 << 10;

/// One set.
#[derive(Debug)]
pub struct KeySet {
    /// Identifies it over reloads.
    identity: String,
    settings: RemoteKeys,
    algorithms: Vec<Algorithm>,
    current: watch::Sender<Current>,
    start: Instant,
    /// Milliseconds after `start` when it is due.
    due: AtomicU64,
    /// Milliseconds after `start` until which no unknown `kid` fetches it.
    quiet: AtomicU64,
    fetching: AtomicBool,
    failures: AtomicU64,
    fetched: AtomicU64,
    failed: AtomicU64,
}

/// The current keys.
#[derive(Clone, Default)]
pub struct Current {
    /// The keys; none before the first fetch, or after a day without one.
    pub keys: Arc<Vec<VerificationKey>>,
    /// Changes with each different set.
    pub number: u64,
    /// Fetches that have ended, successfully or not.
    attempts: u64,
    /// When the keys came, in milliseconds after the start.
    came: u64,
    /// The text of the set, to detect changes.
    text: Arc<Vec<u8>>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, attempts, .. } = self;
        f.debug_struct("Current").field("number", number).field("attempts", attempts).finish()
    }
}

/// Statistics of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySetSeries {
    /// Name of the auth.
    pub auth: String,
    /// Successful fetches.
    pub fetched: u64,
    /// Failed fetches.
    pub failed: u64,
    /// Keys in use.
    pub keys: u64,
}

/// The sets of a Config by auth; those of `before` with the same settings are kept.
pub fn all(config: &Config, before: Option<&[Option<Arc<KeySet>>]>) -> Vec<Option<Arc<KeySet>>> {
    let known = || before.unwrap_or_default().iter().flatten();
    let set =
        |auth: &weir_config::Auth| {
            let AuthKind::Jwt(jwt) = &auth.kind else { return None };
            let settings = jwt.remote.clone()?;
            let identity = format!("{} {settings:?} {:?}", auth.name, jwt.algorithms);
            let same = known().find(|set| set.identity == identity).cloned();
            Some(same.unwrap_or_else(|| {
                Arc::new(KeySet::new(identity, settings, jwt.algorithms.clone()))
            }))
        };
    config.auths.iter().map(set).collect()
}

impl KeySet {
    fn new(identity: String, settings: RemoteKeys, algorithms: Vec<Algorithm>) -> Self {
        Self {
            identity,
            settings,
            algorithms,
            current: watch::Sender::default(),
            start: Instant::now(),
            due: AtomicU64::new(0),
            quiet: AtomicU64::new(0),
            fetching: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// The current keys.
    pub fn current(&self) -> Current {
        let current = self.current.borrow().clone();
        let age = self.now().saturating_sub(current.came);
        if age > MAX_STALE.as_millis() as u64 {
            return Current { keys: Arc::default(), text: Arc::default(), ..current };
        }
        current
    }

    /// Statistics, for metrics.
    pub fn series(&self, auth: &str) -> KeySetSeries {
        KeySetSeries {
            auth: auth.to_owned(),
            fetched: self.fetched.load(Relaxed),
            failed: self.failed.load(Relaxed),
            keys: self.current().keys.len() as u64,
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Whether an unknown `kid` may have it fetched now; then no other may for a while.
    fn may_fetch(&self) -> bool {
        let (now, quiet) = (self.now(), self.quiet.load(Relaxed));
        let next = now + UNKNOWN_KID_INTERVAL.as_millis() as u64;
        now >= quiet && self.quiet.compare_exchange(quiet, next, Relaxed, Relaxed).is_ok()
    }

    /// The settings of its fetches.
    pub fn settings(&self) -> &RemoteKeys {
        &self.settings
    }

    /// Whether a fetch is due.
    pub fn is_due(&self) -> bool {
        self.now() >= self.due.load(Relaxed)
    }

    /// The right to fetch it, which one task of the process has at a time.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        let is_fetching = self.fetching.swap(true, Relaxed);
        (!is_fetching).then(|| Lease(Arc::clone(self)))
    }

    /// Waits for a fetch, if one may start or is in flight, at most until `deadline`; `start` starts one.
    /// Whether one has ended.
    pub async fn wait(
        self: &Arc<Self>,
        deadline: Option<Instant>,
        start: impl FnOnce(&Arc<Self>),
    ) -> bool {
        let mut changes = self.current.subscribe();
        let before = changes.borrow_and_update().attempts;
        if !self.fetching.load(Relaxed) {
            // Without any keys the back-off decides, not how often somebody asks.
            let known = !changes.borrow().keys.is_empty();
            if !(self.is_due() || known && self.may_fetch()) {
                return false;
            }
            start(self);
        }
        let latest = clock::now() + self.settings.timeout;
        let latest = deadline.map_or(latest, |deadline| deadline.min(latest));
        let ended = async {
            while changes.borrow_and_update().attempts == before {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout_at(latest.into(), ended).await.is_ok()
    }

    /// Takes the result of a fetch.
    pub fn take(&self, brought: Option<Vec<u8>>) {
        let parsed = brought
            .and_then(|text| Some((jwks::parse(&text, &self.algorithms, Origin::Url).ok()?, text)));
        let now = self.now();
        let wait = match &parsed {
            Some(_) => {
                self.failures.store(0, Relaxed);
                self.fetched.fetch_add(1, Relaxed);
                self.settings.refresh
            }
            None => {
                self.failed.fetch_add(1, Relaxed);
                let failures = self.failures.fetch_add(1, Relaxed).min(16) as u32;
                Duration::from_secs(1 << failures).min(MAX_BACKOFF).min(self.settings.refresh)
            }
        };
        self.due.store(now + wait.as_millis() as u64, Relaxed);
        self.current.send_modify(|current| {
            current.attempts += 1;
            if let Some((keys, text)) = parsed {
                current.came = now;
                if *current.text != text {
                    current.number += 1;
                    current.keys = Arc::new(keys);
                    current.text = Arc::new(text);
                }
            }
        });
    }
}

/// The right to fetch a set, until dropped: also if its task ends early.
pub struct Lease(Arc<KeySet>);

impl Lease {
    /// The set.
    pub fn set(&self) -> &KeySet {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetching.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests;
