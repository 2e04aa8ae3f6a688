//! Who looked at which payload, and who changed what: the table `audit`.
//!
//! What cannot be written down is not done, so that a row is committed before what it tells of
//! happens. It survives the process; searches in payloads do not wait for the disk. An attempt does,
//! and what was committed before it is on the disk then, too. Rows are kept for [`KEPT`].

use crate::store::{self, StoreError};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long rows are kept.
pub const KEPT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Rows that are dropped at once.
const DROPPED: u32 = 1000;

/// Something that somebody did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// Number of the row; 0 of one that is to be written.
    pub number: i64,
    /// Microseconds since 1970.
    pub at: u64,
    /// Id of the token.
    pub token: String,
    /// Name of who has it.
    pub name: String,
    /// Role of the token.
    pub role: String,
    /// What was done.
    pub action: String,
    /// What the subject is: `transaction`, `query`, `subject`, `job`.
    pub about: String,
    /// What it was done to.
    pub subject: String,
    /// What else is to be known, as JSON or empty.
    pub details: String,
}

/// Which rows are wanted; what is not said may be anything.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only rows before the one with this number.
    pub before: Option<i64>,
    /// Name, or token id, of who did it.
    pub who: Option<String>,
    /// What was done.
    pub action: Option<String>,
    /// What it was done to.
    pub subject: Option<String>,
}

/// The log.
#[derive(Debug)]
pub struct AuditLog {
    connection: Mutex<Connection>,
}

impl AuditLog {
    /// Opens the log of a data folder, or begins it.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = store::open(data)?;
        // It stays slower if this is refused, and nothing else.
        let _ = connection.pragma_update(None, "synchronous", "normal");
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Writes down what somebody does; it survives the process when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&self, deed: &Deed) -> rusqlite::Result<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut insert = connection.prepare_cached(
            "INSERT INTO audit (at, token, name, role, action, about, subject, details)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let Deed { at, token, name, role, action, about, subject, details, .. } = deed;
        insert.execute(params![at, token, name, role, action, about, subject, details])?;
        if connection.last_insert_rowid() % i64::from(DROPPED) == 0 {
            let oldest = at.saturating_sub(KEPT.as_micros() as u64);
            connection.execute("DELETE FROM audit WHERE at < ?", [oldest])?;
        }
        Ok(())
    }

    /// The last rows that are wanted, newest first, at most so many.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last(&self, limit: usize, wanted: &Wanted) -> rusqlite::Result<Vec<Deed>> {
        let Wanted { before, who, action, subject } = wanted;
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut select = connection.prepare_cached(
            "SELECT number, at, token, name, role, action, about, subject, details FROM audit
             WHERE number < ?1 AND (?2 IS NULL OR name = ?2 OR token = ?2)
             AND (?3 IS NULL OR action = ?3) AND (?4 IS NULL OR subject = ?4)
             ORDER BY number DESC LIMIT ?5",
        )?;
        let before = before.unwrap_or(i64::MAX);
        let rows =
            select.query_map(params![before, who, action, subject, limit as i64], |row| {
                Ok(Deed {
                    number: row.get(0)?,
                    at: row.get(1)?,
                    token: row.get(2)?,
                    name: row.get(3)?,
                    role: row.get(4)?,
                    action: row.get(5)?,
                    about: row.get(6)?,
                    subject: row.get(7)?,
                    details: row.get(8)?,
                })
            })?;
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_read_back_newest_first_and_page_by_page() {
        let data = tempfile::tempdir().unwrap();
        let deed = |at| Deed { at, subject: format!("body:a\nb {at}"), ..Deed::default() };
        let log = AuditLog::open(data.path()).unwrap();
        (1..=5).for_each(|at| log.note(&deed(at)).unwrap());
        drop(log);
        let log = AuditLog::open(data.path()).unwrap();
        let last = log.last(2, &Wanted::default()).unwrap();
        assert_eq!(last.iter().map(|deed| deed.at).collect::<Vec<_>>(), [5, 4]);
        assert_eq!(last[0].subject, "body:a\nb 5");
        let older = Wanted { before: Some(last[1].number), ..Wanted::default() };
        let before = log.last(9, &older).unwrap();
        assert_eq!(before.iter().map(|deed| deed.at).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn rows_are_found_by_who_did_what_to_what() {
        let data = tempfile::tempdir().unwrap();
        let log = AuditLog::open(data.path()).unwrap();
        for (at, name, action, subject) in
            [(1, "ann", "show", "x"), (2, "bob", "show", "y"), (3, "ann", "resubmit", "x")]
        {
            let text = str::to_owned;
            let (token, name) = (format!("id-{name}"), text(name));
            let (action, subject) = (text(action), text(subject));
            log.note(&Deed { at, token, name, action, subject, ..Deed::default() }).unwrap();
        }
        let found = |who: Option<&str>, action: Option<&str>, subject: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let (who, action, subject) = (owned(who), owned(action), owned(subject));
            let rows = log.last(9, &Wanted { before: None, who, action, subject }).unwrap();
            rows.iter().map(|deed| deed.at).collect::<Vec<_>>()
        };
        assert_eq!(found(Some("ann"), None, None), [3, 1]);
        assert_eq!(found(Some("id-bob"), None, None), [2]);
        assert_eq!(found(None, Some("show"), Some("x")), [1]);
        assert!(found(Some("ann' OR 1=1"), None, None).is_empty());
    }

    #[test]
    fn what_is_too_old_goes() {
        let data = tempfile::tempdir().unwrap();
        let log = AuditLog::open(data.path()).unwrap();
        let now = 2 * KEPT.as_micros() as u64;
        log.note(&Deed { at: 1, ..Deed::default() }).unwrap();
        for _ in 1..DROPPED {
            log.note(&Deed { at: now, ..Deed::default() }).unwrap();
        }
        assert!(
            log.last(usize::MAX >> 1, &Wanted::default())
                .unwrap()
                .iter()
                .all(|deed| deed.at == now)
        );
    }
}
