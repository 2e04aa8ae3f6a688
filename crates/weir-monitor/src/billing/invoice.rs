//! Invoices of a consumer for a period.
//!
//! The prices of single calls were added up when they were counted, exactly. Prices by volume are
//! computed here, from the number of calls of a plan in the period and the price in force at its
//! end. Lines are exact, with all decimals. Only a total is rounded, once, half up, to the decimals
//! of its currency. So the lines add up to the exact total.

use super::price_list::Rule;
use crate::usage::Unreported;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use weir_expr::price::{Tier, reached_tiers};
use weir_model::{Amount, UnixSeconds};

/// Amounts that a consumer owes for a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invoice {
    /// The consumer.
    pub consumer: String,
    /// The period as requested.
    pub period: String,
    /// Time zone.
    pub zone: String,
    /// Start of the period (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub from: UnixSeconds,
    /// End of the period, exclusive.
    #[schema(value_type = String)]
    pub to: UnixSeconds,
    /// The period has not ended, or some of its calls are not metered yet.
    pub provisional: bool,
    /// Calls of all consumers in the period that could not be metered and are in no invoice.
    #[serde(default)]
    pub uncounted: u64,
    /// Nodes of the fleet that are down or lost, and have not reported all calls of the period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreported: Vec<Unreported>,
    /// Exact costs of calls by operation.
    pub lines: Vec<Line>,
    /// Exact costs of calls by tier.
    pub tiers: Vec<TierLine>,
    /// Totals by currency.
    pub totals: Vec<Total>,
}

/// Calls of an operation with a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Line {
    /// The plan.
    pub plan: String,
    /// The API.
    pub api: String,
    /// The operation.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// Bytes of request and response bodies.
    pub bytes: u64,
    /// Code of the currency (ISO 4217).
    pub currency: String,
    /// Costs: a decimal with all digits.
    #[schema(value_type = String)]
    pub amount: Amount,
}

/// Calls of a plan in a tier of its prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TierLine {
    /// The plan.
    pub plan: String,
    /// Number of the first call of the tier in the period, from 1.
    pub first: u64,
    /// Number of the last call.
    pub last: u64,
    /// Price per call.
    #[schema(value_type = String)]
    pub per_call: Amount,
    /// Code of the currency.
    pub currency: String,
    /// Costs: a decimal with all digits.
    #[schema(value_type = String)]
    pub amount: Amount,
}

/// The total in a currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Total {
    /// Code of the currency.
    pub currency: String,
    /// Sum of all lines, with all digits.
    #[schema(value_type = String)]
    pub exact: Amount,
    /// Amount due: rounded once, half up.
    pub due: String,
    /// Decimals of the amount due.
    #[serde(skip)]
    pub decimals: u32,
}

/// The invoice of a consumer, from lines without a currency and the prices of their plans; without
/// its period. Calls of plans without a price are omitted.
pub(super) fn invoice(
    consumer: &str,
    counted: Vec<Line>,
    rules: &BTreeMap<String, Rule>,
) -> Invoice {
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in counted {
        let Some(rule) = rules.get(&line.plan) else { continue };
        *calls.entry(line.plan.clone()).or_default() += line.calls;
        lines.push(Line { currency: rule.currency.clone(), ..line });
    }
    let mut tiers = Vec::new();
    for (plan, calls) in calls {
        tiers.extend(tier_lines(&plan, &rules[&plan], calls));
    }
    let totals = totals(&lines, &tiers, rules);
    Invoice { consumer: consumer.to_owned(), lines, tiers, totals, ..Invoice::default() }
}

fn tier_lines(plan: &str, rule: &Rule, calls: u64) -> Vec<TierLine> {
    let line = |(tier, first, last): (Tier, u64, u64)| TierLine {
        plan: plan.to_owned(),
        first,
        last,
        per_call: tier.per_call,
        currency: rule.currency.clone(),
        amount: tier.per_call.times(last - first + 1),
    };
    reached_tiers(&rule.tiers, calls).into_iter().map(line).collect()
}

fn totals(lines: &[Line], tiers: &[TierLine], rules: &BTreeMap<String, Rule>) -> Vec<Total> {
    let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
    let lines = lines.iter().map(|line| (&line.plan, &line.currency, line.amount));
    let tiers = tiers.iter().map(|tier| (&tier.plan, &tier.currency, tier.amount));
    for (plan, currency, amount) in lines.chain(tiers) {
        let total = totals
            .entry(currency)
            .or_insert_with(|| Total { currency: currency.clone(), ..Total::default() });
        total.exact = total.exact.plus(amount);
        let decimals = rules.get(plan).map_or(0, |rule| rule.decimals);
        total.decimals = total.decimals.max(decimals);
    }
    let rounded = |total: Total| Total { due: total.exact.fixed(total.decimals), ..total };
    totals.into_values().map(rounded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().expect(text)
    }

    fn line(plan: &str, operation: &str, calls: u64, text: &str) -> Line {
        Line {
            plan: plan.to_owned(),
            api: "orders".to_owned(),
            operation: operation.to_owned(),
            calls,
            bytes: 10,
            currency: String::new(),
            amount: amount(text),
        }
    }

    fn rule(currency: &str, decimals: u32, tiers: Vec<Tier>) -> Rule {
        Rule { currency: currency.to_owned(), decimals, tiers }
    }

    #[test]
    fn a_total_is_rounded_once() {
        let rules = BTreeMap::from([("gold".to_owned(), rule("EUR", 2, vec![]))]);
        let lines = (0..3).map(|n| line("gold", &n.to_string(), 1, "0.005")).collect();
        let invoice = invoice("acme", lines, &rules);
        let [total] = &invoice.totals[..] else { panic!("{invoice:?}") };
        assert_eq!((total.exact, total.due.as_str()), (amount("0.015"), "0.02"));
        assert_eq!(invoice.lines[0].currency, "EUR");
    }

    #[test]
    fn tiers_are_by_the_calls_of_a_plan_over_all_operations() {
        let tiers = vec![
            Tier { up_to: Some(10), per_call: amount("1") },
            Tier { up_to: None, per_call: amount("0.5") },
        ];
        let rules = BTreeMap::from([
            ("gold".to_owned(), rule("EUR", 2, tiers)),
            ("pro".to_owned(), rule("USD", 0, vec![])),
            ("pro+".to_owned(), rule("USD", 3, vec![])),
        ]);
        let counted = vec![
            line("gold", "a", 8, "0"),
            line("gold", "b", 7, "0.25"),
            line("pro", "a", 1, "1.23456"),
            line("pro+", "a", 1, "1"),
            line("free", "a", 99, "0"),
        ];
        let invoice = invoice("acme", counted, &rules);
        assert_eq!(invoice.lines.len(), 4, "without the plan that has no price");
        let tiers: Vec<_> = invoice.tiers.iter().map(|t| (t.first, t.last, t.amount)).collect();
        assert_eq!(tiers, [(1, 10, amount("10")), (11, 15, amount("2.5"))]);
        let totals: Vec<_> =
            invoice.totals.iter().map(|t| (t.currency.as_str(), t.due.as_str())).collect();
        assert_eq!(totals, [("EUR", "12.75"), ("USD", "2.235")]);
    }
}
