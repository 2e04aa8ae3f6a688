//! Amounts of a currency, exact and rounded.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use weir_model::Amount;

/// An amount of a currency.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct Money {
    /// Code of the currency (ISO 4217).
    pub currency: String,
    /// A decimal with all digits.
    #[schema(value_type = String)]
    pub exact: Amount,
    /// The exact amount, rounded to the decimals of the currency, half away from zero.
    pub rounded: String,
}

/// Exact sums by currency, each rounded once at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<String, (Amount, u32)>);

impl Sums {
    /// Adds an amount of a currency, which is rounded to the most decimals that anything asks for.
    pub(crate) fn add(&mut self, currency: &str, amount: Amount, decimals: u32) {
        let (sum, most) = match self.0.get_mut(currency) {
            Some(sum) => sum,
            None => self.0.entry(currency.to_owned()).or_default(),
        };
        *sum = sum.plus(amount);
        *most = decimals.max(*most);
    }

    /// The sums, by currency.
    pub(crate) fn rounded(self) -> Vec<Money> {
        let sum = |(currency, (exact, decimals)): (String, (Amount, u32))| Money {
            currency,
            exact,
            rounded: exact.fixed(decimals),
        };
        self.0.into_iter().map(sum).collect()
    }
}
