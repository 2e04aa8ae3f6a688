//! The ledger of resubmission: attempts, resolutions and jobs.
//!
//! An attempt is stored as `sending` before its request is sent: the intent is durable first. An
//! attempt that is still `sending` at the next start is `unknown` from then on. Attempts are stored
//! under the transaction that was sent first; an attempt is never itself resubmitted.

mod attempt;
mod copy;
mod item;
mod job;
mod retry;

pub use attempt::{
    Again, Attempt, AttemptState, Intent, RetryBase, blocker, finish, record_intent,
    withdraw_intent,
};
pub use copy::{ResolutionCopy, copy_resolution};
pub use item::{ItemState, MAX_RETRIES, read_states, reason_words, states_text};
pub use job::{
    DEFAULT_RATE, Job, JobAction, JobChange, JobItem, JobState, MAX_ITEMS, NewJob, PreviewItem,
    RATES, StateCount, find_job, set_item,
};
pub use retry::{JobTransaction, JobTransactions, ListItems, RetryBlocker, RetryJob};

use crate::StoreError;
use crate::clock::now_us;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::path::Path;
use std::time::Duration;
use strum::{AsRefStr, Display, EnumString};
use weir_model::UnixMicros;

/// Resolution of a failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, AsRefStr, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Resolution {
    /// Not resolved.
    Open,
    /// An attempt succeeded.
    Resubmitted,
    /// An operator marked it as resolved.
    Resolved,
    /// An operator dismissed it: no action is needed.
    Dismissed,
}

/// A change of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionChange {
    /// Its time.
    pub at: UnixMicros,
    /// The new resolution.
    pub state: Resolution,
    /// Name of the operator or job owner.
    pub who: String,
    /// Comment.
    pub comment: String,
}

/// All attempts and resolutions of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Attempts, the first one first.
    pub attempts: Vec<Attempt>,
    /// Resolutions, the first one first; before them a failed transaction is open.
    pub changes: Vec<ResolutionChange>,
}

/// Most attempts, and most changes, of a transaction that are read.
const MAX_HISTORY: u32 = 1000;

/// The database of attempts, resolutions and jobs.
#[derive(Debug)]
pub struct Ledger {
    connection: Mutex<Connection>,
}

