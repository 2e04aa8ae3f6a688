//! Policies: plain data. Only the gateway's policy stages act on them.

use super::{AuthId, PlanId, UpstreamId};
use crate::expr::Expr;
use crate::price::Price;
use ipnet::IpNet;
use jsonwebtoken::DecodingKey;
use std::net::IpAddr;
use std::time::Duration;

pub use jsonwebtoken::Algorithm;

/// A way to prove who calls.
#[derive(Debug)]
pub struct Auth {
    /// Name, the key under `auth`.
    pub name: String,
    /// How.
    pub kind: AuthKind,
}

/// How a caller proves who it is.
#[derive(Debug)]
pub enum AuthKind {
    /// A JSON Web Token in `Authorization: Bearer`.
    Jwt(Box<JwtAuth>),
    /// A key in a header, a query parameter or a password; the keys stand with their consumers.
    ApiKey(ApiKeySource),
}

/// Where an API key is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeySource {
    /// This header, lower case.
    Header(String),
    /// This query parameter.
    Query(String),
    /// The password of `Authorization: Basic` (RFC 7617); the user is the consumer's name.
    Basic,
}

/// What a token must be like.
pub struct JwtAuth {
    /// Accepted issuers; empty: `iss` is not looked at.
    pub issuers: Vec<String>,
    /// Accepted audiences, one of which must be in `aud`; empty: a token is accepted whatever
    /// its `aud`.
    pub audiences: Vec<String>,
    /// Accepted algorithms; never empty, never `none`.
    pub algorithms: Vec<Algorithm>,
    /// Tolerance for `exp`, `nbf` (default 60 s at most; written as `leeway`, default 0 s).
    pub leeway: Duration,
    /// `exp` must be there (default true).
    pub require_exp: bool,
    /// Claims that must be present.
    pub required_claims: Vec<String>,
    /// Scopes that must be granted by `scope` (space separated) or `scp` (array or text).
    pub scopes: Vec<String>,
    /// Keys, from `key` or `jwks`; empty only if they are fetched.
    pub keys: Vec<VerificationKey>,
    /// Where keys are fetched from, if they are.
    pub remote: Option<RemoteKeys>,
}

/// A key set by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeys {
    /// The URL as written.
    pub url: String,
    /// The server, an upstream that no name leads to.
    pub upstream: UpstreamId,
    /// Path and query.
    pub target: String,
    /// How often the set is fetched.
    pub refresh: Duration,
    /// How long a fetch may take, and so a request that waits for one.
    pub timeout: Duration,
}

impl std::fmt::Debug for JwtAuth {
    /// Never the keys: some are shared secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtAuth")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// A key that verifies tokens.
pub struct VerificationKey {
    /// Its `kid`, if it has one: tokens with a `kid` are verified with that key only, tokens
    /// without one with every key that fits the algorithm.
    pub kid: Option<String>,
    /// Algorithms of the auth that this key's type (and `alg`, when the JWK says it) fits: the
    /// guard against algorithm confusion. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// The key.
    pub key: DecodingKey,
}

/// Who may call a route.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// Ways in, any one is enough; tried in this order. Empty: no authentication at all.
    pub any_of: Vec<AccessRule>,
    /// A request without any credential may pass, too. A wrong credential never does.
    pub anonymous: bool,
}

/// One way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The auth that must succeed.
    pub auth: AuthId,
    /// Scopes that must be granted beside those of the auth (403 when missing).
    pub scopes: Vec<String>,
}

/// Who calls.
#[derive(Debug)]
pub struct Consumer {
    /// Name, the key under `consumers`.
    pub name: String,
    /// Rate and quota.
    pub plan: Option<PlanId>,
    /// Recognised by a token of this auth, if the expression holds (`claims` is in scope).
    pub matches: Option<(AuthId, Expr)>,
    /// Hashes of its API keys.
    pub api_keys: Vec<KeyHash>,
}

/// SHA-256 of an API key, written `sha256:` and 64 hexadecimal digits. Keys are 256 bits of
/// randomness (`weir key new`), so a slow hash would add nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// Rate, quota and price of the consumers that have it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name, the key under `plans`.
    pub name: String,
    /// Rate, each consumer by itself.
    pub rate: Option<Rate>,
    /// Quota, each consumer by itself.
    pub quota: Option<Quota>,
    /// What calls cost.
    pub price: Option<Price>,
}

