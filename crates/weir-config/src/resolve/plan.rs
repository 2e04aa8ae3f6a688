//! Plans, consumers, rates.

use super::{Fields, Resolver};
use crate::config::{AuthId, Consumer, KeyHash, Plan, PlanId, Quota, QuotaPeriod, Rate};
use crate::formats;
use jiff::tz::TimeZone;
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, Typed, boolean, choice, integer};
use weir_document::shape::{Group, Key, Kind, Shape, format};
use weir_document::units;
use weir_expr::Expr;
use weir_expr::price::{Price, Tier};
use weir_model::Choice;

/// A value of `plans`.
pub(super) static PLAN: Shape = Shape::new(
    "a plan",
    "Rate, quota and price of a consumer. Each consumer of the plan has its own bucket and quota.",
    &[
        Key::new(
            "rate",
            Kind::Format(format::RATE),
            "Requests per unit of time. Token bucket: at most burst + rate·t requests are admitted in any interval t.",
        )
        .absent("no limit"),
        Key::new("burst", Kind::Integer(1, 1_000_000_000), "Requests admitted at once.")
            .absent("the requests of `rate`"),
        Key::new("quota", Kind::Object(&QUOTA), "Quota: calls per period.").absent("no limit"),
        Key::new("price", Kind::Object(&PRICE), "Price of calls.").absent("nothing"),
    ],
);

const PRICE_DECIMALS: Defaulted<u32> =
    integer("decimals", (0, 8), "Decimals of the total of an invoice; halves are rounded up.")
        .default("2");

/// `price` of a plan.
pub(super) static PRICE: Shape = Shape {
    groups: &[Group { keys: &["per_call", "tiers"], required: false }],
    misspellings: &[
        ("per_byte", "write `per_kib`; a byte costs 1/1024 of it"),
        ("per_kb", "write `per_kib`"),
    ],
    ..Shape::new(
        "a price",
        "Price of calls: the sum of its parts.",
        &[
            Key::new("per_call", Kind::Format(formats::PRICE), "Price of a call."),
            Key::new(
                "per_kib",
                Kind::Format(formats::PRICE),
                "Price of a KiB of request and response bodies. A byte costs 1/1024 of it, without rounding.",
            ),
            Key::new(
                "cel",
                Kind::Format(formats::CEL),
                "Price of a call by an expression that returns a number or a decimal string, rounded to 8 decimals; `call` has `api`, `operation`, `consumer`, `status`, `request_bytes`, `response_bytes` and `duration_ms`.",
            ),
            Key::new(
                "tiers",
                Kind::List(&Kind::Object(&TIER)),
                "Graduated price of a call, by the number of calls of the consumer in the invoice period.",
            ),
            Key::new("currency", Kind::Format(formats::CURRENCY), "Currency code (ISO 4217).")
                .required(),
            PRICE_DECIMALS.key,
        ],
    )
};

/// An item of `tiers`.
pub(super) static TIER: Shape = Shape::new(
    "a tier",
    "A price for calls above the end of the previous tier.",
    &[
        Key::new(
            "up_to",
            Kind::Integer(1, u64::MAX),
            "Last call of the invoice period in this tier; absent in the last tier only.",
        ),
        Key::new("per_call", Kind::Format(formats::PRICE), "Price of a call in this tier.")
            .required(),
    ],
);

const QUOTA_PER: Typed<QuotaPeriod> =
    choice("per", "Length of the period; weeks begin on Monday.").required();
const QUOTA_ZONE: Defaulted<TimeZone> = Typed::new(
    Key::new("zone", Kind::Format(format::ZONE), "Time zone of the calendar period."),
    |node| TimeZone::get(node.text()?).ok(),
)
.default("UTC");
const QUOTA_ROLLING: Defaulted<bool> = boolean("rolling", "Rolling window: the limit holds for any interval of the length of the period, independent of the calendar. A month has 30 days, a year 365. A call leaves the window up to 1/60 of the period late.").default("false");

