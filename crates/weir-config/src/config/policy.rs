//! Policies: plain data. Only the gateway's policy stages act on them.

use super::{AuthId, PlanId};
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::price::Price;

/// Access to a route.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// Accepted auths, tried in this order; one is enough. Empty: no authentication.
    pub any_of: Vec<AccessRule>,
    /// Whether requests without a credential are admitted. A wrong credential is always rejected.
    pub anonymous: bool,
}

/// An accepted auth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The auth that must succeed.
    pub auth: AuthId,
    /// Scopes required in addition to those of the auth (403 if missing).
    pub scopes: Vec<String>,
}

/// A client of the APIs.
#[derive(Debug)]
pub struct Consumer {
    /// Name, the key under `consumers`.
    pub name: String,
    /// The plan.
    pub plan: Option<PlanId>,
    /// The auth whose tokens identify the consumer if the expression is true (`claims` is in
    /// scope).
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

/// Rate, quota and price of a consumer.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name, the key under `plans`.
    pub name: String,
    /// Rate limit per consumer.
    pub rate: Option<Rate>,
    /// Quota per consumer.
    pub quota: Option<Quota>,
    /// Price of calls.
    pub price: Option<Price>,
}

impl Plan {
    /// Whether calls are counted without a rule.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.quota.is_some() || self.price.is_some()
    }
}

impl super::Config {
    /// All plans by name, with their prices.
    pub fn prices(&self) -> impl Iterator<Item = (&str, Option<&Price>)> {
        self.plans.iter().map(|plan| (plan.name.as_str(), plan.price.as_ref()))
    }
}

/// `rate: 100/s, burst: 200`: a token bucket; at most burst + rate·t requests are admitted in any
/// interval t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests …
    pub requests: u64,
    /// … in this time (1 s, 1 min, 1 h, 1 d).
    pub per: Duration,
    /// Requests admitted at once (default: `requests`, at least 1).
    pub burst: u64,
}

/// A number of calls per calendar period or rolling window.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Calls admitted per period.
    pub calls: u64,
    /// Length of the period.
    pub per: QuotaPeriod,
    /// Time zone of calendar periods (`UTC` by default).
    pub zone: jiff::tz::TimeZone,
    /// Rolling window, independent of the calendar: a month has 30 days, a year 365. `zone` does
    /// not apply.
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

/// A rate limit of an API or a route.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// Name for the `RateLimit-Policy` header and for the buckets: that of the API or the route.
    /// The routes of an API share its limits: equal names are one bucket.
    pub name: String,
    /// The rate.
    pub rate: Rate,
    /// Key of the bucket.
    pub key: LimitKey,
}

/// Key of a rate limit's bucket.
#[derive(Clone, Debug)]
pub enum LimitKey {
    /// The client's address (IPv6 by /64).
    Address,
    /// The consumer; without one, the client's address.
    Consumer,
    /// The string result of an expression (`request`, `claims`, `consumer` in scope); without one,
    /// the client's address.
    Expr(Expr),
}

/// CORS settings of an API (Fetch standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins that may read responses.
    pub origins: Origins,
    /// Methods that a preflight allows; empty: those of the matched path.
    pub methods: Vec<String>,
    /// Request headers that a preflight allows, lower case; empty: the requested ones.
    pub headers: Vec<String>,
    /// Response headers that scripts of a page may read.
    pub expose: Vec<String>,
    /// Whether cookies and Authorization are allowed; never together with any origin.
    pub credentials: bool,
    /// Time for which browsers may cache a preflight response.
    pub max_age: Duration,
}

/// Origins of a [`Cors`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Every origin (`*`).
    Any,
    /// These, compared exactly (`https://app.example.com`).
    List(Vec<String>),
}

/// Edits of a header list: first remove, then set (replacing) in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Lower-case names and values to set; each replaces those of the same name.
    pub set: Vec<(String, String)>,
    /// Lower-case names to remove.
    pub remove: Vec<String>,
}

impl HeaderEdits {
    /// Whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// A content coding (RFC 9110 section 8.4.1) for responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// `zstd` (RFC 8878).
    Zstd,
    /// `br` (RFC 7932).
    Br,
    /// `gzip` (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All codings, the one with the best ratio of density to cost first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Br, Self::Gzip];

    /// The name in `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// Response compression, if the client accepts it, and the response is not encoded yet, has a
/// compressible type and at least the minimum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Whether compression is on.
    pub enabled: bool,
    /// Minimum body in bytes.
    pub min_size: u64,
    /// Level 1 to 9, on the scale of each coding.
    pub level: u32,
    /// Codings in order of preference, applied after that of the client (default: all).
    pub codings: [Option<ContentCoding>; 3],
}

/// IP allow and deny lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Only these networks are admitted; empty: all.
    pub allow: Vec<IpNet>,
    /// These networks are rejected, also within `allow`.
    pub deny: Vec<IpNet>,
}

impl Clients {
    /// Whether this address (IPv4 not mapped into IPv6) is admitted.
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
