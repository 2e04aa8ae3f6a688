//! What the admin API tells of invoices, and whom it asks.
//!
//! Amounts are decimals as text: no number format of JSON keeps them.

mod csv;
mod html;

use crate::tracker::Door;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use csv::csv;
pub use html::html;

/// The doors to what was billed.
pub struct Billing {
    /// Invoices of a period.
    pub invoices: Door<Wanted, Vec<Invoice>, InvoiceFailure>,
}

/// Which invoices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of this consumer, or of all.
    pub consumer: Option<String>,
    /// A month (`2026-11`), a year or a day.
    pub period: String,
    /// In which zone that is.
    pub zone: String,
}

/// Why there are no invoices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvoiceFailure {
    /// What was asked for is no period, or cannot be billed as a whole.
    #[error("{0}")]
    Wanted(String),
    /// Counts cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// What a consumer has to pay for a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invoice {
    /// The consumer.
    pub consumer: String,
    /// The period as it was asked for.
    pub period: String,
    /// Its zone.
    pub zone: String,
    /// Its first instant (RFC 3339, UTC).
    pub from: String,
    /// The first instant after it.
    pub to: String,
    /// The period is not over, or not all of its calls have been counted.
    pub provisional: bool,
    /// Calls of the period, of whomever, that could not be counted and are in no invoice.
    #[serde(default)]
    pub uncounted: u64,
    /// What calls cost by themselves, exactly.
    pub lines: Vec<Line>,
    /// What calls cost by their number in the period, exactly.
    pub tiers: Vec<Tier>,
    /// Sums, by currency.
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
    /// What they cost: a decimal with all its digits.
    pub amount: String,
}

/// Calls of a plan that fall into a tier of its prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tier {
    /// The plan.
    pub plan: String,
    /// Number of the first of these calls in the period, from 1.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// The price of each.
    pub per_call: String,
    /// Code of the currency.
    pub currency: String,
    /// What they cost: a decimal with all its digits.
    pub amount: String,
}

/// The sum in a currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Total {
    /// Code of the currency.
    pub currency: String,
    /// The sum of all lines, with all its digits.
    pub exact: String,
    /// What is to be paid: rounded once, a half upwards.
    pub due: String,
}
