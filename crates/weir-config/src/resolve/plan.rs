//! Plans, consumers, rates.

use super::{Fields, Resolver};
use crate::config::{ApiKey, AuthId, Consumer, KeyHash, Plan, PlanId, Quota, Rate, RateScope};
use crate::formats;
use iso_currency::Currency;
use jiff::Timestamp;
use strum::VariantNames;
use weir_document::draft::{Member, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::settings::choice_of;
use weir_document::shape::{Group, Kind, format};
use weir_expr::Expr;
use weir_expr::price::{Price, Tier};

settings! {
    /// Rate, quota and price of a consumer. Each consumer of the plan has its own bucket and quota.
    pub(super) static PLAN is "a plan" {
        /// Requests per unit of time. Token bucket: at most burst + rate·t requests are admitted in
        /// any interval t.
        rate = by_hand(Kind::Format(format::RATE)).absent("no limit"),
        /// Requests admitted at once.
        burst = by_hand(Kind::Integer(1, 1_000_000_000)).absent("the requests of `rate`"),
        /// The rate limits all nodes of a fleet together, or each node by itself.
        scope = by_hand(Kind::Enum(RateScope::VARIANTS)).default("fleet"),
        /// Quota: calls per period.
        quota = by_hand(Kind::Object(Quota::SHAPE)).absent("no limit"),
        /// Price of calls.
        price = by_hand(Kind::Object(PriceKeys::SHAPE)).absent("nothing"),
    }
}

settings! {
    /// Price of calls: the sum of its parts.
    pub(super) struct PriceKeys is "a price" {
        /// Price of a call.
        per_call = by_hand(Kind::Format(formats::PRICE)),
        /// Price of a KiB of request and response bodies. A byte costs 1/1024 of it, without
        /// rounding.
        per_kib = by_hand(Kind::Format(formats::PRICE)),
        /// Price of a call by an expression that returns a number or a decimal string, rounded to 8
        /// decimals; `call` has `api`, `operation`, `consumer`, `status`, `request_bytes`,
        /// `response_bytes` and `duration_ms`.
        cel = by_hand(Kind::Format(formats::CEL)),
        /// Graduated price of a call, by the number of calls of the consumer in the invoice period.
        tiers = by_hand(Kind::List(&Kind::Object(&TIER))),
        /// Currency code (ISO 4217).
        currency = by_hand(Kind::Format(formats::CURRENCY)).required(),
        /// Decimals of rounded amounts, such as the total of an invoice; halves are rounded away from zero.
        decimals = by_hand(Kind::Integer(0, 8)).absent("the decimals of the currency (ISO 4217): 2 for EUR, 0 for JPY"),
        /// Bill gateway errors, too: responses of weir itself with 429 or a 5xx. Rejected calls (429, some
        /// 503) are metered only with `monitor.counts.rejected`.
        bill_gateway_errors: bool = boolean().default("false"),
    },
    groups: &[Group { keys: &["per_call", "tiers"], required: false }],
    misspellings: &[
        ("per_byte", "write `per_kib`; a byte costs 1/1024 of it"),
        ("per_kb", "write `per_kib`"),
    ],
}

settings! {
    /// A price for calls above the end of the previous tier.
    pub(super) static TIER is "a tier" {
        /// Last call of the invoice period in this tier; absent in the last tier only.
        up_to = by_hand(Kind::Integer(1, u64::MAX)),
        /// Price of a call in this tier.
        per_call = by_hand(Kind::Format(formats::PRICE)).required(),
    }
}

settings! {
    /// A client of the APIs: a person, organization or program.
    pub(super) static CONSUMER is "a consumer" {
        /// Plan of the consumer.
        plan = by_hand(Kind::Format(format::NAME)).absent("no limit"),
        /// Tokens and certificates that identify the consumer.
        match = by_hand(Kind::Object(&MATCH)),
        /// The consumer's API keys: hashes as printed by `weir key new`, or mappings with name and end.
        api_keys = by_hand(Kind::List(&API_KEY)),
    },
    misspellings: &[
        ("keys", "write `api_keys: [\"sha256:…\"]`"),
        ("api_key", "write `api_keys: [\"sha256:…\"]`"),
    ],
}

const API_KEY: Kind = Kind::Either(&[Kind::Format(format::KEY_HASH), Kind::Object(&API_KEY_KEYS)]);

settings! {
    /// An API key of a consumer; a hash is short for `{hash: …}`.
    pub(super) static API_KEY_KEYS is "an API key" {
        /// Hash of the key, as printed by `weir key new`.
        hash = by_hand(Kind::Format(format::KEY_HASH)).required(),
        /// Name for operators, such as the system that uses the key.
        name = by_hand(Kind::Format(format::NAME)),
        /// End of the key: a date (`2027-01-31`: until the end of this day in UTC), or a time with zone
        /// (`2027-01-31T18:00:00+01:00`). Requests with the key are rejected with 401 from then on.
        expires = by_hand(Kind::Format(formats::END)).absent("never"),
    },
    misspellings: &[
        ("key", "write `hash: \"sha256:…\"`, as printed by `weir key new`"),
        ("sha256", "write `hash: \"sha256:…\"`"),
        ("expiry", "write `expires`"),
        ("expires_at", "write `expires`"),
        ("until", "write `expires`"),
    ],
}

settings! {
    /// Tokens and certificates that identify a consumer.
    pub(super) static MATCH is "the match of a consumer" {
        /// Auth that verified the token or the certificate.
        auth = by_hand(Kind::Format(format::NAME)).required(),
        /// CEL over `claims`: `claims.client_id == "acme"`. Claims of a certificate are `subject`,
        /// `common_name`, `issuer`, `serial`, `fingerprint` (SHA-256, hexadecimal), `dns`, `uri`,
        /// `email`, `not_before`, `not_after`.
        when = by_hand(Kind::Format(formats::CEL)).required(),
    }
}

impl Resolver<'_> {
    pub(super) fn plan(&mut self, member: &Member) -> Option<Plan> {
        let fields = Fields::new(&member.value, &PLAN);
        for key in ["burst", "scope"] {
            if let (Some(node), None) = (fields.get(key), fields.get("rate")) {
                self.report
                    .error(codes::MISSING_KEY, node.at, format!("`{key}` needs `rate`"))
                    .help("add `rate: 100/s`");
            }
        }
        let quota = fields.object("quota", Quota::SHAPE);
        if let Some(quota) = &quota
            && let (Some(true), Some(zone)) = (quota.bool("rolling"), quota.get("zone"))
        {
            self.report
                .error(codes::CONFLICT, zone.at, "a rolling quota has no calendar period")
                .help("remove `zone` or `rolling`");
        }
        Some(Plan {
            name: member.key.clone(),
            rate: Rate::read_scoped(&fields),
            quota: quota.and_then(|quota| {
                let per = choice_of(quota.get("per")?)?;
                Some(Quota::read(&quota, quota.integer("calls")?, per))
            }),
            price: fields.object("price", PriceKeys::SHAPE).and_then(|p| self.price(&p)),
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
            decimals: fields.integer("decimals").map_or_else(
                || iso_decimals(fields.text("currency").unwrap_or_default()),
                |decimals| decimals as u32,
            ),
            currency: fields.text("currency")?.to_owned(),
            bill_gateway_errors: PriceKeys::read(fields).bill_gateway_errors,
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
        let api_keys = fields.many("api_keys").iter().filter_map(|n| self.api_key(n)).collect();
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

    fn api_key(&mut self, node: &Node) -> Option<ApiKey> {
        let fields = Fields::new(node, &API_KEY_KEYS);
        let hash = node.text().or_else(|| fields.text("hash"))?;
        let hash = KeyHash::of_digits(hash.strip_prefix("sha256:")?)?;
        if node.text().is_some() {
            return Some(ApiKey { hash, name: None, expires: None });
        }
        let expires = fields.text("expires").and_then(|text| formats::end(text).ok());
        let key = ApiKey { hash, name: fields.text("name").map(str::to_owned), expires };
        let now = Timestamp::now().as_second().unsigned_abs();
        if let Some(node) = fields.get("expires").filter(|_| key.has_expired(now)) {
            let id = key.hash.id();
            self.report
                .warning(codes::EXPIRED_KEY, node.at, format!("the API key {id} has expired"))
                .help("remove the key, or move its end");
        }
        Some(key)
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

/// Decimals of the minor unit of a currency; 2 if ISO 4217 has none for it, or does not know it.
fn iso_decimals(currency: &str) -> u32 {
    let currency = Currency::from_code(currency);
    currency.and_then(Currency::exponent).map_or(2, u32::from)
}
