//! Invoices of a consumer for a period.
//!
//! The prices of single calls were added up when they were counted, exactly. Prices by volume are
//! computed here, from the number of calls of a plan in the period and the price in force at its
//! end. Each line is exact, and rounded beside that, half away from zero, to the decimals of its
//! currency. The exact lines add up to the exact total, which is rounded once; the rounded lines need
//! not add up to it.
//!
//! Calls that are not billed stand apart, with what they would have cost.

use crate::money::{Money, Sums};
use crate::price_list::Rule;
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
    /// Calls that are not billed: weir itself has rejected or failed them.
    #[serde(default)]
    pub unbilled: Unbilled,
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
    /// Costs, rounded to the decimals of the currency, half away from zero.
    #[serde(default)]
    pub rounded: String,
    /// The plan bills gateway errors, at the end of the period: they are among the calls.
    #[serde(default)]
    pub gateway_errors: bool,
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
    /// Costs, rounded to the decimals of the currency, half away from zero.
    #[serde(default)]
    pub rounded: String,
}

/// Calls that are not billed, and what they would have cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unbilled {
    /// Calls by operation and status.
    pub lines: Vec<UnbilledLine>,
    /// What the tiers of each plan would have added for them.
    pub tiers: Vec<UnbilledTiers>,
    /// Sums by currency.
    pub totals: Vec<Money>,
}

/// Calls of an operation with a plan that weir itself has rejected or failed with a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnbilledLine {
    /// The plan.
    pub plan: String,
    /// The API.
    pub api: String,
    /// The operation.
    pub operation: String,
    /// Status of the response of weir: 429, or 500 and above.
    pub status: u16,
    /// Calls.
    pub calls: u64,
    /// Code of the currency (ISO 4217).
    pub currency: String,
    /// What the calls would have cost, without tiers: a decimal with all digits.
    #[schema(value_type = String)]
    pub amount: Amount,
    /// The same, rounded.
    pub rounded: String,
}

/// What the tiers of a plan would have added for calls that are not billed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnbilledTiers {
    /// The plan.
    pub plan: String,
    /// Calls of the plan that are not billed.
    pub calls: u64,
    /// Code of the currency (ISO 4217).
    pub currency: String,
    /// The difference that they would have made: a decimal with all digits.
    #[schema(value_type = String)]
    pub amount: Amount,
    /// The same, rounded.
    pub rounded: String,
}

/// The total in a currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Total {
    /// Code of the currency.
    pub currency: String,
    /// Sum of all lines, with all digits.
    #[schema(value_type = String)]
    pub exact: Amount,
    /// Amount due: the exact sum, rounded once, half away from zero.
    pub due: String,
}

