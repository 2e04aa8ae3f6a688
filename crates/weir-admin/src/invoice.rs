//! Invoices in the admin API.
//!
//! Amounts are decimals as text: JSON numbers would lose digits.

mod csv;
mod html;

use crate::failure::Door;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use csv::csv;
pub use html::html;

/// Access to invoices.
pub struct Billing {
    /// Invoices of a period.
    pub invoices: Door<Wanted, Vec<Invoice>, InvoiceFailure>,
}

/// Filter of invoices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Consumer; `None`: all.
    pub consumer: Option<String>,
    /// Month (`2026-11`), year or day.
    pub period: String,
    /// Time zone of the period.
    pub zone: String,
}

/// Why there are no invoices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvoiceFailure {
    /// The period is invalid, or cannot be billed as a whole.
    #[error("{0}")]
    Wanted(String),
    /// Metering data cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

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
    pub from: String,
    /// End of the period, exclusive.
    pub to: String,
    /// The period has not ended, or some of its calls are not metered yet.
    pub provisional: bool,
    /// Calls of all consumers in the period that could not be metered and are in no invoice.
    #[serde(default)]
    pub uncounted: u64,
    /// Exact costs of calls by operation.
    pub lines: Vec<Line>,
    /// Exact costs of calls by tier.
    pub tiers: Vec<Tier>,
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
    pub amount: String,
}

/// Calls of a plan in a tier of its prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tier {
    /// The plan.
    pub plan: String,
    /// Number of the first call of the tier in the period, from 1.
    pub first: u64,
    /// Number of the last call.
    pub last: u64,
    /// Price per call.
    pub per_call: String,
    /// Code of the currency.
    pub currency: String,
    /// Costs: a decimal with all digits.
    pub amount: String,
}

/// The total in a currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Total {
    /// Code of the currency.
    pub currency: String,
    /// Sum of all lines, with all digits.
    pub exact: String,
    /// Amount due: rounded once, half up.
    pub due: String,
}
