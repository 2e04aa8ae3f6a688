//! Authentication: the principal of a request, proved by a token, an API key or a certificate.
//!
//! Only this module makes a [`Principal`], so a request that has one went through here; a resubmission
//! has the recorded one (`recorded_principal`). Nothing here does I/O: a failure says which key set or
//! introspection is missing.
//!
//! A credential that weir has checked is still passed on to the upstream, as other gateways do:
//! upstreams read claims themselves. It is replaced where the upstream has a credential of weir's
//! own, and removed by a header edit on the route. `AuthKind::carrier` names the header or parameter of
//! a credential: credentials are never stored.

mod api_key;
pub mod certificate;
mod failure;
pub mod id_token;
pub mod introspect;
mod jwks;
mod jwt;
pub mod key_set;
mod recorded_principal;
mod token_cache;
mod token_keys;

pub use failure::{AuthFailure, FailureKind, KeyIndex, Missing};
pub use introspect::IntrospectionSeries;
pub use jwks::VerificationKey;
pub use key_set::KeySetSeries;
pub use recorded_principal::{NotAdmitted, RecordedPrincipal, recorded_principal};
pub use token_keys::VerificationKeys;

pub use jwt::bearer;

use api_key::{KeyOwner, KeyRing};
use aws_lc_rs::digest;
use certificate::Certificate;
use introspect::{Introspected, Introspection};
use key_set::KeySet;
use serde_json::{Value, json};
use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use token_cache::TokenCache;
use weir_config::config::Config;
use weir_config::{
    Access, AccessRule, AuthId, AuthKind, CertificateName, ConsumerId, IntrospectAuth, KeyHash,
};
use weir_wire::Headers;

/// The authenticated caller, or an anonymous one, which is the default.
#[derive(Debug, Default, PartialEq)]
pub struct Principal {
    auth: Option<AuthId>,
    subject: Option<String>,
    /// Which API key it is.
    key: Option<Rc<str>>,
    consumer: Option<ConsumerId>,
    claims: Option<Value>,
    scopes: Vec<String>,
    /// The same with spaces between, as it is recorded.
    granted: String,
    /// See [`Principal::fingerprint`]; computed at the first use.
    fingerprint: OnceCell<[u8; 32]>,
}

/// Claims that differ from token to token of the same principal (RFC 7519 section 4.1).
const OF_THE_TOKEN: [&str; 4] = ["exp", "nbf", "iat", "jti"];

impl Principal {
    /// The auth that proved it; `None` for an anonymous caller.
    pub fn auth(&self) -> Option<AuthId> {
        self.auth
    }

    /// The token's `sub`, or the certificate's name.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// What names the credential in records: the subject, or the id of the API key.
    pub fn recorded(&self) -> Option<&str> {
        self.subject().or(self.key.as_deref())
    }

    /// The consumer that the credential matches.
    pub fn consumer(&self) -> Option<ConsumerId> {
        self.consumer
    }

    /// The claims of the token or the certificate, an object.
    pub fn claims(&self) -> Option<&Value> {
        self.claims.as_ref()
    }

    /// The granted scopes: `scope` and `scp` of the token.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// The scopes with spaces between.
    pub fn granted(&self) -> &str {
        &self.granted
    }

    /// SHA-256 of everything that the authorization decision used: the auth, the consumer and every
    /// claim, so the issuer, the audience and the scopes among them. Only the claims that differ
    /// from token to token of the same principal (`exp`, `nbf`, `iat`, `jti`) are no part of it.
    pub fn fingerprint(&self) -> &[u8; 32] {
        self.fingerprint.get_or_init(|| {
            let claims = match &self.claims {
                Some(Value::Object(claims)) => {
                    let stable =
                        claims.iter().filter(|(name, _)| !OF_THE_TOKEN.contains(&name.as_str()));
                    Value::Array(stable.map(|(name, value)| json!([name, value])).collect())
                }
                _ => Value::Null,
            };
            let (auth, consumer) = (self.auth.map(|a| a.0), self.consumer.map(|c| c.0));
            let all = json!([auth, consumer, self.subject, self.scopes, claims]).to_string();
            let mut hash = [0; 32];
            hash.copy_from_slice(digest::digest(&digest::SHA256, all.as_bytes()).as_ref());
            hash
        })
    }

    /// Whether a required scope is not granted.
    fn lacks<'s>(&self, mut required: impl Iterator<Item = &'s String>) -> bool {
        required.any(|scope| !self.scopes.contains(scope))
    }

    #[cfg(test)]
    pub(crate) fn for_test(consumer: Option<ConsumerId>) -> Self {
        Self { consumer, ..Self::default() }
    }
}

/// The credentials that a request presents.
#[derive(Clone, Copy)]
pub struct PresentedCredentials<'a> {
    /// Header fields of the request.
    pub headers: &'a Headers,
    /// The raw query without its question mark.
    pub query: Option<&'a [u8]>,
    /// Certificate of the client, from the TLS handshake.
    pub certificate: Option<&'a Certificate>,
    /// Whether expensive checks are allowed for the client: verification of a signature, introspection.
    pub may_verify: &'a dyn Fn() -> bool,
}

