//! Plans, consumers, rates.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{AuthId, Consumer, KeyHash, Plan, PlanId, Quota, QuotaPeriod, Rate};
use crate::draft::{Member, Node};
use crate::expr::Expr;
use crate::finding::codes;
use crate::price::{Price, Tier};
use crate::units;

/// `rate` and `burst`.
pub(super) fn rate(fields: &Fields<'_>) -> Option<Rate> {
    let (requests, per) = units::rate(fields.text("rate")?).ok()?;
    Some(Rate { requests, per, burst: fields.integer("burst").unwrap_or(requests).max(1) })
}

impl Resolver<'_> {
    pub(super) fn plan(&mut self, member: &Member) -> Option<Plan> {
        let fields = Fields::new(&member.value, &keys::PLAN);
        if let (Some(burst), None) = (fields.get("burst"), fields.get("rate")) {
            self.report
                .error(codes::MISSING_KEY, burst.at, "`burst` needs `rate`")
                .help("add `rate: 100/s`");
        }
        let quota = fields.object("quota", &keys::QUOTA);
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
            price: fields.object("price", &keys::PRICE).and_then(|p| self.price(&p)),
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
            decimals: fields.number("decimals", 2),
        })
    }

    /// Each ends after the one before, and only the last has no end.
    fn tiers(&mut self, nodes: &[Node]) -> Vec<Tier> {
        let mut tiers: Vec<Tier> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let fields = Fields::new(node, &keys::TIER);
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
        let fields = Fields::new(&member.value, &keys::CONSUMER);
        let plan = fields
            .get("plan")
            .and_then(|node| self.plans.find(node.text()?, node.at, self.report).map(PlanId));
        let matches = fields.object("match", &keys::MATCH).and_then(|m| self.token_match(&m));
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

    /// Compiles the expression a node holds.
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
    let per = match fields.text("per")? {
        "minute" => QuotaPeriod::Minute,
        "hour" => QuotaPeriod::Hour,
        "day" => QuotaPeriod::Day,
        "week" => QuotaPeriod::Week,
        "month" => QuotaPeriod::Month,
        "year" => QuotaPeriod::Year,
        _ => return None,
    };
    let zone = match fields.text("zone") {
        Some(name) => jiff::tz::TimeZone::get(name).ok()?,
        None => jiff::tz::TimeZone::UTC,
    };
    let rolling = fields.bool("rolling").unwrap_or(false);
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