impl Ledger {
    /// Opens it in a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: Mutex::new(crate::open(data)?) })
    }

    /// Runs `work` in one transaction that writes.
    ///
    /// # Errors
    /// The database or `work` fails; nothing is written then.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Sets attempts that were `sending` when weir ended to `unknown`; returns their number.
    ///
    /// # Errors
    /// The database fails.
    pub fn recover(&self) -> rusqlite::Result<u64> {
        self.write(|db| {
            db.execute("UPDATE job_item SET state = 'unknown' WHERE state = 'sending'", [])?;
            let unknown = "UPDATE attempt SET state = 'unknown' WHERE state = 'sending'";
            Ok(db.execute(unknown, [])? as u64)
        })
    }

    /// Ids of attempts that may have been sent: their state is `unknown`.
    ///
    /// # Errors
    /// The database fails.
    pub fn unknown(&self) -> rusqlite::Result<Vec<u128>> {
        let connection = self.connection.lock();
        let mut select =
            connection.prepare_cached("SELECT id FROM attempt WHERE state = 'unknown'")?;
        select.query_map([], |row| id(row, 0))?.collect()
    }

    /// All attempts and resolutions of a transaction.
    ///
    /// # Errors
    /// The database fails.
    pub fn history(&self, original: u128) -> rusqlite::Result<History> {
        let connection = self.connection.lock();
        let attempts = attempt::attempts(&connection, original, MAX_HISTORY)?;
        let mut select = connection.prepare_cached(
            "SELECT at, state, who, comment FROM resolution_change WHERE id = ?
             ORDER BY at, rowid LIMIT ?",
        )?;
        let changes = select.query_map(params![original.to_be_bytes(), MAX_HISTORY], |row| {
            let state: String = row.get(1)?;
            Ok(ResolutionChange {
                at: UnixMicros(row.get(0)?),
                state: state.parse().unwrap_or(Resolution::Open),
                who: row.get(2)?,
                comment: row.get(3)?,
            })
        })?;
        Ok(History { attempts, changes: changes.collect::<rusqlite::Result<_>>()? })
    }

    /// One attempt.
    ///
    /// # Errors
    /// The database fails.
    pub fn attempt(&self, attempted: u128) -> rusqlite::Result<Option<Attempt>> {
        attempt::get(&self.connection.lock(), attempted)
    }

    /// The resolution of a transaction, if it ever got one.
    ///
    /// # Errors
    /// The database fails.
    pub fn resolution(&self, transaction: u128) -> rusqlite::Result<Option<Resolution>> {
        resolution(&self.connection.lock(), transaction)
    }

    /// The revision of the resolution of a transaction; 0 if the fleet does not have it.
    ///
    /// # Errors
    /// The database fails.
    pub fn resolution_revision(&self, transaction: u128) -> rusqlite::Result<i64> {
        let connection = self.connection.lock();
        let mut select =
            connection.prepare_cached("SELECT revision FROM resolution WHERE id = ?")?;
        let found = select.query_row([transaction.to_be_bytes()], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or_default())
    }

    /// Sets the resolution of a transaction.
    ///
    /// # Errors
    /// The database fails.
    pub fn resolve(
        &self,
        transaction: u128,
        state: Resolution,
        who: &str,
        comment: &str,
    ) -> rusqlite::Result<()> {
        self.write(|db| set_resolution(db, transaction, state, who, comment))
    }

    /// Applies resolutions of the fleet, in one transaction; returns the number of those that are newer.
    ///
    /// # Errors
    /// The database fails; none is applied then.
    pub fn copy_resolutions(&self, copies: &[ResolutionCopy]) -> rusqlite::Result<usize> {
        self.write(|db| {
            let mut newer = 0;
            for copy in copies {
                newer += usize::from(copy_resolution(db, copy)?);
            }
            Ok(newer)
        })
    }

    /// Purges rows that are older than `keep`, the retention of transactions.
    ///
    /// # Errors
    /// The database fails.
    pub fn purge(&self, keep: Duration) -> rusqlite::Result<()> {
        let keep = u64::try_from(keep.as_micros()).unwrap_or(u64::MAX);
        let oldest = now_us().saturating_sub(keep);
        self.write(|db| {
            db.execute("DELETE FROM attempt WHERE began < ?", [oldest])?;
            db.execute(
                "DELETE FROM resolution WHERE id IN
                 (SELECT id FROM resolution_change GROUP BY id HAVING max(at) < ?)",
                [oldest],
            )?;
            db.execute(
                "DELETE FROM resolution_change WHERE id NOT IN (SELECT id FROM resolution)",
                [],
            )?;
            // A job that was never run or ended has nothing left to send, either.
            db.execute(
                "DELETE FROM job WHERE coalesce(ended, created) < ?
                 AND state NOT IN ('previewing', 'running')",
                [oldest],
            )?;
            Ok(())
        })
    }
}

fn id(row: &Row<'_>, at: usize) -> rusqlite::Result<u128> {
    row.get::<_, [u8; 16]>(at).map(u128::from_be_bytes)
}

fn resolution(db: &Connection, transaction: u128) -> rusqlite::Result<Option<Resolution>> {
    let mut select = db.prepare_cached("SELECT state FROM resolution WHERE id = ?")?;
    let found: Option<String> =
        select.query_row([transaction.to_be_bytes()], |row| row.get(0)).optional()?;
    Ok(found.and_then(|state| state.parse().ok()))
}

fn set_resolution(
    db: &Connection,
    transaction: u128,
    state: Resolution,
    who: &str,
    comment: &str,
) -> rusqlite::Result<()> {
    let key = transaction.to_be_bytes();
    let mut set = db.prepare_cached(
        "INSERT INTO resolution (id, state) VALUES (?, ?)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state",
    )?;
    set.execute(params![key, state.as_ref()])?;
    let mut change = db.prepare_cached(
        "INSERT INTO resolution_change (id, at, state, who, comment) VALUES (?, ?, ?, ?, ?)",
    )?;
    change.execute(params![key, now_us(), state.as_ref(), who, comment])?;
    Ok(())
}

#[cfg(test)]
mod tests;