/// `quota` of a plan.
pub(super) static QUOTA: Shape = Shape::new(
    "a quota",
    "Maximum number of calls per calendar period or rolling window.",
    &[
        Key::new("calls", Kind::Integer(1, u64::MAX), "Calls admitted per period.").required(),
        QUOTA_PER.key,
        QUOTA_ZONE.key,
        QUOTA_ROLLING.key,
    ],
);

/// A value of `consumers`.
pub(super) static CONSUMER: Shape = Shape {
    misspellings: &[
        ("keys", "write `api_keys: [\"sha256:…\"]`"),
        ("api_key", "write `api_keys: [\"sha256:…\"]`"),
    ],
    ..Shape::new(
        "a consumer",
        "A client of the APIs: a person, organization or program.",
        &[
            Key::new("plan", Kind::Format(format::NAME), "Plan of the consumer.")
                .absent("no limit"),
            Key::new(
                "match",
                Kind::Object(&MATCH),
                "Tokens and certificates that identify the consumer.",
            ),
            Key::new(
                "api_keys",
                Kind::List(&Kind::Format(format::KEY_HASH)),
                "Hashes of the consumer's API keys, as printed by `weir key new`.",
            ),
        ],
    )
};

/// `match` of a consumer.
pub(super) static MATCH: Shape = Shape::new(
    "the match of a consumer",
    "Tokens and certificates that identify a consumer.",
    &[
        Key::new("auth", Kind::Format(format::NAME), "Auth that verified the token or the certificate.").required(),
        Key::new("when", Kind::Format(formats::CEL), "CEL over `claims`: `claims.client_id == \"acme\"`. Claims of a certificate are `subject`, `common_name`, `issuer`, `serial`, `fingerprint` (SHA-256, hexadecimal), `dns`, `uri`, `email`, `not_before`, `not_after`.").required(),
    ],
);

impl Choice for QuotaPeriod {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("minute", Self::Minute),
        ("hour", Self::Hour),
        ("day", Self::Day),
        ("week", Self::Week),
        ("month", Self::Month),
        ("year", Self::Year),
    ];
}

/// `rate` and `burst`.
pub(super) fn rate(fields: &Fields<'_>) -> Option<Rate> {
    let (requests, per) = units::rate(fields.text("rate")?).ok()?;
    Some(Rate { requests, per, burst: fields.integer("burst").unwrap_or(requests).max(1) })
}