/// The invoice of a consumer, from lines without a currency, each with the status for which its calls are
/// not billed or 0, and the prices of their plans; without its period. Calls of plans without a price are
/// omitted.
pub(super) fn invoice(
    consumer: &str,
    counted: Vec<(u16, Line)>,
    rules: &BTreeMap<String, Rule>,
) -> Invoice {
    let counted: Vec<(u16, Line, &Rule)> = counted
        .into_iter()
        .filter_map(|(status, line)| rules.get(&line.plan).map(|rule| (status, line, rule)))
        .collect();
    // Plans of one currency may differ; all amounts of an invoice are shown alike.
    let mut decimals: BTreeMap<&str, u32> = BTreeMap::new();
    for (.., rule) in &counted {
        let most = decimals.entry(&rule.currency).or_default();
        *most = rule.decimals.max(*most);
    }
    let round = |rule: &Rule, amount: Amount| {
        amount.fixed(decimals.get(rule.currency.as_str()).copied().unwrap_or_default())
    };
    let mut invoice = Invoice { consumer: consumer.to_owned(), ..Invoice::default() };
    // Billed calls and others, by plan.
    let mut calls: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (status, line, rule) in counted {
        let (billed, unbilled) = calls.entry(line.plan.clone()).or_default();
        let (currency, rounded) = (rule.currency.clone(), round(rule, line.amount));
        if status == 0 {
            *billed += line.calls;
            let gateway_errors = rule.bill_gateway_errors;
            invoice.lines.push(Line { currency, rounded, gateway_errors, ..line });
            continue;
        }
        *unbilled += line.calls;
        let Line { plan, api, operation, calls, amount, .. } = line;
        let line = UnbilledLine { plan, api, operation, status, calls, currency, amount, rounded };
        invoice.unbilled.lines.push(line);
    }
    for (plan, (billed, unbilled)) in calls {
        let rule = &rules[&plan];
        let of_tiers = |calls| tier_lines(&plan, rule, calls, |amount| round(rule, amount));
        let tiers = of_tiers(billed);
        if unbilled > 0 && !rule.tiers.is_empty() {
            let sum = |tiers: &[TierLine]| tiers.iter().map(|tier| tier.amount).sum::<Amount>();
            let amount = sum(&of_tiers(billed.saturating_add(unbilled))).minus(sum(&tiers));
            invoice.unbilled.tiers.push(UnbilledTiers {
                plan: plan.clone(),
                calls: unbilled,
                currency: rule.currency.clone(),
                amount,
                rounded: round(rule, amount),
            });
        }
        invoice.tiers.extend(tiers);
    }
    let decimals = decimals.into_iter().map(|(name, most)| (name.to_owned(), most)).collect();
    with_totals(invoice, &decimals)
}

fn tier_lines(
    plan: &str,
    rule: &Rule,
    calls: u64,
    round: impl Fn(Amount) -> String,
) -> Vec<TierLine> {
    let line = |(tier, first, last): (Tier, u64, u64)| {
        let amount = tier.per_call.times(last - first + 1);
        TierLine {
            plan: plan.to_owned(),
            first,
            last,
            per_call: tier.per_call,
            currency: rule.currency.clone(),
            amount,
            rounded: round(amount),
        }
    };
    reached_tiers(&rule.tiers, calls).into_iter().map(line).collect()
}

/// Adds up the exact lines, also to nothing where no call of a currency is billed.
fn with_totals(invoice: Invoice, decimals: &BTreeMap<String, u32>) -> Invoice {
    let mut due = Sums::default();
    decimals.iter().for_each(|(currency, most)| due.add(currency, Amount::ZERO, *most));
    let lines = invoice.lines.iter().map(|line| (&line.currency, line.amount));
    let tiers = invoice.tiers.iter().map(|tier| (&tier.currency, tier.amount));
    lines.chain(tiers).for_each(|(currency, amount)| due.add(currency, amount, 0));
    let mut unbilled = Sums::default();
    let lines = invoice.unbilled.lines.iter().map(|line| (&line.currency, line.amount));
    let tiers = invoice.unbilled.tiers.iter().map(|tier| (&tier.currency, tier.amount));
    for (currency, amount) in lines.chain(tiers) {
        unbilled.add(currency, amount, decimals.get(currency).copied().unwrap_or_default());
    }
    let total = |Money { currency, exact, rounded }| Total { currency, exact, due: rounded };
    Invoice {
        totals: due.rounded().into_iter().map(total).collect(),
        unbilled: Unbilled { totals: unbilled.rounded(), ..invoice.unbilled },
        ..invoice
    }
}