impl Plan {
    /// Whether its calls are counted without a rule.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.quota.is_some() || self.price.is_some()
    }
}

/// `rate: 100/s, burst: 200`: in no interval t are more than burst + rate·t admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests …
    pub requests: u64,
    /// … in this time (1 s, 1 min, 1 h, 1 d).
    pub per: Duration,
    /// How many at once (default: `requests`, at least 1).
    pub burst: u64,
}

/// So many calls in a calendar period, or in any stretch of that length.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Calls admitted in a period.
    pub calls: u64,
    /// The period.
    pub per: QuotaPeriod,
    /// Zone in which days and months begin (`UTC` by default).
    pub zone: jiff::tz::TimeZone,
    /// In any stretch as long as the period, whatever the calendar says: a month is 30 days then, a
    /// year 365. `zone` says nothing then.
    pub rolling: bool,
}

/// A calendar period; weeks begin on Monday (ISO 8601).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaPeriod {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// A rate limit on an API or a route.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// Name for the `RateLimit-Policy` header and for the counters: the API's or the route's.
    /// The routes of an API share its limits: equal names are one counter.
    pub name: String,
    /// How much.
    pub rate: Rate,
    /// Counted for whom.
    pub key: LimitKey,
}

/// Whose requests are counted together.
#[derive(Clone, Debug)]
pub enum LimitKey {
    /// The client's address (IPv6 by /64).
    Address,
    /// The consumer; the address when there is none.
    Consumer,
    /// The text this expression gives (`request`, `claims`, `consumer` in scope); the address
    /// when it gives none.
    Expr(Expr),
}

/// Cross-origin rules of an API (Fetch standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Who may read answers.
    pub origins: Origins,
    /// Methods a preflight allows; empty: those of the matched path.
    pub methods: Vec<String>,
    /// Request headers a preflight allows, lower case; empty: those asked for.
    pub headers: Vec<String>,
    /// Response headers scripts may read.
    pub expose: Vec<String>,
    /// Cookies and Authorization may be sent; never together with any origin.
    pub credentials: bool,
    /// How long a preflight may be cached (default 10 min).
    pub max_age: Duration,
}

/// Origins a [`Cors`] admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Every one (`*`).
    Any,
    /// These, compared exactly (`https://app.example.com`).
    List(Vec<String>),
}

/// Edits of a header list: removed first, then set (replacing) in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Lower-case names and values to set; an equal name is replaced.
    pub set: Vec<(String, String)>,
    /// Lower-case names to remove.
    pub remove: Vec<String>,
}

impl HeaderEdits {
    /// Nothing to do?
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// Response compression: gzip where the client accepts it, the answer is not encoded yet, its
/// type compresses well and it is not smaller than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// On at all (default false).
    pub enabled: bool,
    /// Smallest body in bytes that is worth it (default 1 KiB).
    pub min_size: u64,
    /// Level 1 to 9 (default 1).
    pub level: u32,
}

/// Networks that may call, and such that may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Only these may; empty: all.
    pub allow: Vec<IpNet>,
    /// These may not, whatever is allowed.
    pub deny: Vec<IpNet>,
}

impl Clients {
    /// Whether requests from this address (IPv4 as such, not mapped into IPv6) are let in.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        let is_in = |list: &[IpNet]| list.iter().any(|net| net.contains(&address));
        !is_in(&self.deny) && (self.allow.is_empty() || is_in(&self.allow))
    }
}

#[cfg(test)]
mod tests {
    use super::Clients;

    #[test]
    fn what_is_denied_is_denied_whatever_is_allowed() {
        let admits = |allow: &[&str], deny: &[&str], address: &str| {
            let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
            Clients { allow: nets(allow), deny: nets(deny) }.admits(address.parse().unwrap())
        };
        assert!(admits(&[], &[], "10.0.0.1"));
        assert!(admits(&["10.0.0.0/8"], &[], "10.255.0.1"));
        assert!(!admits(&["10.0.0.0/8"], &[], "11.0.0.1"));
        assert!(!admits(&["10.0.0.0/8"], &["10.0.0.1/32"], "10.0.0.1"));
        assert!(!admits(&[], &["::/0"], "::1") && admits(&[], &["::/0"], "10.0.0.1"));
    }
}