impl Resolver<'_> {
    pub(super) fn plan(&mut self, member: &Member) -> Option<Plan> {
        let fields = Fields::new(&member.value, &PLAN);
        if let (Some(burst), None) = (fields.get("burst"), fields.get("rate")) {
            self.report
                .error(codes::MISSING_KEY, burst.at, "`burst` needs `rate`")
                .help("add `rate: 100/s`");
        }
        let quota = fields.object("quota", &QUOTA);
        if let Some(quota) = &quota
            && let (Some(true), Some(zone)) = (quota.bool("rolling"), quota.get("zone"))
        {
            self.report
                .error(codes::CONFLICT, zone.at, "a rolling quota has no calendar period")
                .help("remove `zone` or `rolling`");
        }
        Some(Plan {
            name: member.key.clone(),
            rate: rate(&fields),
            quota: quota.and_then(|fields| self::quota(&fields)),
            price: fields.object("price", &PRICE).and_then(|p| self.price(&p)),
        })
    }

    fn price(&mut self, fields: &Fields<'_>) -> Option<Price> {
        let cel = fields.get("cel").and_then(|node| self.expression(node, &["call"]));
        let costs = ["per_call", "per_kib", "cel", "tiers"];
        if costs.iter().all(|key| fields.get(key).is_none()) {
            self.report
                .error(codes::MISSING_KEY, fields.node().at, "the price is empty")
                .help("set `per_call`, `per_kib`, `cel` or `tiers`, with `currency`");
        }
        let amount = |key: &str| fields.text(key).and_then(|text| text.parse().ok());
        Some(Price {
            per_call: amount("per_call").unwrap_or_default(),
            per_kib: amount("per_kib").unwrap_or_default(),
            cel,
            tiers: self.tiers(fields.many("tiers")),
            currency: fields.text("currency")?.to_owned(),
            decimals: fields.read(&PRICE_DECIMALS),
        })
    }

    /// Each tier ends above the previous one, and only the last has no end.
    fn tiers(&mut self, nodes: &[Node]) -> Vec<Tier> {
        let mut tiers: Vec<Tier> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let fields = Fields::new(node, &TIER);
            let up_to = fields.integer("up_to");
            let is_last = index + 1 == nodes.len();
            let before = tiers.last().and_then(|tier| tier.up_to);
            let wrong = match up_to {
                Some(_) if is_last => Some("the last tier must not have `up_to`"),
                None if !is_last => Some("every tier but the last needs `up_to`"),
                Some(end) if before.is_some_and(|before| end <= before) => {
                    Some("`up_to` must increase from tier to tier")
                }
                _ => None,
            };
            if let Some(wrong) = wrong {
                self.report.error(codes::CONFLICT, node.at, wrong);
            }
            if let Some(per_call) = fields.text("per_call").and_then(|text| text.parse().ok()) {
                tiers.push(Tier { up_to, per_call });
            }
        }
        tiers
    }

    pub(super) fn consumer(&mut self, member: &Member) -> Option<Consumer> {
        let fields = Fields::new(&member.value, &CONSUMER);
        let plan = fields
            .get("plan")
            .and_then(|node| self.plans.find(node.text()?, node.at, self.report).map(PlanId));
        let matches = fields.object("match", &MATCH).and_then(|m| self.token_match(&m));
        let api_keys = fields.texts("api_keys").iter().filter_map(|t| key_hash(t)).collect();
        if fields.get("match").is_none() && fields.get("api_keys").is_none() {
            self.report
                .warning(
                    codes::UNUSED,
                    member.at,
                    format!("the consumer `{}` never matches", member.key),
                )
                .help("set `match: {auth: …, when: …}` or `api_keys: [\"sha256:…\"]`");
        }
        Some(Consumer { name: member.key.clone(), plan, matches, api_keys })
    }

    fn token_match(&mut self, fields: &Fields<'_>) -> Option<(AuthId, Expr)> {
        let auth = fields.get("auth").and_then(|node| {
            let index = self.auths.find(node.text()?, node.at, self.report)?;
            if !self.auth_has(index, &["jwt", "introspect", "certificate"]) {
                self.report
                    .error(codes::CONFLICT, node.at, "API keys have no claims")
                    .help("use an auth with tokens or certificates, or `api_keys` of the consumer");
                return None;
            }
            Some(AuthId(index))
        });
        let when = fields.get("when").and_then(|node| self.expression(node, &["claims"]));
        Some((auth?, when?))
    }

    /// Compiles the expression of a node.
    pub(super) fn expression(&mut self, node: &Node, variables: &[&str]) -> Option<Expr> {
        match Expr::compile(node.text()?, variables) {
            Ok(expr) => Some(expr),
            Err(message) => {
                self.report.error(codes::BAD_EXPRESSION, node.at, message);
                None
            }
        }
    }
}

fn quota(fields: &Fields<'_>) -> Option<Quota> {
    let per = fields.optional(&QUOTA_PER)?;
    let (zone, rolling) = (fields.read(&QUOTA_ZONE), fields.read(&QUOTA_ROLLING));
    Some(Quota { calls: fields.integer("calls")?, per, zone, rolling })
}

fn key_hash(text: &str) -> Option<KeyHash> {
    let digits = text.strip_prefix("sha256:")?;
    let mut hash = [0; 32];
    for (byte, i) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(i..i + 2)?, 16).ok()?;
    }
    Some(KeyHash(hash))
}
