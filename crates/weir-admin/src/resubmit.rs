//! What the admin API tells of resubmission, and whom it asks: like [`crate::tracker`].

use crate::tracker::{Door, Failure, SearchFailure};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The doors to resubmission.
pub struct Resubmission {
    /// Sends a transaction again: its id, how, and who asks.
    pub resubmit: Door<(u128, Wish, String), Attempt, Refusal>,
    /// Says what became of a transaction.
    pub resolve: Door<(u128, Resolve, String), (), Refusal>,
    /// Makes a job.
    pub make: Door<(NewJob, String), Job, SearchFailure>,
    /// The last jobs, at most so many, newest first.
    pub jobs: Door<usize, Vec<Job>, Failure>,
    /// One job.
    pub job: Door<i64, Option<Job>, Failure>,
    /// Does something with a job.
    pub act: Door<(i64, JobAction, RunJob), Option<Acted>, Failure>,
}

/// Why a transaction was not sent again, or not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such transaction.
    NotFound,
    /// The wish is wrong; the text says how.
    Bad(String),
    /// It cannot be sent, as a code and in words.
    Cannot(String, String),
    /// There is no room for it.
    Busy,
    /// Something cannot be read or written.
    Failed(Failure),
}

/// How a transaction is to be sent again. Nothing at all means as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wish {
    /// The whole query, without its question mark, instead of the recorded one; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Headers to set and to remove; none that carries credentials or that weir decides about.
    pub headers: HeaderWish,
    /// The whole body, in no coding, instead of the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The same in base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// The operation of another route of its API, one of `resubmit.targets`, to send it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Send it even if it is settled, or it is not known whether the last attempt was sent.
    pub again: bool,
}

/// Edits of headers.
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
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An attempt to send a transaction again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// The transaction it is itself.
    pub id: String,
    /// The transaction that is sent again.
    pub original: String,
    /// Its number in the chain, from 1.
    pub number: u32,
    /// `sending`, `succeeded`, `failed`, `refused` or `unknown`: weir ended before it did, and
    /// nobody knows whether it was sent.
    pub state: String,
    /// Status of the answer, 0 if there was none.
    pub status: u16,
    /// Why it was refused, or the problem that weir answered with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What that means, of one that was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Who made it.
    pub who: String,
    /// The job that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<i64>,
    /// Operation of another route that it went to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// What was edited, for those who may see payloads; the values are in the records of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub difference: Option<serde_json::Value>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// What became of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// `resolved`, `dismissed`, or `open` again.
    pub state: String,
    /// Why.
    #[serde(default)]
    pub comment: String,
}

/// A job to be made: it finds out what it would send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewJob {
    /// What it sends, in the query language.
    pub query: String,
    /// Requests a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The operation of another route of their API to send them to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Also what is settled, or not known to have been sent.
    pub again: bool,
    /// Run it once it is known what it sends.
    pub run: bool,
}

/// What is to be done with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Send, or go on sending.
    Run,
    /// Send no more for now.
    Pause,
    /// Send no more.
    Cancel,
}

/// A job after something was to be done with it, and whether that could be done.
pub type Acted = (Job, bool);

/// How a job is run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunJob {
    /// Requests a second, instead of what it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Also what is settled, or not known to have been sent.
    pub again: bool,
}

/// Requests a second of a job, if nobody says.
pub const RATE: f64 = 10.0;

/// A job: all that a query finds, sent again at a set rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number.
    pub number: i64,
    /// What it finds.
    pub query: String,
    /// `previewing`, `previewed`, `running`, `paused`, `cancelled` or `finished`.
    pub state: String,
    /// Requests a second.
    pub rate: f64,
    /// Operation of another route it sends to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Also what is settled, or not known to have been sent.
    pub again: bool,
    /// It runs once it is previewed.
    pub run: bool,
    /// Who made it.
    pub who: String,
    /// Transactions may be missing from it: the index was not complete, or there are too many.
    pub incomplete: bool,
    /// What it has to do with, by state and reason.
    pub transactions: Vec<JobCount>,
    /// When it was made (RFC 3339, UTC).
    pub created: String,
    /// When it began to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// When nothing was left to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Transactions of a job that are in one state for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCount {
    /// `pending`, `cannot` be sent, `sending`, `succeeded`, `failed`, `refused`, `unknown` or
    /// `cancelled`.
    pub state: String,
    /// Why, as a code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// How many.
    pub count: u64,
}
