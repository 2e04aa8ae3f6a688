//! Authentication: who calls, proved by a JSON Web Token or an API key.
//!
//! Only this module makes a [`Principal`], so a request that has one went through here; for one that
//! is sent again who was verified then stands in (`stand_in`).
//!
//! A credential that weir has checked is still passed on to the upstream, as other gateways do:
//! upstreams read claims themselves. It is replaced where the upstream has a credential of weir's
//! own, and removed by a header edit on the route. [`carrier`] tells where credentials stand, for
//! those who must never store them.

mod api_key;
mod failure;
mod jwt;
pub(crate) mod key_set;
mod stand_in;
mod token_cache;

pub use failure::{AuthFailure, FailureKind};
pub use key_set::KeySetSeries;
pub(crate) use stand_in::{NotAdmitted, StandIn, stand_in};

use api_key::KeyRing;
use key_set::KeySet;
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use token_cache::TokenCache;
use weir_config::config::Config;
use weir_config::{Access, AccessRule, ApiKeySource, Auth, AuthId, AuthKind, ConsumerId};
use weir_wire::Headers;

/// Who calls, as proved; or nobody in particular.
#[derive(Debug, PartialEq)]
pub struct Principal {
    auth: Option<AuthId>,
    subject: Option<String>,
    consumer: Option<ConsumerId>,
    claims: Option<Value>,
    scopes: Vec<String>,
    /// The same with spaces between, as it is recorded.
    granted: String,
}

impl Principal {
    fn anonymous() -> Self {
        Self {
            auth: None,
            subject: None,
            consumer: None,
            claims: None,
            scopes: Vec::new(),
            granted: String::new(),
        }
    }

    /// The auth that proved it; `None` for an anonymous caller.
    pub fn auth(&self) -> Option<AuthId> {
        self.auth
    }

    /// The token's `sub`.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The consumer recognised by the credential.
    pub fn consumer(&self) -> Option<ConsumerId> {
        self.consumer
    }

    /// The token's claims, an object.
    pub fn claims(&self) -> Option<&Value> {
        self.claims.as_ref()
    }

    /// What the token's `scope` and `scp` grant.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// The scopes with spaces between.
    pub(crate) fn granted(&self) -> &str {
        &self.granted
    }

    /// The first scope that is wanted and not granted.
    fn lacks<'s>(&self, mut wanted: impl Iterator<Item = &'s String>) -> bool {
        wanted.any(|scope| !self.scopes.contains(scope))
    }

    #[cfg(test)]
    pub(crate) fn for_test(consumer: Option<ConsumerId>) -> Self {
        Self { consumer, ..Self::anonymous() }
    }
}

/// Where a credential stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// The whole value of this header (lower case).
    Header(&'a str),
    /// The value of this query parameter (decoded name).
    Query(&'a str),
}

/// Where credentials of this auth stand; whoever stores or logs requests withholds it.
pub fn carrier(auth: &Auth) -> Carrier<'_> {
    match &auth.kind {
        AuthKind::Jwt(_) | AuthKind::ApiKey(ApiKeySource::Basic) => {
            Carrier::Header("authorization")
        }
        AuthKind::ApiKey(ApiKeySource::Header(name)) => Carrier::Header(name),
        AuthKind::ApiKey(ApiKeySource::Query(name)) => Carrier::Query(name),
    }
}

/// What authentication did, all workers together. Each counter only grows.
#[derive(Debug, Default)]
pub struct AuthCounters {
    /// Tokens found verified.
    pub cache_hits: AtomicU64,
    /// Tokens that had to be verified, successfully or not.
    pub cache_misses: AtomicU64,
    /// Verified tokens dropped for room before their time.
    pub cache_evictions: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Authenticates for one worker and one Config.
///
/// It is made anew with each Config, which empties the cache of verified tokens: keys, audiences
/// and consumers may have changed.
#[derive(Debug)]
pub struct Authenticator {
    keys: KeyRing,
    /// For each auth the consumers that its tokens may belong to, in order.
    candidates: Vec<Vec<ConsumerId>>,
    tokens: RefCell<TokenCache>,
    anonymous: Rc<Principal>,
    counters: Arc<AuthCounters>,
    /// Keys by auth that are fetched.
    key_sets: Vec<Option<Arc<KeySet>>>,
}

/// The outcome of one way in.
pub(crate) enum Tried {
    /// The request has no credential of this kind.
    Absent,
    /// It is one of this principal.
    Granted(Rc<Principal>),
    /// It has one that does not do.
    Refused(FailureKind),
}

impl Authenticator {
    /// Ready for the auths and consumers of this Config.
    pub(crate) fn new(
        config: &Config,
        counters: Arc<AuthCounters>,
        key_sets: Vec<Option<Arc<KeySet>>>,
    ) -> Self {
        let mut candidates = vec![Vec::new(); config.auths.len()];
        for (index, consumer) in config.consumers.iter().enumerate() {
            if let Some((auth, _)) = &consumer.matches {
                candidates[auth.0].push(ConsumerId(index));
            }
        }
        Self {
            keys: KeyRing::new(&config.consumers),
            candidates,
            tokens: RefCell::new(TokenCache::default()),
            anonymous: Rc::new(Principal::anonymous()),
            counters,
            key_sets,
        }
    }