/// API keys that an operator has revoked.
pub type RevokedKeys = HashSet<KeyHash>;

/// Counters of authentication, of all workers. Each only grows.
#[derive(Debug, Default)]
pub struct AuthCounters {
    /// Tokens found in the cache.
    pub cache_hits: AtomicU64,
    /// Tokens that had to be verified, successfully or not.
    pub cache_misses: AtomicU64,
    /// Verified tokens evicted before they expired.
    pub cache_evictions: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Authenticates for one worker and one Config.
///
/// Each Config has a new one, with an empty cache of verified tokens: keys, audiences and consumers may
/// have changed.
#[derive(Debug)]
pub struct Authenticator {
    keys: KeyRing,
    /// The consumers that tokens of each auth may match, in order.
    candidates: Vec<Vec<ConsumerId>>,
    tokens: RefCell<TokenCache>,
    anonymous: Rc<Principal>,
    counters: Arc<AuthCounters>,
    verification_keys: VerificationKeys,
    remote: Remote,
}

/// What authorization servers know, by auth.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    /// Keys that are fetched.
    pub key_sets: Vec<Option<Arc<KeySet>>>,
    /// Tokens that are introspected.
    pub introspections: Vec<Option<Arc<Introspection>>>,
}

/// The outcome of one auth method.
pub enum MethodOutcome {
    /// The request has no credential of this kind.
    Absent,
    /// The credential of this principal.
    Granted(Rc<Principal>),
    /// A credential that is rejected.
    Refused(FailureKind),
}

impl Authenticator {
    /// For the auths and consumers of this Config.
    pub fn new(
        config: &Config,
        counters: Arc<AuthCounters>,
        verification_keys: VerificationKeys,
        remote: Remote,
        revoked: &RevokedKeys,
    ) -> Self {
        let mut candidates = vec![Vec::new(); config.auths.len()];
        for (index, consumer) in config.consumers.iter().enumerate() {
            if let Some((auth, _)) = &consumer.matches {
                candidates[auth.0].push(ConsumerId(index));
            }
        }
        Self {
            keys: KeyRing::new(&config.consumers, revoked),
            candidates,
            tokens: RefCell::new(TokenCache::default()),
            anonymous: Rc::default(),
            counters,
            verification_keys,
            remote,
        }
    }

    /// Rejects these API keys from now on, and no others before they expire.
    pub fn revoke_keys(&self, revoked: &RevokedKeys) {
        self.keys.revoke(revoked);
    }

    /// The holder of an API key that has expired or is revoked, for records: no request is admitted as this
    /// principal. It has no consumer, who is not charged for it.
    pub fn refused(&self, failure: AuthFailure) -> Option<Rc<Principal>> {
        let owner = self.keys.owner_of(failure.key()?)?;
        let key = Some(Rc::clone(&owner.key));
        Some(Rc::new(Principal { auth: failure.auth(), key, ..Principal::default() }))
    }

