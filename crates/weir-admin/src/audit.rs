//! Audit events of payload access and changes. An action that cannot be audited is not performed.

use crate::tokens::Caller;
use weir_model::UnixMicros;
use weir_store::audit::AuditEvent;
use weir_store::clock::now_us;

/// An audited action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Action {
    /// Reads headers, bodies and keys of a transaction.
    Show,
    /// Searches payloads; reads highlights and keys of the result.
    Search,
    /// Counts by words of payloads or by business keys.
    Count,
    /// Reads headers, bodies and keys of the result of a query.
    Export,
    /// Explains a request (method and path).
    Explain,
    /// Resubmits a transaction; edits.
    Resubmit,
    /// Sends a test request: method and path.
    Try,
    /// Sets the resolution of a transaction; resolution.
    Resolve,
    /// Creates a job for a query; options.
    MakeJob,
    /// Creates a job that retries transactions of a job, by its number; options.
    RetryJob,
    /// Runs a job, by its number; options.
    RunJob,
    /// Pauses a job.
    PauseJob,
    /// Cancels a job.
    CancelJob,
    /// Saves a view of the console, by its name; query of the address.
    SaveView,
    /// Deletes a view of the console, by its name.
    DeleteView,
    /// Creates a token, by its id.
    MakeToken,
    /// Revokes a token, by its id.
    RevokeToken,
    /// Revokes an API key of a consumer, by the digits that records have; consumer, name and reason.
    RevokeKey,
    /// Restores an API key.
    RestoreKey,
    /// Retires a node of the fleet, by its id; `lost`.
    RetireNode,
    /// Starts a backfill of a sink, by its name; options.
    Backfill,
    /// Pushes a version of the configuration; its comment.
    PushVersion,
    /// Starts a rollout, by its version.
    StartRollout,
    /// Pauses, resumes or aborts a rollout.
    ChangeRollout,
    /// Rolls all nodes back, by the version.
    RollBack,
    /// Recycles the agents of a pool.
    Recycle,
    /// Stops idle agents of a pool.
    Trim,
    /// Starts a load test with a suite on this server; options.
    StartLoad,
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
    /// Ends the session of somebody, by its id.
    EndSession,
    /// Exports the audit log; number of entries.
    ExportAudit,
}

impl Action {
    /// Type of the object.
    fn about(self) -> &'static str {
        match self {
            Self::Show | Self::Resubmit | Self::Resolve => "transaction",
            Self::Search | Self::Count | Self::Export | Self::MakeJob => "query",
            Self::Explain | Self::Try => "request",
            Self::RetryJob | Self::RunJob | Self::PauseJob | Self::CancelJob => "job",
            Self::SaveView | Self::DeleteView => "view",
            Self::MakeToken | Self::RevokeToken => "token",
            Self::RevokeKey | Self::RestoreKey => "api-key",
            Self::RetireNode => "node",
            Self::Backfill => "sink",
            Self::PushVersion | Self::StartRollout | Self::ChangeRollout | Self::RollBack => {
                "version"
            }
            Self::Recycle | Self::Trim => "pool",
            Self::StartLoad | Self::StopLoad => "suite",
            Self::Rebuild => "counts",
            Self::Reload => "configuration",
            Self::SignIn | Self::SignOut | Self::EndSession => "session",
            Self::ExportAudit => "audit",
        }
    }
}

/// The event of an action of a caller on an object.
pub(crate) fn event(
    caller: &Caller,
    action: Action,
    subject: String,
    details: String,
) -> AuditEvent {
    AuditEvent {
        number: 0,
        time: UnixMicros(now_us()),
        token: caller.id.clone(),
        name: caller.name.clone(),
        role: caller.role.name().to_owned(),
        action: <&str>::from(action).to_owned(),
        about: action.about().to_owned(),
        subject,
        details,
        node: String::new(),
    }
}
