//! The audit log: payload access and changes by operators. Table `audit`.
//!
//! An event is committed before the action that it describes: an action that cannot be recorded is
//! not carried out. Events survive the process; they are not synced to the disk one by one, so that
//! searches in payloads do not wait for it. A resubmission attempt is synced, and with it all events
//! committed before. Events are kept for [`RETENTION`].

use crate::StoreError;
use parking_lot::Mutex;
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use utoipa::ToSchema;
use weir_model::UnixMicros;

/// Retention of events.
pub const RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Events after which old ones are purged.
const PURGE_EVERY: u32 = 1000;

/// An entry of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEvent {
    /// Number; 0 in an entry to be written.
    pub number: i64,
    /// Time (RFC 3339, UTC); empty in an entry to be written.
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// Id of the token, never the token itself.
    pub token: String,
    /// Actor: name of the token.
    pub name: String,
    /// Role of the token.
    pub role: String,
    /// The action.
    pub action: String,
    /// Type of the object: `transaction`, `query`, `request`, `job`, `token`, `counts`, `pool`,
    /// `suite`, `configuration`, `version`, `node`, `sink`, `journal`, `audit`, `view`
    /// or `session`.
    pub about: String,
    /// The object.
    pub subject: String,
    /// Details of the action.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// Name of the node of the fleet, in a query over nodes. Its `number` is that of the fleet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// Selects events; an absent field matches all.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only events before the one with this number.
    pub before: Option<i64>,
    /// Name or token id of the operator.
    pub who: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The subject.
    pub subject: Option<String>,
    /// Only events from this time on.
    pub from: Option<UnixMicros>,
    /// Only events before this time.
    pub to: Option<UnixMicros>,
    /// Text in name, action, subject or details; ASCII letters match in any case.
    pub text: Option<String>,
}

/// The audit log.
#[derive(Debug)]
pub struct AuditLog {
    connection: Mutex<Connection>,
}

impl AuditLog {
    /// Opens the log of a data folder; creates it if there is none.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = crate::open(data)?;
        // If this fails, writes are only slower.
        let _ = connection.pragma_update(None, "synchronous", "normal");
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Records an event; it survives the process when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn record(&self, event: &AuditEvent) -> rusqlite::Result<()> {
        let connection = self.connection.lock();
        let mut insert = connection.prepare_cached(
            "INSERT INTO audit (at, token, name, role, action, about, subject, details)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let AuditEvent { time, token, name, role, action, about, subject, details, .. } = event;
        let at = time.0;
        insert.execute(params![at, token, name, role, action, about, subject, details])?;
        if connection.last_insert_rowid() % i64::from(PURGE_EVERY) == 0 {
            let oldest = at.saturating_sub(RETENTION.as_micros() as u64);
            connection.execute("DELETE FROM audit WHERE at < ?", [oldest])?;
        }
        Ok(())
    }

    /// The latest events that match, newest first, at most `limit`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn latest(&self, limit: usize, query: &AuditQuery) -> rusqlite::Result<Vec<AuditEvent>> {
        let AuditQuery { before, who, action, subject, from, to, text } = query;
        let connection = self.connection.lock();
        let mut select = connection.prepare_cached(
            "SELECT number, at, token, name, role, action, about, subject, details FROM audit
             WHERE number < ?1 AND (?2 IS NULL OR name = ?2 OR token = ?2)
             AND (?3 IS NULL OR action = ?3) AND (?4 IS NULL OR subject = ?4)
             AND at >= ?5 AND at < ?6
             AND (?7 IS NULL OR instr(lower(name || char(10) || action || char(10) || subject || char(10)
                 || details), lower(?7)) > 0)
             ORDER BY number DESC LIMIT ?8",
        )?;
        let before = before.unwrap_or(i64::MAX);
        let (from, to) = (micros(*from, 0), micros(*to, i64::MAX));
        let limit = limit as i64;
        let selected = params![before, who, action, subject, from, to, text, limit];
        select.query_map(selected, event)?.collect()
    }

    /// The events after the one with this number, oldest first, at most `limit`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn after(&self, number: i64, limit: usize) -> rusqlite::Result<Vec<AuditEvent>> {
        let connection = self.connection.lock();
        let mut select = connection.prepare_cached(
            "SELECT number, at, token, name, role, action, about, subject, details FROM audit
             WHERE number > ? ORDER BY number LIMIT ?",
        )?;
        select.query_map(params![number, limit as i64], event)?.collect()
    }
}

