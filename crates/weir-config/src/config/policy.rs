//! Policies: plain data. Only the gateway's policy stages act on them.

use super::{AuthId, PlanId};
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::price::Price;

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
    /// How long a preflight may be cached.
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

/// A content coding (RFC 9110 section 8.4.1) that answers are compressed with.
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
    /// All of them, the cheapest for its density first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Br, Self::Gzip];

    /// As `Content-Encoding` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// Response compression: where the client accepts it, the answer is not encoded yet, its
/// type compresses well and it is not smaller than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// On at all.
    pub enabled: bool,
    /// Smallest body in bytes that is worth it.
    pub min_size: u64,
    /// Level 1 to 9, as each coding understands it.
    pub level: u32,
    /// Codings on offer; of those that a client wants alike the first (default: all).
    pub codings: [Option<ContentCoding>; 3],
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
