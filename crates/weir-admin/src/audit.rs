//! Audit log of payload access and changes.
//!
//! An action that cannot be audited is not performed. The storage is injected, like the backends of
//! [`crate::tracker`].

use crate::tokens::Caller;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An audited action.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Reads headers, bodies and keys of a transaction.
    Show(String),
    /// Searches payloads; reads highlights and keys of the result.
    Search(String),
    /// Counts by words of payloads or by business keys.
    Count(String),
    /// Reads headers, bodies and keys of the result of a query.
    Export(String),
    /// Explains a request (method and path).
    Explain(String),
    /// Resubmits a transaction; edits.
    Resubmit(String, String),
    /// Sends a test request: method and path.
    Try(String),
    /// Sets the resolution of a transaction; resolution.
    Resolve(String, String),
    /// Creates a job for a query; options.
    MakeJob(String, String),
    /// Runs, pauses or cancels the job with this number; options.
    RunJob(&'static str, i64, String),
    /// Creates the token with this id.
    MakeToken(String),
    /// Revokes the token with this id.
    RevokeToken(String),
    /// Recycles or trims the agents of a pool.
    Pool(&'static str, String),
    /// Starts a load test with a suite on this server; options.
    StartLoad(String, String),
    /// Stops the load test.
    StopLoad,
    /// Rebuilds the metering.
    Rebuild,
    /// Reloads the configuration.
    Reload,
    /// Starts a session of the console.
    SignIn,
    /// Ends a session of the console.
    SignOut,
}

impl Action {
    /// Action, type of the object, object, details.
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

/// An entry of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Number; 0 in an entry to be written.
    pub number: i64,
    /// Time (RFC 3339, UTC); empty in an entry to be written.
    pub time: String,
    /// Id of the token, never the token itself.
    pub token: String,
    /// Actor: name of the token.
    pub name: String,
    /// Role of the token.
    pub role: String,
    /// The action.
    pub action: String,
    /// Type of the object: `transaction`, `query`, `request`, `job`, `token`, `counts`, `pool`,
    /// `suite`, `configuration`, `journal` or `session`.
    pub about: String,
    /// The object.
    pub subject: String,
    /// Details of the action.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

/// Filter of the audit log; an absent field matches everything.
#[derive(Clone, Debug, Default)]
pub struct AuditWanted {
    /// Only entries before the one with this number.
    pub before: Option<i64>,
    /// Actor: name or id of the token.
    pub who: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The object.
    pub subject: Option<String>,
}

/// Writes an entry, durable when the process ends.
type Note = dyn Fn(&AuditEntry) -> Result<(), String> + Send + Sync;
/// Returns the last entries, at most the given number.
type Last = dyn Fn(usize, &AuditWanted) -> Result<Vec<AuditEntry>, String> + Send + Sync;

/// The audit log. Its functions may block.
pub struct Audit {
    /// Writes an entry, durable when the process ends.
    pub note: Box<Note>,
    /// The last entries that match, newest first.
    pub last: Box<Last>,
}

/// The entry for an action of a caller.
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