/// The totals of all invoices by currency. Each invoice is paid by itself: what is due is the sum of their
/// rounded amounts.
#[must_use]
pub fn totals(invoices: &[Invoice]) -> Vec<Total> {
    let (mut exact, mut due) = (Sums::default(), Sums::default());
    for Total { currency, exact: amount, due: rounded } in invoices.iter().flat_map(|i| &i.totals) {
        let decimals = rounded.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32);
        exact.add(currency, *amount, decimals);
        due.add(currency, rounded.parse().unwrap_or_default(), decimals);
    }
    let total = |(exact, due): (Money, Money)| Total {
        currency: exact.currency,
        exact: exact.exact,
        due: due.rounded,
    };
    exact.rounded().into_iter().zip(due.rounded()).map(total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().expect(text)
    }

    fn line(plan: &str, operation: &str, calls: u64, text: &str) -> (u16, Line) {
        unbilled(0, plan, operation, calls, text)
    }

    fn unbilled(status: u16, plan: &str, operation: &str, calls: u64, text: &str) -> (u16, Line) {
        let line = Line {
            plan: plan.to_owned(),
            api: "orders".to_owned(),
            operation: operation.to_owned(),
            calls,
            bytes: 10,
            amount: amount(text),
            ..Line::default()
        };
        (status, line)
    }

    fn rule(currency: &str, decimals: u32, tiers: Vec<Tier>) -> Rule {
        Rule { currency: currency.to_owned(), decimals, tiers, bill_gateway_errors: false }
    }

    #[test]
    fn a_total_is_rounded_once() {
        let rules = BTreeMap::from([("gold".to_owned(), rule("EUR", 2, vec![]))]);
        let lines = (0..3).map(|n| line("gold", &n.to_string(), 1, "0.005")).collect();
        let invoice = invoice("acme", lines, &rules);
        let [total] = &invoice.totals[..] else { panic!("{invoice:?}") };
        assert_eq!((total.exact, total.due.as_str()), (amount("0.015"), "0.02"));
        assert_eq!(invoice.lines[0].currency, "EUR");
        assert!(
            invoice.lines.iter().all(|line| line.rounded == "0.01"),
            "each is rounded by itself"
        );
    }

    #[test]
    fn what_is_not_billed_stands_apart_and_fills_no_tier() {
        let tiers = vec![
            Tier { up_to: Some(10), per_call: amount("1") },
            Tier { up_to: None, per_call: amount("0.25") },
        ];
        let rules = BTreeMap::from([
            ("gold".to_owned(), rule("EUR", 2, tiers)),
            ("pro".to_owned(), rule("JPY", 0, vec![])),
        ]);
        let counted = vec![
            line("gold", "a", 8, "0.08"),
            unbilled(429, "gold", "a", 3, "0.03"),
            unbilled(503, "gold", "b", 1, "0.015"),
            unbilled(502, "pro", "a", 2, "0.5"),
        ];
        let invoice = invoice("acme", counted, &rules);
        assert_eq!(invoice.lines.len(), 1);
        assert_eq!(invoice.tiers.iter().map(|tier| tier.last).collect::<Vec<_>>(), [8]);
        let totals: Vec<_> =
            invoice.totals.iter().map(|t| (t.currency.as_str(), t.due.as_str())).collect();
        assert_eq!(totals, [("EUR", "8.08"), ("JPY", "0")], "nothing is due in yen");
        let Unbilled { lines, tiers, totals } = &invoice.unbilled;
        let lines: Vec<_> = lines.iter().map(|l| (l.status, l.calls, l.rounded.as_str())).collect();
        assert_eq!(lines, [(429, 3, "0.03"), (503, 1, "0.02"), (502, 2, "1")]);
        let [tier] = &tiers[..] else { panic!("{tiers:?}") };
        assert_eq!((tier.calls, tier.amount), (4, amount("2.5")), "two in each tier");
        let totals: Vec<_> = totals.iter().map(|t| (t.exact, t.rounded.as_str())).collect();
        assert_eq!(totals, [(amount("2.545"), "2.55"), (amount("0.5"), "1")]);
    }

    #[test]
    fn all_invoices_owe_the_sum_of_what_each_owes() {
        let rules = BTreeMap::from([("gold".to_owned(), rule("EUR", 2, vec![]))]);
        let one = |name| invoice(name, vec![line("gold", "a", 1, "0.004")], &rules);
        let all = totals(&[one("acme"), one("globex"), one("initech")]);
        let [total] = &all[..] else { panic!("{all:?}") };
        assert_eq!((total.exact, total.due.as_str()), (amount("0.012"), "0.00"));
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
