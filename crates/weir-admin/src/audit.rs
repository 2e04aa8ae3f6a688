//! Who looked at which payload, and who changed what.
//!
//! What cannot be written down is not done. Where it is written is handed in, like the doors of
//! [`crate::tracker`].

use crate::tokens::Caller;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Sees headers, bodies and keys of a transaction.
    Show(String),
    /// Searches in payloads, and sees highlights and keys of what is found.
    Search(String),
    /// Counts by words in payloads, or by business keys.
    Count(String),
    /// Takes headers, bodies and keys of all that a query finds.
    Export(String),
    /// Asks what would become of a request (method and path).
    Explain(String),
    /// Sends a transaction again; how.
    Resubmit(String, String),
    /// Tries a request: method and path.
    Try(String),
    /// Says what became of a transaction; what.
    Resolve(String, String),
    /// Makes a job for a query; how.
    MakeJob(String, String),
    /// Runs, pauses or cancels the job with this number; how.
    RunJob(&'static str, i64, String),
    /// Made the token with this id.
    MakeToken(String),
    /// Revokes the token with this id.
    RevokeToken(String),
    /// Replaces or trims the agents of a pool.
    Pool(&'static str, String),
    /// Puts a suite's load on this server; how.
    StartLoad(String, String),
    /// Ends it.
    StopLoad,
    /// Has calls counted again.
    Rebuild,
    /// Has the configuration loaded again.
    Reload,
    /// Begins a session of the console.
    SignIn,
    /// Ends it.
    SignOut,
}

impl Action {
    /// Its name, what its subject is, the subject, and what else is to be known.
    fn fields(self) -> (&'static str, &'static str, String, String) {
        let none = String::new();
        match self {
            Self::Show(id) => ("show", "transaction", id, none),
            Self::Search(query) => ("search", "query", query, none),
            Self::Count(query) => ("count", "query", query, none),
            Self::Export(query) => ("export", "query", query, none),
            Self::Explain(request) => ("explain", "request", request, none),
            Self::Resubmit(id, how) => ("resubmit", "transaction", id, how),
            Self::Try(request) => ("try", "request", request, none),
            Self::Resolve(id, how) => ("resolve", "transaction", id, how),
            Self::MakeJob(query, how) => ("make-job", "query", query, how),
            Self::RunJob(action, number, how) => (action, "job", number.to_string(), how),
            Self::MakeToken(id) => ("make-token", "token", id, none),
            Self::RevokeToken(id) => ("revoke-token", "token", id, none),
            Self::Pool(action, name) => (action, "pool", name, none),
            Self::StartLoad(suite, how) => ("start-load", "suite", suite, how),
            Self::StopLoad => ("stop-load", "suite", String::new(), none),
            Self::Rebuild => ("rebuild", "counts", String::new(), none),
            Self::Reload => ("reload", "configuration", String::new(), none),
            Self::SignIn => ("sign-in", "session", String::new(), none),
            Self::SignOut => ("sign-out", "session", String::new(), none),
        }
    }
}

/// A line of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number; 0 of one that is to be written.
    pub number: i64,
    /// When (RFC 3339, UTC); empty of one that is to be written.
    pub time: String,
    /// Id of the token, never the token.
    pub token: String,
    /// Who has it.
    pub name: String,
    /// Its role.
    pub role: String,
    /// What was done.
    pub action: String,
    /// What the subject is: `transaction`, `query`, `request`, `job`, `token`, `counts`, `pool`, `suite`,
    /// `configuration`, `journal` or `session`.
    pub about: String,
    /// What it was done to.
    pub subject: String,
    /// What else is to be known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

/// Which lines of the audit are wanted; what is not said may be anything.
#[derive(Clone, Debug, Default)]
pub struct AuditWanted {
    /// Only lines before the one with this number.
    pub before: Option<i64>,
    /// Name, or token id, of who did it.
    pub who: Option<String>,
    /// What was done.
    pub action: Option<String>,
    /// What it was done to.
    pub subject: Option<String>,
}

/// Writes a line of the audit, so that it survives the process.
type Note = dyn Fn(&AuditEntry) -> Result<(), String> + Send + Sync;
/// Asks for a page of the audit, of at most so many.
type Last = dyn Fn(usize, &AuditWanted) -> Result<Vec<AuditEntry>, String> + Send + Sync;

/// The log. Its doors may block.
pub struct Audit {
    /// Writes a line, so that it survives the process.
    pub note: Box<Note>,
    /// The last lines that are wanted, newest first.
    pub last: Box<Last>,
}

/// The line for what somebody does.
pub(crate) fn entry(caller: &Caller, action: Action) -> AuditEntry {
    let (action, about, subject, details) = action.fields();
    AuditEntry {
        token: caller.id.clone(),
        name: caller.name.clone(),
        role: caller.role.name().to_owned(),
        action: action.to_owned(),
        about: about.to_owned(),
        subject,
        details,
        ..AuditEntry::default()
    }
}