    /// The principal of a request.
    ///
    /// `config` is the one given to [`Authenticator::new`], `now` seconds since 1970. The methods are tried
    /// in order; the first that succeeds decides. A wrong credential is rejected even where anonymous
    /// callers are admitted, so that no caller is silently taken for another.
    ///
    /// # Errors
    /// No method succeeds; of several failures the one that came closest.
    pub fn authenticate(
        &self,
        config: &Config,
        access: &Access,
        presented: PresentedCredentials<'_>,
        now: u64,
    ) -> Result<Rc<Principal>, AuthFailure> {
        let mut failure: Option<AuthFailure> = None;
        for rule in &access.any_of {
            match self.try_method(config, rule, presented, now) {
                MethodOutcome::Absent => {}
                MethodOutcome::Granted(principal) => return Ok(principal),
                MethodOutcome::Refused(kind) => {
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
            None => Err(AuthFailure::no_credential()),
        }
    }

    /// Tries one auth method.
    pub fn try_method(
        &self,
        config: &Config,
        rule: &AccessRule,
        presented: PresentedCredentials<'_>,
        now: u64,
    ) -> MethodOutcome {
        let (id, kind) = (rule.auth, &config.auths[rule.auth.0].kind);
        let found = match kind {
            AuthKind::Jwt(jwt) => jwt::bearer(presented.headers).and_then(|token| {
                let verify = |token| self.token(config, (id, jwt), token, presented, now);
                token.map(verify).transpose()
            }),
            AuthKind::Introspect(settings) => jwt::bearer(presented.headers).and_then(|token| {
                let claims =
                    |token| self.introspected(config, (id, settings), token, presented, now);
                token.map(claims).transpose()
            }),
            AuthKind::ApiKey(source) => {
                let found = self.keys.find(source, presented.headers, presented.query, now);
                let principal = |KeyOwner { consumer, key }| Principal {
                    auth: Some(id),
                    key: Some(key),
                    consumer: Some(consumer),
                    ..Principal::default()
                };
                found.map(|owner| owner.map(|owner| Rc::new(principal(owner))))
            }
            AuthKind::Certificate(name) => {
                let owner = |certificate| self.owner(config, rule.auth, *name, certificate, now);
                presented.certificate.map(owner).transpose()
            }
        };
        // What is no token grants no scopes, so it cannot pass a rule that wants some.
        match found {
            Ok(None) => MethodOutcome::Absent,
            Ok(Some(principal)) if principal.lacks(rule.required_scopes(kind)) => {
                MethodOutcome::Refused(FailureKind::InsufficientScope)
            }
            Ok(Some(principal)) => MethodOutcome::Granted(principal),
            Err(kind) => MethodOutcome::Refused(kind),
        }
    }

    /// The principal of a token that was introspected.
    fn introspected(
        &self,
        config: &Config,
        (id, settings): (AuthId, &IntrospectAuth),
        token: &[u8],
        presented: PresentedCredentials<'_>,
        now: u64,
    ) -> Result<Rc<Principal>, FailureKind> {
        let key = token_cache::Key::new(id, 0, token);
        if let Some(principal) = self.tokens.borrow().get(&key, now) {
            count(&self.counters.cache_hits);
            return Ok(principal);
        }
        count(&self.counters.cache_misses);
        let source = self.remote.introspections.get(id.0).and_then(Option::as_ref);
        match source.and_then(|source| source.known(&key, now)) {
            None if !(presented.may_verify)() => Err(FailureKind::Throttled),
            None => Err(FailureKind::NotIntrospected),
            Some(Introspected::Inactive) => Err(FailureKind::Inactive),
            Some(Introspected::Active(claims, until)) => {
                let mut verified = jwt::accept(&settings.rules, (*claims).clone(), now)?;
                verified.expires = Some(verified.expires.map_or(until, |exp| exp.min(until)));
                Ok(self.cache_principal(config, id, key, verified, now))
            }
        }
    }

    /// The principal of a certificate.
    fn owner(
        &self,
        config: &Config,
        id: AuthId,
        name: CertificateName,
        certificate: &Certificate,
        now: u64,
    ) -> Result<Rc<Principal>, FailureKind> {
        let key = token_cache::Key::of_hash(id, certificate.fingerprint);
        if let Some(principal) = self.tokens.borrow().get(&key, now) {
            return Ok(principal);
        }
        let (owner, expires) = certificate.owner(name, now)?;
        let verified = jwt::Verified {
            claims: certificate.claims.clone(),
            subject: Some(owner),
            scopes: Vec::new(),
            expires: Some(expires),
        };
        Ok(self.cache_principal(config, id, key, verified, now))
    }

    /// The principal of a token, verified now or cached.
    fn token(
        &self,
        config: &Config,
        (id, jwt): (AuthId, &weir_config::JwtAuth),
        token: &[u8],
        presented: PresentedCredentials<'_>,
        now: u64,
    ) -> Result<Rc<Principal>, FailureKind> {
        let key_set = self.remote.key_sets.get(id.0).and_then(Option::as_ref);
        let fetched = key_set.map(|set| set.current());
        let (keys, number) = match &fetched {
            Some(current) => (current.keys.as_slice(), current.number),
            None => (self.verification_keys.of(id), 0),
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
        if !(presented.may_verify)() {
            return Err(FailureKind::Throttled);
        }
        let verified = jwt::verify(jwt, keys, token, now)?;
        Ok(self.cache_principal(config, id, key, verified, now))
    }

    /// Matches the consumer, and caches the principal.
    fn cache_principal(
        &self,
        config: &Config,
        id: AuthId,
        key: token_cache::Key,
        verified: jwt::Verified,
        now: u64,
    ) -> Rc<Principal> {
        let expires = verified.expires;
        let principal = Rc::new(self.match_consumer(config, id, verified));
        // Only successes are remembered. A forged token costs its sender nothing to vary, so
        // remembering failures would save no work and let strangers push out good tokens.
        let evicted = self.tokens.borrow_mut().insert(key, Rc::clone(&principal), now, expires);
        if evicted {
            count(&self.counters.cache_evictions);
        }
        principal
    }

    /// The principal of a token, with the consumer that its claims match.
    fn match_consumer(&self, config: &Config, auth: AuthId, verified: jwt::Verified) -> Principal {
        let jwt::Verified { claims, subject, scopes, .. } = verified;
        let scope = weir_expr::Scope { claims: Some(claims), ..Default::default() };
        let belongs = |id: &&ConsumerId| {
            config.consumers[id.0].matches.as_ref().is_some_and(|(_, when)| when.holds(&scope))
        };
        let consumer = self.candidates[auth.0].iter().find(belongs).copied();
        let granted = scopes.join(" ");
        Principal {
            auth: Some(auth),
            subject,
            key: None,
            consumer,
            claims: scope.claims,
            scopes,
            granted,
            fingerprint: OnceCell::new(),
        }
    }
}

#[cfg(test)]
mod tests;
