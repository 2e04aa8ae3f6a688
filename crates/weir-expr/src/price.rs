//! Prices of calls.
//!
//! The part of the price that depends on the call alone (`per_call`, `per_kib`, `cel`) is computed
//! when the call is counted, with the price valid at that time. Tiers depend on the number of calls
//! of a consumer in the period of an invoice, so they are computed with the invoice.

use crate::expr::{CallFacts, Expr, Scope};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_model::Amount;

/// Maximum decimals of a configured price, so that a price per KiB is exact for a byte.
pub const PRICE_DECIMALS: u32 = 8;

/// The price of a plan.
#[derive(Clone, Debug)]
pub struct Price {
    /// Price per call.
    pub per_call: Amount,
    /// Price per KiB of request and response bodies; a byte costs a 1024th.
    pub per_kib: Amount,
    /// Expression for the price of a call: a number, or a decimal as text (`call` is in scope).
    pub cel: Option<Expr>,
    /// Prices per call by the number of calls in the period, ascending. The last tier has no end.
    pub tiers: Vec<Tier>,
    /// Currency code (ISO 4217).
    pub currency: String,
    /// Decimals to which a total is rounded.
    pub decimals: u32,
    /// Bill what the gateway itself rejected by a limit, or failed.
    pub bill_gateway_errors: bool,
}

/// A price tier: calls after the end of the previous tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Number of the last call of the period in this tier; `None`: no end.
    pub up_to: Option<u64>,
    /// Price per call.
    pub per_call: Amount,
}

/// The cost of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// The amount.
    pub amount: Amount,
    /// The expression had no result: its part counts as zero.
    pub unpriced: bool,
}

impl Price {
    /// The cost of a call without tiers.
    #[must_use]
    pub fn of_call(&self, call: &CallFacts) -> Charge {
        let bytes = call.request_bytes.saturating_add(call.response_bytes);
        let fixed = self.per_call.plus(self.per_kib.for_bytes(bytes));
        let Some(expr) = &self.cel else { return Charge { amount: fixed, unpriced: false } };
        let scope = Scope { call: Some(call.clone()), ..Scope::default() };
        match expr.value(&scope).as_ref().and_then(given) {
            Some(more) => Charge { amount: fixed.plus(more), unpriced: false },
            None => Charge { amount: fixed, unpriced: true },
        }
    }
}

/// The tiers that this number of calls in a period reaches, each with the numbers of its first and
/// last call.
#[must_use]
pub fn reached_tiers(tiers: &[Tier], calls: u64) -> Vec<(Tier, u64, u64)> {
    let mut before = 0;
    let mut reached = Vec::new();
    for tier in tiers {
        let last = tier.up_to.unwrap_or(u64::MAX).min(calls);
        if last > before {
            reached.push((*tier, before + 1, last));
            before = last;
        }
    }
    reached
}

/// The result of an expression as a price, rounded to 8 decimals, half away from zero: further
/// digits of a sum of doubles are artefacts. `None` if the result is not a number, or negative.
fn given(value: &Value) -> Option<Amount> {
    let amount = match value {
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) if number.is_f64() => from_double(number.as_f64()?)?,
        Value::Number(whole) => whole.to_string().parse().ok()?,
        _ => return None,
    };
    (amount >= Amount::ZERO).then(|| amount.rounded(PRICE_DECIMALS))
}

/// From the shortest decimal representation of the double, truncated to 18 decimals.
fn from_double(double: f64) -> Option<Amount> {
    let text = double.to_string();
    let end = text.find('.').map_or(text.len(), |point| text.len().min(point + 19));
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().expect(text)
    }

    fn price(cel: Option<&str>) -> Price {
        Price {
            per_call: amount("0.5"),
            per_kib: amount("1"),
            cel: cel.map(|text| Expr::compile(text, &["call"]).expect(text)),
            tiers: Vec::new(),
            currency: "EUR".to_owned(),
            decimals: 2,
            bill_gateway_errors: false,
        }
    }

    fn call() -> CallFacts {
        CallFacts {
            api: "orders".to_owned(),
            operation: "GET /x".to_owned(),
            consumer: "acme".to_owned(),
            status: 201,
            request_bytes: 1000,
            response_bytes: 24,
            duration_ms: 70,
        }
    }

    fn charged(cel: &str) -> Option<String> {
        let charge = price(Some(cel)).of_call(&call());
        let more = Amount::from_units(charge.amount.units() - amount("1.5").units());
        (!charge.unpriced).then(|| more.to_string())
    }

    #[test]
    fn parts_add_up() {
        let charge = price(None).of_call(&call());
        assert_eq!(charge, Charge { amount: amount("1.5"), unpriced: false });
    }

    #[test]
    fn an_expression_gives_a_number_or_a_decimal() {
        for (cel, gives) in [
            ("1", Some("1")),
            ("2u", Some("2")),
            ("0.1 + 0.2", Some("0.3")),
            ("0.000000005", Some("0.00000001")),
            ("'0.0004'", Some("0.0004")),
            ("call.status == 201 ? 3 : 4", Some("3")),
            ("call.operation == 'GET /x' && call.api == 'orders' ? '0.7' : '0'", Some("0.7")),
            ("double(call.request_bytes) / 1000.0 * 0.25", Some("0.25")),
            ("call.request_bytes + call.response_bytes + call.duration_ms", Some("1094")),
            ("call.consumer == 'acme' ? 0 : 1", Some("0")),
            ("-1", None),
            ("'x'", None),
            ("1 / 0", None),
            ("1.0 / 0.0", None),
            ("true", None),
            ("null", None),
            ("call.status > 1 ? 1e300 : 0.0", None),
        ] {
            assert_eq!(charged(cel).as_deref(), gives, "{cel}");
        }
    }

    #[test]
    fn calls_fill_the_tiers_one_after_the_other() {
        let tier = |up_to, text| Tier { up_to, per_call: amount(text) };
        let tiers = vec![tier(Some(100), "0.01"), tier(Some(1000), "0.005"), tier(None, "0.001")];
        let parts = |calls| -> Vec<(u64, u64)> {
            let reached = reached_tiers(&tiers, calls).into_iter();
            reached.map(|(_, first, last)| (first, last)).collect()
        };
        assert_eq!(parts(0), []);
        assert_eq!(parts(100), [(1, 100)]);
        assert_eq!(parts(101), [(1, 100), (101, 101)]);
        assert_eq!(parts(u64::MAX), [(1, 100), (101, 1000), (1001, u64::MAX)]);
    }
}
