//! Audit log of a data folder, for the admin API and `weir audit`.

use crate::tracker::convert::time;
use std::path::Path;
use std::sync::Arc;
use weir_admin::{Audit, AuditEntry, AuditWanted};
use weir_store::StoreError;
use weir_store::audit::{AuditEvent, AuditLog, AuditQuery};

/// Opens the audit log.
///
/// # Errors
/// The database cannot be opened.
pub(crate) fn open(data: &Path) -> Result<Audit, StoreError> {
    let log = Arc::new(AuditLog::open(data)?);
    let writer = Arc::clone(&log);
    Ok(Audit {
        note: Box::new(move |entry| writer.record(&event(entry)).map_err(|e| e.to_string())),
        last: Box::new(move |limit, wanted| {
            let AuditWanted { before, who, action, subject } = wanted.clone();
            let query = AuditQuery { before, who, action, subject };
            let found = log.latest(limit, &query).map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(entry).collect())
        }),
    })
}

/// Largest number of files in an audit event.
const NAMED: usize = 100;

/// Writes the audit event of `weir repair` before it changes the journal.
///
/// # Errors
/// The database cannot be opened or written.
pub(crate) fn note_repair(
    data: &Path,
    action: &str,
    what: &str,
    files: &[String],
) -> anyhow::Result<()> {
    let named = &files[..files.len().min(NAMED)];
    let entry = AuditEntry {
        name: "weir repair".to_owned(),
        action: action.to_owned(),
        about: "journal".to_owned(),
        subject: what.to_owned(),
        details: serde_json::json!({"files": named}).to_string(),
        ..AuditEntry::default()
    };
    Ok(AuditLog::open(data)?.record(&event(&entry))?)
}

fn event(entry: &AuditEntry) -> AuditEvent {
    let AuditEntry { token, name, role, action, about, subject, details, .. } = entry.clone();
    let at = weir_store::clock::now_us();
    AuditEvent { number: 0, at, token, name, role, action, about, subject, details }
}

fn entry(event: AuditEvent) -> AuditEntry {
    let AuditEvent { number, at, token, name, role, action, about, subject, details } = event;
    AuditEntry { number, time: time(at), token, name, role, action, about, subject, details }
}