    /// Finds out who calls, or why the request is refused.
    ///
    /// `config` is the one given to [`Authenticator::new`], `query` the raw query without its
    /// question mark, `now` seconds since 1970. The ways in are tried in order and the first that
    /// succeeds is it. A wrong credential is refused even where anonymous callers are admitted, so
    /// that nobody is silently taken for somebody else.
    ///
    /// # Errors
    /// Nobody is admitted; of several failures the one that came closest is told.
    pub fn authenticate(
        &self,
        config: &Config,
        access: &Access,
        headers: &Headers,
        query: Option<&[u8]>,
        now: u64,
    ) -> Result<Rc<Principal>, AuthFailure> {
        let mut failure: Option<AuthFailure> = None;
        for rule in &access.any_of {
            match self.try_rule(config, rule, headers, query, now) {
                Tried::Absent => {}
                Tried::Granted(principal) => return Ok(principal),
                Tried::Refused(kind) => {
                    // Sent twice, it is not clear which one the upstream would believe.
                    if kind == FailureKind::Repeated {
                        return Err(AuthFailure::of(kind, rule.auth));
                    }
                    if failure.is_none_or(|before| kind > before.kind()) {
                        failure = Some(AuthFailure::of(kind, rule.auth));
                    }
                }
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None if access.anonymous || access.any_of.is_empty() => Ok(Rc::clone(&self.anonymous)),
            None => Err(AuthFailure::missing()),
        }
    }

    /// Tries one way in.
    pub(crate) fn try_rule(
        &self,
        config: &Config,
        rule: &AccessRule,
        headers: &Headers,
        query: Option<&[u8]>,
        now: u64,
    ) -> Tried {
        match &config.auths[rule.auth.0].kind {
            AuthKind::Jwt(jwt) => match jwt::bearer(headers) {
                Ok(None) => Tried::Absent,
                Ok(Some(token)) => match self.token(config, rule.auth, jwt, token, now) {
                    Ok(principal) if principal.lacks(jwt.scopes.iter().chain(&rule.scopes)) => {
                        Tried::Refused(FailureKind::InsufficientScope)
                    }
                    Ok(principal) => Tried::Granted(principal),
                    Err(kind) => Tried::Refused(kind),
                },
                Err(kind) => Tried::Refused(kind),
            },
            AuthKind::ApiKey(source) => match self.keys.find(source, headers, query) {
                Ok(None) => Tried::Absent,
                // A key grants no scopes, so it cannot pass a rule that wants some.
                Ok(Some(_)) if !rule.scopes.is_empty() => {
                    Tried::Refused(FailureKind::InsufficientScope)
                }
                Ok(Some(consumer)) => Tried::Granted(Rc::new(Principal {
                    auth: Some(rule.auth),
                    consumer: Some(consumer),
                    ..Principal::anonymous()
                })),
                Err(kind) => Tried::Refused(kind),
            },
        }
    }

    /// The principal of a token, verified now or lately.
    fn token(
        &self,
        config: &Config,
        id: AuthId,
        jwt: &weir_config::JwtAuth,
        token: &[u8],
        now: u64,
    ) -> Result<Rc<Principal>, FailureKind> {
        let fetched = self.key_sets.get(id.0).and_then(Option::as_ref).map(|set| set.current());
        let (keys, number) = match &fetched {
            Some(current) => (current.keys.as_slice(), current.number),
            None => (jwt.keys.as_slice(), 0),
        };
        let key = token_cache::Key::new(id, number, token);
        if let Some(principal) = self.tokens.borrow().get(&key, now) {
            count(&self.counters.cache_hits);
            return Ok(principal);
        }
        count(&self.counters.cache_misses);
        if keys.is_empty() {
            return Err(FailureKind::NoKeys);
        }
        let verified = jwt::verify(jwt, keys, token, now)?;
        let expires = verified.expires;
        let principal = Rc::new(self.recognise(config, id, verified));
        // Only successes are remembered. A forged token costs its sender nothing to vary, so
        // remembering failures would save no work and let strangers push out good tokens.
        let evicted = self.tokens.borrow_mut().insert(key, Rc::clone(&principal), now, expires);
        if evicted {
            count(&self.counters.cache_evictions);
        }
        Ok(principal)
    }

    /// Looks for the consumer the claims belong to.
    fn recognise(&self, config: &Config, auth: AuthId, verified: jwt::Verified) -> Principal {
        let jwt::Verified { claims, subject, scopes, .. } = verified;
        let scope = weir_config::expr::Scope { claims: Some(claims), ..Default::default() };
        let belongs = |id: &&ConsumerId| {
            config.consumers[id.0].matches.as_ref().is_some_and(|(_, when)| when.holds(&scope))
        };
        let consumer = self.candidates[auth.0].iter().find(belongs).copied();
        let granted = scopes.join(" ");
        Principal { auth: Some(auth), subject, consumer, claims: scope.claims, scopes, granted }
    }
}

#[cfg(test)]
mod tests;
