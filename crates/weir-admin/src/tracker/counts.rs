//! Counts of transactions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Number of transactions of a query, facets and histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Number of transactions.
    pub matched: u64,
    /// Facets.
    pub facets: Vec<Facet>,
    /// Width of a histogram bucket in milliseconds.
    pub bucket_ms: u64,
    /// Histogram, oldest first; empty buckets are omitted.
    pub histogram: Vec<Bucket>,
    /// The timeout was reached: only the newest transactions were counted.
    pub cut: bool,
    /// As in [`super::Page`].
    pub incomplete: bool,
    /// The query searched payloads, or business keys were requested.
    pub payload: bool,
}

/// The values of a field, most frequent first, at most 20.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Facet {
    /// `status` (by class: `5xx`), `state`, `api`, `operation`, `method`, `consumer`, `receiver`,
    /// or `key.NAME`.
    pub field: String,
    /// Values.
    pub values: Vec<Counted>,
    /// There are more values.
    pub more: bool,
}

/// A value with its number of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Value.
    pub value: String,
    /// Number of transactions.
    pub count: u64,
}

/// A bucket of the histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Start (RFC 3339, UTC).
    pub time: String,
    /// Transactions received in it.
    pub count: u64,
}
