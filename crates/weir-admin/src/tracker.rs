//! Recorded transactions in the admin API.
//!
//! This crate reads neither journal nor index: the binary provides a [`Tracker`], whose functions
//! may block and are called on threads that allow it. The commands show the same structs, from a
//! server or from a data folder.

mod counts;
mod journal;
mod transaction;

use crate::failure::{Door, Failure, SearchFailure};
use crate::gap::Missing;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

pub use counts::{Bucket, Counted, Counts, Facet};
pub use journal::{Damage, JournalState, Lag, MissingFile, Recovery, Verified};
pub use transaction::{Body, BodyMetadata, Change, Field, Payload, Stage, Summary, Transaction};

/// Maximum number of transactions of a page and of a batch of a tail.
pub const LONGEST_PAGE: usize = 1000;

/// Default timeout of a search.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest timeout of a search.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Access to recorded transactions.
pub struct Tracker {
    /// The state of the journal.
    pub journal: Door<(), JournalState, Failure>,
    /// The transaction with an id, with its payload if permitted; `None` if it is not stored.
    pub show: Door<(u128, bool), Option<Transaction>, Failure>,
    /// A page of the result of a query.
    pub search: Door<Search, Page, SearchFailure>,
    /// The recorded bytes of a body; `None` if the transaction is not stored.
    pub body: Door<(u128, Side), Option<Vec<u8>>, Failure>,
    /// Counts of a query, optionally with facets of business keys.
    pub count: Door<(Search, bool), Counts, SearchFailure>,
    /// The result of a query, up to the limit.
    pub export: Door<Search, Export, SearchFailure>,
    /// Follows newly completed transactions.
    pub tail: Box<dyn Fn() -> Result<Tail, Failure> + Send + Sync>,
    /// Verifies the journal.
    pub verify: Box<dyn Fn() -> Verify + Send + Sync>,
}

/// Direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// Returns the transactions completed since the last call, oldest first, at most [`LONGEST_PAGE`];
/// the rest comes with the next call. It may block.
pub type Tail = Box<dyn FnMut() -> Result<Vec<Summary>, Failure> + Send>;

/// Returns more of an export; `None` at the end. It may block.
pub type Export = Box<dyn FnMut() -> Result<Option<Exporting>, Failure> + Send>;

/// Returns more of the verification; `None` at the end. It may block.
pub type Verify = Box<dyn FnMut() -> Result<Option<Vec<Verified>>, Failure> + Send>;

/// A part of an export. A transaction is built only when it is needed: its decoded bodies may be
/// much larger than the recorded ones.
#[derive(Clone, Debug)]
pub enum Exporting {
    /// The next transaction.
    Found(Box<Transaction>),
    /// None yet: a search took its time.
    Later,
    /// The end.
    End(Exported),
}

/// The last line of an export.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExportEnd {
    /// Result of the export.
    pub end: Exported,
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exported {
    /// Number of transactions.
    pub transactions: u64,
    /// There are more than the limit.
    pub cut: bool,
    /// The cursor to continue with, if the limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// As in [`Page`].
    pub incomplete: bool,
    /// As in [`Page`].
    #[serde(default, skip_serializing_if = "Missing::is_empty")]
    pub missing: Missing,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The query.
    pub query: String,
    /// Maximum number of transactions, 1 to [`LONGEST_PAGE`].
    pub limit: usize,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
    /// Whether the query may search payloads.
    pub payload: bool,
    /// The timeout.
    pub timeout: Duration,
}

/// A page of the result of a query, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// The transactions.
    pub transactions: Vec<Hit>,
    /// The cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The timeout of the search was reached: continue with the cursor.
    pub cut: bool,
    /// Transactions may be missing: the timeout was reached, parts of the index are being rebuilt,
    /// the index lag is too large to read the rest from the journal, or the query contains a
    /// business key that a part of the index was built without.
    pub incomplete: bool,
    /// The query searched payloads.
    pub payload: bool,
    /// Gaps of the period of the query, independent of its other conditions.
    #[serde(default)]
    pub missing: Missing,
}

/// A transaction of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// The summary.
    #[serde(flatten)]
    pub summary: Summary,
    /// The transaction cannot be read: its file is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
    /// The transaction is missing: its file was deleted, but not by weir.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Matches of the words of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlights: Vec<Highlight>,
}

/// A match of words of the query. It is untrusted data: escape it before it is displayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Highlight {
    /// `target`, `request.header`, `response.header`, `request.body`, `response.body`, `key`,
    /// `property` or `log`.
    pub place: String,
    /// The surrounding text.
    pub text: String,
    /// Positions of the words in the text: pairs of start and end (exclusive) in bytes.
    pub marks: Vec<[usize; 2]>,
}
