//! How many transactions there are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many transactions a query finds, and how they are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Transactions.
    pub matched: u64,
    /// Values of fields.
    pub facets: Vec<Facet>,
    /// Milliseconds of a bucket of the histogram.
    pub bucket_ms: u64,
    /// Transactions over time, oldest first; empty buckets are left out.
    pub histogram: Vec<Bucket>,
    /// The time ran out: only the newest were counted.
    pub cut: bool,
    /// As of a [`super::Page`].
    pub incomplete: bool,
    /// It was asked for payloads, or business keys.
    pub payload: bool,
}

/// The values of a field, the most frequent first, at most 20.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Facet {
    /// `status` (by class: `5xx`), `state`, `api`, `operation`, `method`, `consumer`, `receiver`,
    /// or `key.NAME`.
    pub field: String,
    /// Its values.
    pub values: Vec<Counted>,
    /// There are more values.
    pub more: bool,
}

/// A value and how many transactions have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// The value.
    pub value: String,
    /// Transactions.
    pub count: u64,
}

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// When it begins (RFC 3339, UTC).
    pub time: String,
    /// Transactions that were received in it.
    pub count: u64,
}
