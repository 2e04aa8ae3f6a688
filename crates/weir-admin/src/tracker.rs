//! What the admin API tells of recorded transactions, and whom it asks.
//!
//! This crate reads neither journal nor index: whoever puts the program together hands in a
//! [`Tracker`], whose doors may block, and are called on threads where that is allowed. The
//! commands show the same structs, whether they come from a server or from a folder.

mod counts;
mod journal;
mod transaction;

use crate::gap::Missing;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

pub use counts::{Bucket, Counted, Counts, Facet};
pub use journal::{Damage, JournalState, Lag, MissingFile, Recovery, Verified};
pub use transaction::{Body, BodyMetadata, Change, Field, Payload, Stage, Summary, Transaction};

/// Most transactions of a page, and most that a tail gives at once.
pub const LONGEST_PAGE: usize = 1000;

/// How long a search may take if nobody says it.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a search may take at most.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why something cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Files cannot be read; the text says which and why.
    #[error("{0}")]
    Unreadable(String),
    /// There is no index.
    #[error("nothing is indexed: `tracker.index` is none")]
    NotIndexed,
    /// The index has not come to what is asked for, or is being made again.
    #[error("the index is behind, so it cannot be said whether there is such a transaction")]
    Behind,
}

/// The doors to what was recorded.
pub struct Tracker {
    /// The state of the journal.
    pub journal: Door<(), JournalState, Failure>,
    /// The transaction with an id, with its payload if that may be seen; none if it is not kept.
    pub show: Door<(u128, bool), Option<Transaction>, Failure>,
    /// A page of what a query finds.
    pub search: Door<Search, Page, SearchFailure>,
    /// The recorded bytes of a body; none if the transaction is not kept.
    pub body: Door<(u128, Side), Option<Vec<u8>>, Failure>,
    /// How many a query finds, and whether to count business keys, too.
    pub count: Door<(Search, bool), Counts, SearchFailure>,
    /// All that a query finds, as far as the limit.
    pub export: Door<Search, Export, SearchFailure>,
    /// Follows what is recorded from now on.
    pub tail: Box<dyn Fn() -> Result<Tail, Failure> + Send + Sync>,
    /// Reads the whole journal.
    pub verify: Box<dyn Fn() -> Verify + Send + Sync>,
}

/// Which half of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// Asks for something, and may block meanwhile.
pub type Door<Q, A, E> = Box<dyn Fn(&Q) -> Result<A, E> + Send + Sync>;

/// Gives what was recorded since it was last asked, oldest first, at most [`LONGEST_PAGE`]; what
/// is left comes the next time. It may block.
pub type Tail = Box<dyn FnMut() -> Result<Vec<Summary>, Failure> + Send>;

/// Gives more of an export; none when it has ended. It may block.
pub type Export = Box<dyn FnMut() -> Result<Option<Exporting>, Failure> + Send>;

/// Gives more of what was found in the journal; none when all of it was read. It may block.
pub type Verify = Box<dyn FnMut() -> Result<Option<Vec<Verified>>, Failure> + Send>;

/// A part of an export. A transaction is made only when it is asked for: its bodies may be much
/// larger decoded than they were recorded.
#[derive(Clone, Debug)]
pub enum Exporting {
    /// The next transaction.
    Found(Box<Transaction>),
    /// None for now: there was a search, which took its time.
    Later,
    /// There is nothing more.
    End(Exported),
}

/// The last line of an export.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExportEnd {
    /// What was exported.
    pub end: Exported,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exported {
    /// Transactions.
    pub transactions: u64,
    /// There are more than the limit allowed.
    pub cut: bool,
    /// Where to go on, if it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// As of a [`Page`].
    pub incomplete: bool,
    /// As of a [`Page`].
    #[serde(default, skip_serializing_if = "Missing::is_empty")]
    pub missing: Missing,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Search {
    /// In the query language.
    pub query: String,
    /// Most transactions, 1 to [`LONGEST_PAGE`].
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Whether the query may ask for payloads.
    pub payload: bool,
    /// How long it may take.
    pub timeout: Duration,
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchFailure {
    /// The query is wrong.
    Query {
        /// First byte that is wrong, and the last but one.
        place: [usize; 2],
        /// What is wrong there, and what would be right.
        message: String,
    },
    /// The cursor is none.
    Cursor,
    /// The query asks for payloads, and must not.
    NeedsPayload,
    /// Something could not be read.
    Failed(Failure),
}

/// A page of what a query found, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// The transactions.
    pub transactions: Vec<Hit>,
    /// The cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The time for one search ran out: ask on with the cursor.
    pub cut: bool,
    /// Transactions may be missing: the time ran out, parts of the index are being made again, it
    /// is too far behind for the rest of the journal to be read in its place, or a part of it was
    /// made without knowing what is a business key, and the query asks for one.
    pub incomplete: bool,
    /// The query asked for payloads.
    pub payload: bool,
    /// What is missing of the time that the query is about, whatever else it asks for.
    #[serde(default)]
    pub missing: Missing,
}

/// A transaction that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// What happened.
    #[serde(flatten)]
    pub summary: Summary,
    /// The journal cannot read it: its file is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
    /// The journal does not have it: its file is gone, and weir did not drop it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Where the words of the query stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlights: Vec<Highlight>,
}

/// A place where words of a query stand. It is data from outside: escape it before showing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Highlight {
    /// `target`, `request.header`, `response.header`, `request.body`, `response.body`, `key`,
    /// `property` or `log`.
    pub place: String,
    /// The text around them.
    pub text: String,
    /// Where in the text they stand: pairs of first and last but one byte.
    pub marks: Vec<[usize; 2]>,
}
