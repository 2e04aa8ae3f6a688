//! What the admin API tells of recorded transactions, and whom it asks.
//!
//! This crate reads neither journal nor index: whoever puts the program together hands in a
//! [`Tracker`], whose doors may block, and are called on threads where that is allowed. The
//! commands show the same structs, whether they come from a server or from a folder.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// Most transactions of a page, and most that a tail gives at once.
pub const LONGEST_PAGE: usize = 1000;

/// How long a search may take if nobody says it.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a search may take at most.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Something could not be read; the text says what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The doors to what was recorded.
pub struct Tracker {
    /// The state of the journal.
    pub journal: Door<(), JournalState, Failure>,
    /// The transaction with an id, whole; none if it is not kept.
    pub show: Door<u128, Option<Transaction>, Failure>,
    /// A page of what a query finds.
    pub search: Door<Search, Page, SearchFailure>,
    /// The recorded bytes of a body; none if the transaction is not kept.
    pub body: Door<(u128, Side), Option<Vec<u8>>, Failure>,
    /// How many a query finds, and whether to count business keys, too.
    pub count: Door<(Search, bool), Counts, SearchFailure>,
    /// All that a query finds, as far as the limit.
    pub export: Door<Search, Export, SearchFailure>,
    /// Follows what is recorded from now on.
    pub tail: Box<dyn Fn() -> Tail + Send + Sync>,
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

/// A part of an export.
#[derive(Clone, Debug)]
pub enum Exporting {
    /// Some transactions, or none for now.
    Found(Vec<Transaction>),
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
}

/// What was found in a part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// `lane/N`, `damage/LANE/SEGMENT/OFFSET` of a stretch found at the start, or `end`.
    pub id: String,
    /// Transactions that were read.
    pub transactions: u64,
    /// Of them, those of which something was lost.
    pub damaged: u64,
    /// Of them, those whose headers and bodies were dropped because of their age.
    pub expired: u64,
    /// Damaged bytes.
    pub damaged_bytes: u64,
    /// All of it was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

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
    /// As of a [`Page`].
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

/// What happened to one request: everything but its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// The transaction id, a UUID.
    pub id: String,
    /// When the request was received (RFC 3339, UTC).
    pub time: String,
    /// Microseconds until the end of the answer.
    pub took_us: u64,
    /// `completed`, `failed` or `interrupted`.
    pub state: String,
    /// `open` if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resolution: String,
    /// Status of the answer, 0 if there was none.
    pub status: u16,
    /// Method of the request.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// Name of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Name of the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Transaction type: `http`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub transaction_type: String,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consumer: String,
    /// Subject of the verified credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Who sent it: the address of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
    /// Who received it: the name of the upstream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// Code of the problem that was answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

/// A whole transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transaction {
    /// What happened.
    #[serde(flatten)]
    pub summary: Summary,
    /// The states it went through, the first one first.
    pub history: Vec<Change>,
    /// Microseconds that stages took, by their names.
    pub stages: Vec<Stage>,
    /// The request's body, as far as it came.
    pub request: BodyFacts,
    /// The answer's body, as far as it came.
    pub response: BodyFacts,
    /// The journal was full: only the outcome was recorded.
    pub shortened: bool,
    /// Some of its records were lost.
    pub damaged: bool,
    /// Headers and bodies were dropped because of their age.
    pub expired: bool,
    /// Headers and bodies were kept only in case something went wrong, and nothing did.
    pub discarded: bool,
    /// What needs the role `payload-viewer` to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// A state that a transaction came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// `received`, `completed`, `failed` or `interrupted`.
    pub state: String,
    /// When (RFC 3339, UTC); not known of what was in flight when weir ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stage {
    /// `total` from the request's head to the answer's end, or a part of it.
    pub name: String,
    /// Microseconds.
    pub took_us: u64,
}

/// What is known of a body, whether it was recorded or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BodyFacts {
    /// Its true length in bytes.
    pub length: u64,
    /// Bytes that were recorded.
    pub stored: u64,
    /// Not all of it was recorded.
    pub truncated: bool,
    /// Why it was not recorded although bodies are: it could not be masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub withheld: String,
    /// Broken off before its end.
    pub aborted: bool,
    /// Keyed hash of what was not recorded of it, in hexadecimal: equal ones are of equal bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// What was said, masked as it was recorded. It is data from outside: escape it before showing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Payload {
    /// The request target, with its query.
    pub target: String,
    /// Header lines of the request.
    pub request_headers: Vec<Field>,
    /// Body of the request.
    pub request_body: Body,
    /// Header lines of the answer.
    pub response_headers: Vec<Field>,
    /// Body of the answer.
    pub response_body: Body,
    /// Business keys.
    pub keys: Vec<Field>,
    /// Properties.
    pub properties: Vec<Field>,
    /// Log lines.
    pub logs: Vec<String>,
}

/// A name with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A recorded body to be read; as it was sent it is at `/v1/transactions/{id}/request-body` and
/// `response-body`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Body {
    /// What was recorded of it, decoded, if that is UTF-8; else there is `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What was recorded of it, decoded, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The content coding that it was decoded from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decoded_from: String,
    /// The content coding that it could not be decoded from: these are the bytes as they were sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub still_in: String,
    /// There is more than is shown.
    pub cut: bool,
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
    /// Transactions may be missing: the time ran out, parts of the index are being made again, or
    /// it is too far behind for the rest of the journal to be read in its place.
    pub incomplete: bool,
    /// The query asked for payloads.
    pub payload: bool,
}

/// A transaction that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// What happened.
    #[serde(flatten)]
    pub summary: Summary,
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

/// The state of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalState {
    /// Records appended since the start.
    pub records: u64,
    /// Bytes appended since the start.
    pub bytes: u64,
    /// Records that could not be appended.
    pub refused: u64,
    /// Transactions of which only outcome and status were recorded.
    pub shortened: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Segments begun since the start.
    pub segments: u64,
    /// Segments sealed since the start.
    pub sealed: u64,
    /// Segments that wait to be sealed.
    pub unsealed: u64,
    /// Files dropped because of their age or the disk budget.
    pub dropped: u64,
    /// Bytes that the journal takes on the disk.
    pub disk_bytes: u64,
    /// What was found at the start.
    pub recovery: Recovery,
    /// What those who follow the journal have not made durable yet.
    pub followers: Vec<Lag>,
    /// Transactions in the index.
    pub indexed: u64,
    /// Transactions that are not indexed yet.
    pub index_lag_records: u64,
    /// How many seconds the index is behind.
    pub index_lag_seconds: f64,
}

/// What was found when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Segments that were read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Transactions that were in flight, and are `interrupted` now.
    pub interrupted: u64,
    /// Transactions that could not be closed because the journal is full.
    pub left_open: u64,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// A stretch of the journal that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// Where in it.
    pub offset: u32,
    /// Bytes.
    pub bytes: u64,
}

/// What somebody who follows the journal has not read yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lag {
    /// Who.
    pub name: String,
    /// Transactions.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds since the oldest of them was received.
    pub seconds: f64,
}
