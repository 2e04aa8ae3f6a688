//! Attempts and resolutions, as the database has them.

use super::Ended;
use super::reason::Reason;
use crate::clock::now_us;
use crate::store::{self, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// It is about to be sent, or was sent and is not answered yet.
    Sending,
    /// It was answered with a status below 400.
    Succeeded,
    /// It was answered with another status, or the answer broke off.
    Failed,
    /// Nothing was done about it.
    Refused,
    /// weir ended before it did: nobody knows whether it was sent.
    Unknown,
}

impl AttemptState {
    const ALL: [Self; 5] =
        [Self::Sending, Self::Succeeded, Self::Failed, Self::Refused, Self::Unknown];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.name() == name).unwrap_or(Self::Unknown)
    }
}

/// What became of a transaction that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// Nobody has done anything about it, with success.
    Open,
    /// An attempt succeeded.
    Resubmitted,
    /// Somebody says that it is settled.
    Resolved,
    /// Somebody says that nothing is to be done.
    Dismissed,
}

impl Resolution {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Resubmitted, Self::Resolved, Self::Dismissed];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resubmitted => "resubmitted",
            Self::Resolved => "resolved",
            Self::Dismissed => "dismissed",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resolution| resolution.name() == name)
    }
}

/// An attempt to send a transaction again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The transaction it is in the journal.
    pub id: u128,
    /// The transaction that is sent again.
    pub original: u128,
    /// Its number in the chain, from 1.
    pub number: u32,
    /// The job that made it.
    pub job: Option<i64>,
    /// Who made it.
    pub who: String,
    /// How far it has come.
    pub state: AttemptState,
    /// Status of the answer, 0 if there was none.
    pub status: u16,
    /// Why it was refused, or the problem that weir answered with.
    pub reason: String,
    /// Operation of another route that it went to.
    pub destination: String,
    /// What was edited, without values, as JSON.
    pub difference: String,
    /// Microseconds since 1970.
    pub began: u64,
    /// When it was answered or refused.
    pub ended: Option<u64>,
}

/// A change of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Microseconds since 1970.
    pub at: u64,
    /// To what.
    pub state: Resolution,
    /// Who made it.
    pub who: String,
    /// Why.
    pub comment: String,
}

/// All that was done about a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Attempts at it, the first one first.
    pub attempts: Vec<Attempt>,
    /// Its resolutions, the first one first; before them it was open if it had failed.
    pub changes: Vec<Change>,
}

/// An attempt that is to be marked.
pub(super) struct Marked<'a> {
    pub(super) id: u128,
    pub(super) original: u128,
    pub(super) job: Option<i64>,
    pub(super) who: &'a str,
    pub(super) destination: &'a str,
    pub(super) difference: &'a str,
    /// Also what is settled or unknown.
    pub(super) again: bool,
}

