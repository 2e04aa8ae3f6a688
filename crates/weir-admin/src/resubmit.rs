//! Resubmission in the admin API, injected like [`crate::tracker`].

use crate::failure::{Door, Failure, SearchFailure};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Access to resubmission.
pub struct Resubmission {
    /// Resubmits a transaction: id, edits, name of the token.
    pub resubmit: Door<(u128, Wish, String), Attempt, Refusal>,
    /// Sets the resolution of a transaction.
    pub resolve: Door<(u128, Resolve, String), (), Refusal>,
    /// Creates a job.
    pub make: Door<(NewJob, String), Job, SearchFailure>,
    /// The last jobs, at most the given number, newest first.
    pub jobs: Door<usize, Vec<Job>, Failure>,
    /// A job by number.
    pub job: Door<i64, Option<Job>, Failure>,
    /// Runs, pauses or cancels a job.
    pub act: Door<(i64, JobAction, RunJob), Option<Acted>, Failure>,
}

/// Why a transaction was not resubmitted or resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such transaction.
    NotFound,
    /// The request is invalid; the text says why.
    Bad(String),
    /// The transaction is rejected: code and text.
    Cannot(String, String),
    /// Too many concurrent requests.
    Busy,
    /// Data cannot be read or written.
    Failed(Failure),
}

/// Edits and options of a resubmission. An empty object: unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wish {
    /// Replaces the recorded query, without question mark; empty: no query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Headers to set and to remove; no credentials and no headers that weir sets.
    pub headers: HeaderWish,
    /// Replaces the recorded body; complete and not encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The same in base64, for a body that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Send to another route of the API: the operation, one of `resubmit.targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Send even if the transaction is settled or the last attempt is `unknown`.
    pub again: bool,
}

/// Header edits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderWish {
    /// Headers to set.
    pub set: Vec<HeaderLine>,
    /// Names of headers to remove.
    pub remove: Vec<String>,
}

/// A header line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderLine {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A resubmission of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Transaction id of the attempt.
    pub id: String,
    /// The resubmitted transaction.
    pub original: String,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// `sending`, `succeeded`, `failed`, `refused` or `unknown`: weir ended before the attempt did,
    /// so it may have been sent.
    pub state: String,
    /// Status of the response, 0 without a response.
    pub status: u16,
    /// Rejection reason, or code of the problem that weir returned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the rejection reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Name of the token.
    pub who: String,
    /// Number of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<i64>,
    /// Operation of the other route, if it was sent there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Description of the edits, for the role `payload-viewer`; the values are in both records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub difference: Option<serde_json::Value>,
    /// Start (RFC 3339, UTC).
    pub began: String,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The resolution of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// `resolved`, `dismissed`, or `open` again.
    pub state: String,
    /// Comment.
    #[serde(default)]
    pub comment: String,
}

/// A job to be created, initially as a preview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewJob {
    /// Query for the transactions.
    pub query: String,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Send to another route of their API: the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Include transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Run after the preview.
    pub run: bool,
}

/// Action on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Start or resume.
    Run,
    /// Pause.
    Pause,
    /// Cancel.
    Cancel,
}

/// A job after an action, and whether the action was possible.
pub type Acted = (Job, bool);

/// Options of running a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunJob {
    /// New rate in requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Include transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
}

/// Default rate of a job, in requests per second.
pub const RATE: f64 = 10.0;

/// A job: bulk resubmission of the result of a query at a given rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Number.
    pub number: i64,
    /// Query.
    pub query: String,
    /// `previewing`, `previewed`, `running`, `paused`, `cancelled` or `finished`.
    pub state: String,
    /// Requests per second.
    pub rate: f64,
    /// Operation of the other route, if it sends there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Includes transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Runs after the preview.
    pub run: bool,
    /// Name of the token.
    pub who: String,
    /// Transactions may be missing: the index was not complete, or there are too many.
    pub incomplete: bool,
    /// Numbers of transactions by state and reason.
    pub transactions: Vec<JobCount>,
    /// Created (RFC 3339, UTC).
    pub created: String,
    /// Start of sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// End of sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Number of transactions of a job with the same state and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCount {
    /// `pending`, `cannot` (rejected), `sending`, `succeeded`, `failed`, `refused`, `unknown` or
    /// `cancelled`.
    pub state: String,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Number of transactions.
    pub count: u64,
}