/// A time as the database has it.
fn micros(time: Option<UnixMicros>, absent: i64) -> i64 {
    time.map_or(absent, |time| i64::try_from(time.0).unwrap_or(i64::MAX))
}

fn event(row: &Row<'_>) -> rusqlite::Result<AuditEvent> {
    Ok(AuditEvent {
        number: row.get(0)?,
        time: UnixMicros(row.get(1)?),
        token: row.get(2)?,
        name: row.get(3)?,
        role: row.get(4)?,
        action: row.get(5)?,
        about: row.get(6)?,
        subject: row.get(7)?,
        details: row.get(8)?,
        node: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_back_newest_first_and_page_by_page() {
        let data = tempfile::tempdir().unwrap();
        let event = |at| AuditEvent {
            time: UnixMicros(at),
            subject: format!("body:a\nb {at}"),
            ..AuditEvent::default()
        };
        let log = AuditLog::open(data.path()).unwrap();
        (1..=5).for_each(|at| log.record(&event(at)).unwrap());
        drop(log);
        let log = AuditLog::open(data.path()).unwrap();
        let last = log.latest(2, &AuditQuery::default()).unwrap();
        assert_eq!(last.iter().map(|event| event.time.0).collect::<Vec<_>>(), [5, 4]);
        assert_eq!(last[0].subject, "body:a\nb 5");
        let older = AuditQuery { before: Some(last[1].number), ..AuditQuery::default() };
        let before = log.latest(9, &older).unwrap();
        assert_eq!(before.iter().map(|event| event.time.0).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn events_are_found_by_operator_action_and_subject() {
        let data = tempfile::tempdir().unwrap();
        let log = AuditLog::open(data.path()).unwrap();
        for (at, name, action, subject) in
            [(1, "ann", "show", "x"), (2, "bob", "show", "y"), (3, "ann", "resubmit", "x")]
        {
            let text = str::to_owned;
            let (token, name) = (format!("id-{name}"), text(name));
            let (action, subject) = (text(action), text(subject));
            let time = UnixMicros(at);
            log.record(&AuditEvent { time, token, name, action, subject, ..AuditEvent::default() })
                .unwrap();
        }
        let found = |who: Option<&str>, action: Option<&str>, subject: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let (who, action, subject) = (owned(who), owned(action), owned(subject));
            let query = AuditQuery { who, action, subject, ..AuditQuery::default() };
            let rows = log.latest(9, &query).unwrap();
            rows.iter().map(|event| event.time.0).collect::<Vec<_>>()
        };
        assert_eq!(found(Some("ann"), None, None), [3, 1]);
        assert_eq!(found(Some("id-bob"), None, None), [2]);
        assert_eq!(found(None, Some("show"), Some("x")), [1]);
        assert!(found(Some("ann' OR 1=1"), None, None).is_empty());
        let among = |query: &AuditQuery| {
            log.latest(9, query).unwrap().iter().map(|event| event.time.0).collect::<Vec<_>>()
        };
        let (from, to) = (Some(UnixMicros(2)), Some(UnixMicros(3)));
        assert_eq!(among(&AuditQuery { from, ..AuditQuery::default() }), [3, 2]);
        assert_eq!(among(&AuditQuery { from, to, ..AuditQuery::default() }), [2]);
        let text = |text: &str| AuditQuery { text: Some(text.to_owned()), ..AuditQuery::default() };
        assert_eq!(among(&text("RESUB")), [3]);
        assert_eq!(among(&text("ann")), [3, 1]);
        assert!(among(&text("%")).is_empty(), "no pattern");
    }

    #[test]
    fn old_events_are_purged() {
        let data = tempfile::tempdir().unwrap();
        let log = AuditLog::open(data.path()).unwrap();
        let now = 2 * RETENTION.as_micros() as u64;
        log.record(&AuditEvent { time: UnixMicros(1), ..AuditEvent::default() }).unwrap();
        for _ in 1..PURGE_EVERY {
            log.record(&AuditEvent { time: UnixMicros(now), ..AuditEvent::default() }).unwrap();
        }
        assert!(
            log.latest(usize::MAX >> 1, &AuditQuery::default())
                .unwrap()
                .iter()
                .all(|event| event.time.0 == now)
        );
    }
}
