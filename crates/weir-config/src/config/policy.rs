//! Policies: plain data. Only the gateway's policy stages act on them.

use super::{AuthId, AuthKind, PlanId};
use ipnet::IpNet;
use jiff::tz::TimeZone;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::settings::{choice_of, items};
use weir_document::shape::{Kind, format};
use weir_document::units;
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

impl AccessRule {
    /// The scopes that a token needs: those of the auth, which is of `kind`, and of the rule.
    pub fn required_scopes<'a>(&'a self, kind: &'a AuthKind) -> impl Iterator<Item = &'a String> {
        let of_auth = kind.token().into_iter().flat_map(|token| &token.scopes);
        of_auth.chain(&self.scopes)
    }
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
    /// Its API keys.
    pub api_keys: Vec<ApiKey>,
}

/// An API key of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its hash.
    pub hash: KeyHash,
    /// Name for operators.
    pub name: Option<String>,
    /// From when on it is rejected, in seconds since 1970; `None`: never.
    pub expires: Option<u64>,
}

impl ApiKey {
    /// Whether it is rejected at this time, in seconds since 1970.
    #[must_use]
    pub fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// SHA-256 of an API key, written `sha256:` and 64 hexadecimal digits. Keys are 256 bits of
/// randomness (`weir key new`), so a slow hash would add nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// The first digits of the hash, which name the key: too few to find it by them.
    #[must_use]
    pub fn id(&self) -> String {
        let [a, b, c, d, ..] = self.0;
        format!("sha256:{a:02x}{b:02x}{c:02x}{d:02x}")
    }

    /// All digits, in lower case.
    #[must_use]
    pub fn digits(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut digits, byte| {
            // Writing to a string does not fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }

    /// The hash with these 64 hexadecimal digits.
    #[must_use]
    pub fn of_digits(digits: &str) -> Option<Self> {
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

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
    /// Whom the rate holds for.
    pub scope: RateScope,
}

/// Whom a rate holds for if weir runs on many nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum RateScope {
    /// All nodes of the fleet together.
    #[default]
    Fleet,
    /// Each node by itself.
    Node,
}

impl Rate {
    /// `rate` and `burst` of a mapping.
    pub(crate) fn read(fields: &Fields<'_>, scope: RateScope) -> Option<Self> {
        let (requests, per) = units::rate(fields.text("rate")?).ok()?;
        let burst = fields.integer("burst").unwrap_or(requests).max(1);
        Some(Self { requests, per, burst, scope })
    }

    /// `rate`, `burst` and `scope` of a mapping.
    pub(crate) fn read_scoped(fields: &Fields<'_>) -> Option<Self> {
        let scope = fields.get("scope").and_then(choice_of).unwrap_or_default();
        Self::read(fields, scope)
    }
}

settings! {
    /// Maximum number of calls per calendar period or rolling window.
    #[derive(Clone, Debug)]
    pub struct Quota is "a quota" {
        /// Calls admitted per period.
        calls = by_hand(Kind::Integer(1, u64::MAX)).required(),
        /// Length of the period; weeks begin on Monday.
        per = by_hand(PERIODS).required(),
        /// Time zone of the calendar period.
        pub zone: TimeZone =
            value(Kind::Format(format::ZONE), |node| TimeZone::get(node.text()?).ok())
                .default("UTC"),
        /// Rolling window: the limit holds for any interval of the length of the period,
        /// independent of the calendar. A month has 30 days, a year 365. A call leaves the window
        /// up to 1/60 of the period late.
        pub rolling: bool = boolean().default("false"),
    } given {
        /// Calls admitted per period.
        pub calls: u64,
        /// Length of the period.
        pub per: QuotaPeriod,
    }
}

const PERIODS: Kind = Kind::Enum(QuotaPeriod::VARIANTS);

/// A calendar period; weeks begin on Monday (ISO 8601).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, VariantNames, strum::Display)]
#[strum(serialize_all = "lowercase")]
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

settings! {
    /// CORS: cross-origin requests of browsers (Fetch standard).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cors is "the CORS policy" {
        /// Origins that may read responses; `*` for all.
        origins = by_hand(Kind::OneOrMany(&Kind::Format(format::ORIGIN))).required(),
        /// Methods that a preflight allows.
        // In upper case.
        pub methods: Vec<String> = value(METHODS, methods).absent("those of the path"),
        /// Request headers that a preflight allows.
        // In lower case; empty: the requested ones.
        pub headers: Vec<String> =
            names(Kind::OneOrMany(&Kind::Format(format::HEADER))).absent("the requested ones"),
        /// Response headers that scripts of a page may read.
        pub expose: Vec<String> = names(Kind::OneOrMany(&Kind::Format(format::HEADER))),
        /// Allow cookies and Authorization; not together with `*`.
        pub credentials: bool = boolean().default("false"),
        /// Time for which browsers may cache a preflight response.
        pub max_age: Duration = duration().default("10m"),
    } given {
        /// Origins that may read responses.
        pub origins: Origins,
    },
    short: Some("origins"),
}

const METHODS: Kind = Kind::OneOrMany(&Kind::Format(format::METHOD));

fn methods(node: &Node) -> Option<Vec<String>> {
    Some(items(node).iter().filter_map(|n| Some(n.text()?.to_ascii_uppercase())).collect())
}

/// Origins of a [`Cors`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Every origin (`*`).
    Any,
    /// These, compared exactly (`https://app.example.com`).
    List(Vec<String>),
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
