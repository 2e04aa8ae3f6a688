//! Audit events of payload access and changes. An action that cannot be audited is not performed.

use crate::tokens::Caller;
use weir_model::UnixMicros;
use weir_store::audit::AuditEvent;
use weir_store::clock::now_us;

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

/// The event of an action of a caller.
pub(crate) fn event(caller: &Caller, action: Action) -> AuditEvent {
    let (action, about, subject, details) = action.fields();
    AuditEvent {
        number: 0,
        time: UnixMicros(now_us()),
        token: caller.id.clone(),
        name: caller.name.clone(),
        role: caller.role.name().to_owned(),
        action: action.to_owned(),
        about: about.to_owned(),
        subject,
        details,
    }
}