/// Most attempts of a chain that are told.
const LONGEST_STORY: u32 = 1000;

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
        Ok(Self { connection: Mutex::new(store::open(data)?) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic left is rolled back when it is dropped.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something in one transaction that writes.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// What was being sent when weir ended is unknown; gives how much that is.
    pub(super) fn recover(&self) -> rusqlite::Result<u64> {
        self.write(|db| {
            db.execute("UPDATE job_item SET state = 'unknown' WHERE state = 'sending'", [])?;
            let unknown = "UPDATE attempt SET state = 'unknown' WHERE state = 'sending'";
            Ok(db.execute(unknown, [])? as u64)
        })
    }

    /// Attempts of which it is not known whether they were sent.
    pub(super) fn unknown(&self) -> rusqlite::Result<Vec<u128>> {
        let connection = self.lock();
        let mut select =
            connection.prepare_cached("SELECT id FROM attempt WHERE state = 'unknown'")?;
        select.query_map([], |row| id(row, 0))?.collect()
    }

    /// All that was done about a transaction.
    ///
    /// # Errors
    /// The database fails.
    pub fn story(&self, original: u128) -> rusqlite::Result<Story> {
        let connection = self.lock();
        let mut select = connection.prepare_cached(
            "SELECT id, original, number, job, who, state, status, reason, destination, difference,
             began, ended FROM attempt WHERE original = ? ORDER BY number LIMIT ?",
        )?;
        let key = original.to_be_bytes();
        let attempts = select.query_map(params![key, LONGEST_STORY], attempt)?;
        let attempts = attempts.collect::<rusqlite::Result<_>>()?;
        let mut select = connection.prepare_cached(
            "SELECT at, state, who, comment FROM resolution_change WHERE id = ?
             ORDER BY at, rowid LIMIT ?",
        )?;
        let changes = select.query_map(params![key, LONGEST_STORY], |row| {
            let state: String = row.get(1)?;
            Ok(Change {
                at: row.get(0)?,
                state: Resolution::of(&state).unwrap_or(Resolution::Open),
                who: row.get(2)?,
                comment: row.get(3)?,
            })
        })?;
        Ok(Story { attempts, changes: changes.collect::<rusqlite::Result<_>>()? })
    }

    /// One attempt.
    ///
    /// # Errors
    /// The database fails.
    pub fn attempt(&self, attempted: u128) -> rusqlite::Result<Option<Attempt>> {
        let connection = self.lock();
        let mut select = connection.prepare_cached(
            "SELECT id, original, number, job, who, state, status, reason, destination, difference,
             began, ended FROM attempt WHERE id = ?",
        )?;
        select.query_row([attempted.to_be_bytes()], attempt).optional()
    }

    /// What became of a transaction, if anything was ever said about it.
    ///
    /// # Errors
    /// The database fails.
    pub fn resolution(&self, transaction: u128) -> rusqlite::Result<Option<Resolution>> {
        resolution(&self.lock(), transaction)
    }

    /// Says what became of a transaction.
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

    /// Drops what is older than transactions are kept.
    ///
    /// # Errors
    /// The database fails.
    pub(super) fn drop_old(&self, keep: Duration) -> rusqlite::Result<()> {
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
            // Of those that nobody ever ran or ended nothing is left to be sent, either.
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

fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let state: String = row.get(5)?;
    Ok(Attempt {
        id: id(row, 0)?,
        original: id(row, 1)?,
        number: row.get(2)?,
        job: row.get(3)?,
        who: row.get(4)?,
        state: AttemptState::of(&state),
        status: row.get(6)?,
        reason: row.get(7)?,
        destination: row.get(8)?,
        difference: row.get(9)?,
        began: row.get(10)?,
        ended: row.get(11)?,
    })
}

pub(super) fn resolution(db: &Connection, of: u128) -> rusqlite::Result<Option<Resolution>> {
    let mut select = db.prepare_cached("SELECT state FROM resolution WHERE id = ?")?;
    let found: Option<String> =
        select.query_row([of.to_be_bytes()], |row| row.get(0)).optional()?;
    Ok(found.as_deref().and_then(Resolution::of))
}

pub(super) fn set_resolution(
    db: &Connection,
    of: u128,
    state: Resolution,
    who: &str,
    comment: &str,
) -> rusqlite::Result<()> {
    let key = of.to_be_bytes();
    let mut set = db.prepare_cached(
        "INSERT INTO resolution (id, state) VALUES (?, ?)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state",
    )?;
    set.execute(params![key, state.name()])?;
    let mut note = db.prepare_cached(
        "INSERT INTO resolution_change (id, at, state, who, comment) VALUES (?, ?, ?, ?, ?)",
    )?;
    note.execute(params![key, now_us(), state.name(), who, comment])?;
    Ok(())
}

/// Why a transaction is not sent now, from what was done about it before.
pub(super) fn hindrance(
    db: &Connection,
    original: u128,
    again: bool,
) -> rusqlite::Result<Option<Reason>> {
    let mut select = db.prepare_cached(
        "SELECT state FROM attempt WHERE original = ? AND state IN ('sending', 'unknown')",
    )?;
    let states = select.query_map([original.to_be_bytes()], |row| row.get::<_, String>(0))?;
    let states: Vec<String> = states.collect::<rusqlite::Result<_>>()?;
    if states.iter().any(|state| state == "sending") {
        return Ok(Some(Reason::Sending));
    }
    if again {
        return Ok(None);
    }
    if !states.is_empty() {
        return Ok(Some(Reason::Unknown));
    }
    let settled = resolution(db, original)?.is_some_and(|state| state != Resolution::Open);
    Ok(settled.then_some(Reason::Settled))
}

/// Marks an attempt as being sent, unless something is in the way.
pub(super) fn mark(db: &Connection, marked: &Marked<'_>) -> rusqlite::Result<Result<(), Reason>> {
    if let Some(reason) = hindrance(db, marked.original, marked.again)? {
        return Ok(Err(reason));
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO attempt (id, original, number, job, who, state, destination, difference, began)
         VALUES (?1, ?2, (SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE original = ?2),
                 ?3, ?4, 'sending', ?5, ?6, ?7)",
    )?;
    let Marked { id, original, job, who, destination, difference, .. } = marked;
    let (id, original) = (id.to_be_bytes(), original.to_be_bytes());
    insert.execute(params![id, original, job, who, destination, difference, now_us()])?;
    Ok(Ok(()))
}

/// It was surely not sent: there was no such attempt.
pub(super) fn unmark(db: &Connection, attempt: u128) -> rusqlite::Result<()> {
    let mut delete = db.prepare_cached("DELETE FROM attempt WHERE id = ? AND state = 'sending'")?;
    delete.execute([attempt.to_be_bytes()]).map(|_| ())
}

/// Whether an upstream that answers with this status has done what it was asked for. One that
/// redirects wants it elsewhere, or the sender to log in, and weir follows nobody; only 303 (see the
/// result there) and 304 say that it is done (RFC 9110 sections 15.4.4 and 15.4.5).
fn is_success(status: u16) -> bool {
    matches!(status, 200..=299 | 303 | 304)
}

/// Writes down how an attempt ended; with success, what became of its original. Gives its state, if
/// that was not written down before.
pub(super) fn finish(
    db: &Connection,
    attempt: u128,
    ended: &Ended,
) -> rusqlite::Result<Option<AttemptState>> {
    let (state, status, reason) = match ended {
        Ended::Answered(status, problem) => {
            let state =
                if is_success(*status) { AttemptState::Succeeded } else { AttemptState::Failed };
            (state, *status, problem.unwrap_or_default().to_owned())
        }
        Ended::Broken(status) => (AttemptState::Failed, *status, "broken-off".to_owned()),
        Ended::Refused(reason) => (AttemptState::Refused, 0, reason.code()),
        Ended::Lost => (AttemptState::Unknown, 0, String::new()),
    };
    let mut update = db.prepare_cached(
        "UPDATE attempt SET state = ?, status = ?, reason = ?, ended = ? WHERE id = ?
         AND state IN ('sending', 'unknown') RETURNING original, who, number, job",
    )?;
    let key = attempt.to_be_bytes();
    let found = update.query_row(params![state.name(), status, reason, now_us(), key], |row| {
        Ok((id(row, 0)?, row.get::<_, String>(1)?, row.get::<_, u32>(2)?, row.get(3)?))
    });
    let Some((original, who, number, job)) = found.optional()? else { return Ok(None) };
    let job: Option<i64> = job;
    if let Some(job) = job {
        let mut update = db.prepare_cached(
            "UPDATE job_item INDEXED BY job_item_id SET state = ?, reason = ?
             WHERE job = ? AND id = ? AND state IN ('sending', 'unknown')",
        )?;
        let reason = if state == AttemptState::Refused { reason.as_str() } else { "" };
        update.execute(params![state.name(), reason, job, original.to_be_bytes()])?;
    }
    if state == AttemptState::Succeeded {
        let comment = format!("attempt {number}");
        set_resolution(db, original, Resolution::Resubmitted, &who, &comment)?;
    }
    Ok(Some(state))
}
