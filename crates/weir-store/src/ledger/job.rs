//! Jobs: all transactions that a query finds, sent again at a set rate.
//!
//! The preview goes through the query once. It stores which transactions can be sent, and the reason
//! for each that cannot. These are sent, the oldest first; transactions that are recorded later are
//! not part of the job. So a job continues after a restart where it was.

use super::attempt::{Again, RetryBase, blocker};
use super::item::{ItemState, read_states, reason_words, retried, retries};
use super::{Ledger, id};
use crate::clock::now_us;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString};
use utoipa::ToSchema;
use weir_journal::{Address, Position};
use weir_model::{RejectionReason, UnixMicros};

/// State of a job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, AsRefStr, Display, EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum JobState {
    /// The query is being read.
    Previewing,
    /// It waits to be run.
    Previewed,
    /// Transactions are being sent.
    Running,
    /// It was paused.
    Paused,
    /// An operator ended it.
    Cancelled,
    /// Nothing is left to send.
    Finished,
}

/// A job to be created, initially as a preview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewJob {
    /// Query for the transactions.
    pub query: String,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Send to another route of their API: the operation.
    #[serde(rename = "to", skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Include transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Run after the preview.
    pub run: bool,
}

/// A command to a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobAction {
    /// Send, at this rate if one is given. Transactions that a limit rejected are retried; with
    /// `again` also those with a resolution or an attempt of unknown state.
    Run {
        /// Transactions a second.
        rate: Option<f64>,
        /// As above.
        again: bool,
    },
    /// Send no more for now.
    Pause,
    /// Send no more.
    Cancel,
}

/// A job: bulk resubmission of the result of a query at a given rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Number.
    pub number: i64,
    /// Query; empty for a retry.
    pub query: String,
    /// `previewing`, `previewed`, `running`, `paused`, `cancelled` or `finished`.
    #[schema(value_type = String)]
    pub state: JobState,
    /// Requests per second.
    pub rate: f64,
    /// Operation of the other route, if it sends there.
    #[serde(default, rename = "to", skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Includes transactions that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Runs after the preview.
    pub run: bool,
    /// Name of the token.
    pub who: String,
    /// Node of the fleet that runs the job; empty while none does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Nodes that have transactions of the job and are down: these transactions are pending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Number of the job whose transactions it retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<i64>,
    /// States that these transactions had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_states: Vec<ItemState>,
    /// Numbers of the last jobs that retry this one, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<i64>,
    /// Transactions may be missing: the index was not complete, or there are too many.
    pub incomplete: bool,
    /// Numbers of transactions by state and reason.
    // Empty until `Ledger::with_counts`.
    pub transactions: Vec<StateCount>,
    /// Created (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub created: UnixMicros,
    /// Start of sending.
    #[serde(default, rename = "began", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub started: Option<UnixMicros>,
    /// End of sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ended: Option<UnixMicros>,
    /// Cursor of the next page of the preview; empty before the first and after the last.
    #[serde(skip)]
    pub cursor: String,
}

impl Job {
    /// What does not keep its transactions from being sent.
    #[must_use]
    pub fn sends(&self) -> Again {
        retried(self.again, &self.retry_states)
    }
}

/// What a command did to a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobChange {
    /// The job afterwards.
    pub job: Job,
    /// Whether the command was carried out.
    pub done: bool,
    /// State of the job before.
    pub before: JobState,
}

/// Number of transactions of a job with the same state and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateCount {
    /// `pending`, `cannot` (rejected), `sending`, `succeeded`, `failed`, `refused`, `unknown` or
    /// `cancelled`.
    pub state: String,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Number of transactions.
    pub count: u64,
}

/// Default rate of a job, in requests per second.
pub const DEFAULT_RATE: f64 = 10.0;
/// Rates that a job can have, in transactions a second.
pub const RATES: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;

const COLUMNS: &str = "number, query, destination, again, rate, who, state, run, incomplete, \
                       created, began, ended, cursor, retry_of, retry_states";

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let state: String = row.get(6)?;
    Ok(Job {
        number: row.get(0)?,
        query: row.get(1)?,
        destination: row.get(2)?,
        again: row.get(3)?,
        rate: row.get(4)?,
        who: row.get(5)?,
        node: String::new(),
        waits_for: Vec::new(),
        state: state.parse().unwrap_or(JobState::Cancelled),
        run: row.get(7)?,
        incomplete: row.get(8)?,
        transactions: Vec::new(),
        created: UnixMicros(row.get(9)?),
        started: row.get::<_, Option<u64>>(10)?.map(UnixMicros),
        ended: row.get::<_, Option<u64>>(11)?.map(UnixMicros),
        cursor: row.get(12)?,
        retry_of: row.get(13)?,
        retry_states: read_states(&row.get::<_, String>(14)?),
        retries: Vec::new(),
    })
}

/// One job.
///
/// # Errors
/// The database fails.
pub fn find_job(db: &Connection, number: i64) -> rusqlite::Result<Option<Job>> {
    let sql = format!("SELECT {COLUMNS} FROM job WHERE number = ?");
    db.prepare_cached(&sql)?.query_row([number], job).optional()
}

impl Ledger {
    /// One job.
    ///
    /// # Errors
    /// The database fails.
    pub fn job(&self, number: i64) -> rusqlite::Result<Option<Job>> {
        find_job(&self.connection.lock(), number)
    }

    /// The last jobs, newest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn jobs(&self, limit: usize) -> rusqlite::Result<Vec<Job>> {
        let db = self.connection.lock();
        let sql = format!("SELECT {COLUMNS} FROM job ORDER BY number DESC LIMIT ?");
        db.prepare_cached(&sql)?.query_map([limit as i64], job)?.collect()
    }

    /// A job with the numbers of its transactions by state and reason.
    ///
    /// # Errors
    /// The database fails.
    pub fn with_counts(&self, job: Job) -> rusqlite::Result<Job> {
        let db = self.connection.lock();
        let mut select = db.prepare_cached(
            "SELECT state, reason, count(*) FROM job_item WHERE job = ? GROUP BY state, reason",
        )?;
        let count = |row: &Row<'_>| {
            let (state, reason, count): (_, String, _) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let words = reason_words(&reason);
            Ok(StateCount { state, reason, words, count })
        };
        let counts = select.query_map([job.number], count)?.collect::<rusqlite::Result<_>>()?;
        let retries = retries(&db, job.number)?;
        Ok(Job { transactions: counts, retries, ..job })
    }

    /// Persists a page of a preview and the cursor of the next one; without a cursor the preview
    /// ends.
    ///
    /// # Errors
    /// The database fails.
    pub fn persist_page(
        &self,
        job: &Job,
        found: &[PreviewItem],
        next: Option<&str>,
        incomplete: bool,
    ) -> rusqlite::Result<()> {
        self.write(|db| {
            // It may have been cancelled meanwhile.
            if find_job(db, job.number)?.is_none_or(|job| job.state != JobState::Previewing) {
                return Ok(());
            }
            let mut last =
                db.prepare_cached("SELECT coalesce(max(place), 0) FROM job_item WHERE job = ?")?;
            let mut place: i64 = last.query_row([job.number], |row| row.get(0))?;
            let mut insert = db.prepare_cached(
                "INSERT INTO job_item (job, place, id, lane, position, state, reason, base, accepted)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            for one in found {
                place += 1;
                let before = blocker(db, one.id, job.sends(), one.base)?;
                let reason = one.reason.clone().or(before);
                let (lane, position) = one
                    .address
                    .map_or((0, 0), |address| (address.lane, address.position.to_bits() as i64));
                let state = if reason.is_some() { "cannot" } else { "pending" };
                let reason = reason.map(|reason| reason.code()).unwrap_or_default();
                let id = one.id.to_be_bytes();
                let accepted = one.base.is_some_and(|base| base.accepted);
                let base = one.base.map(|base| base.at);
                let item = params![
                    job.number, place, id, lane, position, state, reason, base, accepted
                ];
                insert.execute(item)?;
            }
            let over = next.is_none() || place >= MAX_ITEMS;
            let cut = next.is_some() && over;
            let mut update = db.prepare_cached(
                "UPDATE job SET cursor = ?, incomplete = incomplete OR ? WHERE number = ?",
            )?;
            update.execute(params![next.unwrap_or_default(), incomplete || cut, job.number])?;
            if over {
                db.execute(
                    "UPDATE job SET began = CASE WHEN run THEN ? END,
                     state = CASE WHEN run THEN 'running' ELSE 'previewed' END
                     WHERE number = ? AND state = 'previewing'",
                    params![now_us(), job.number],
                )?;
            }
            Ok(())
        })
    }

    /// The next transactions to send, the oldest first. By the index: those that were sent are not
    /// read.
    ///
    /// # Errors
    /// The database fails.
    pub fn next_items(&self, job: i64, limit: usize) -> rusqlite::Result<Vec<JobItem>> {
        let db = self.connection.lock();
        let mut select = db.prepare_cached(
            "SELECT place, id, lane, position, base, accepted FROM job_item INDEXED BY job_item_state
             WHERE job = ? AND state = 'pending' AND reason = '' ORDER BY place DESC LIMIT ?",
        )?;
        let rows = select.query_map(params![job, limit as i64], read_item)?;
        rows.collect()
    }

    /// Finishes a job that has nothing left to send or to wait for; returns whether it did.
    ///
    /// # Errors
    /// The database fails.
    pub fn end_if_done(&self, job: i64) -> rusqlite::Result<bool> {
        self.write(|db| {
            let mut update = db.prepare_cached(
                "UPDATE job SET state = 'finished', ended = ?1
                 WHERE number = ?2 AND state = 'running' AND NOT EXISTS
                 (SELECT 1 FROM job_item WHERE job = ?2 AND state IN ('pending', 'sending'))",
            )?;
            Ok(update.execute(params![now_us(), job])? > 0)
        })
    }

    /// The oldest job that is previewing or running, whichever `state` names.
    ///
    /// # Errors
    /// The database fails.
    pub fn oldest_job(&self, state: JobState) -> rusqlite::Result<Option<Job>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM job INDEXED BY job_active
             WHERE state IN ('previewing', 'running') AND state = ? ORDER BY number LIMIT 1"
        );
        self.connection.lock().prepare_cached(&sql)?.query_row([state.as_ref()], job).optional()
    }
}

impl Ledger {
    /// Creates a job, which is previewed first.
    ///
    /// # Errors
    /// The database fails.
    pub fn new_job(&self, new: &NewJob, who: &str) -> rusqlite::Result<Job> {
        let created = self.write(|db| {
            let number = insert_job(db, new, who)?;
            find_job(db, number)
        })?;
        created.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Carries out a command, if the state of the job allows it; none if there is no such job.
    ///
    /// # Errors
    /// The database fails.
    pub fn act(&self, number: i64, action: JobAction) -> rusqlite::Result<Option<JobChange>> {
        self.write(|db| {
            let Some(before) = find_job(db, number)? else { return Ok(None) };
            let done = match action {
                JobAction::Run { rate, again } => run(db, &before, rate, again)?,
                JobAction::Pause => pause(db, &before)?,
                JobAction::Cancel => cancel(db, &before)?,
            };
            let state = before.state;
            Ok(find_job(db, number)?.map(|job| JobChange { job, done, before: state }))
        })
    }
}

/// Inserts a job, which is previewed first; returns its number.
pub(super) fn insert_job(db: &Connection, new: &NewJob, who: &str) -> rusqlite::Result<i64> {
    let rate = new.rate.unwrap_or(DEFAULT_RATE).clamp(*RATES.start(), *RATES.end());
    let destination = new.destination.as_deref().unwrap_or_default();
    db.execute(
        "INSERT INTO job (query, destination, again, rate, who, state, run, cursor,
         incomplete, created) VALUES (?, ?, ?, ?, ?, 'previewing', ?, '', 0, ?)",
        params![new.query, destination, new.again, rate, who, new.run, now_us()],
    )?;
    Ok(db.last_insert_rowid())
}

fn set_state(db: &Connection, job: &Job, state: JobState) -> rusqlite::Result<()> {
    let mut update = db.prepare_cached("UPDATE job SET state = ? WHERE number = ?")?;
    update.execute(params![state.as_ref(), job.number]).map(|_| ())
}

fn run(db: &Connection, job: &Job, rate: Option<f64>, again: bool) -> rusqlite::Result<bool> {
    if job.state == JobState::Cancelled {
        return Ok(false);
    }
    let rate = rate.unwrap_or(job.rate).clamp(*RATES.start(), *RATES.end());
    db.execute(
        "UPDATE job SET run = 1, rate = ?, again = again OR ? WHERE number = ?",
        params![rate, again, job.number],
    )?;
    // Transactions that were not sent for a reason that may have passed.
    db.execute(
        "UPDATE job_item SET state = 'pending', reason = '' WHERE job = ?
         AND state IN ('cannot', 'refused')
         AND reason IN ('limit-reached', 'rejected:journal-full', 'sending')",
        [job.number],
    )?;
    if again {
        db.execute(
            "UPDATE job_item SET state = 'pending', reason = '' WHERE job = ?
             AND (state = 'unknown' OR (state IN ('cannot', 'refused')
                  AND reason IN ('settled', 'unknown', 'succeeded', 'newer-attempt')))",
            [job.number],
        )?;
    }
    if job.state != JobState::Previewing {
        db.execute(
            "UPDATE job SET state = 'running', began = coalesce(began, ?), ended = NULL
             WHERE number = ?",
            params![now_us(), job.number],
        )?;
    }
    Ok(true)
}

fn pause(db: &Connection, job: &Job) -> rusqlite::Result<bool> {
    match job.state {
        JobState::Running => set_state(db, job, JobState::Paused)?,
        JobState::Previewing => {
            db.execute("UPDATE job SET run = 0 WHERE number = ?", [job.number])?;
        }
        JobState::Previewed | JobState::Paused => {}
        JobState::Cancelled | JobState::Finished => return Ok(false),
    }
    Ok(true)
}

fn cancel(db: &Connection, job: &Job) -> rusqlite::Result<bool> {
    if job.state == JobState::Finished {
        return Ok(false);
    }
    db.execute(
        "UPDATE job SET state = 'cancelled', ended = coalesce(ended, ?) WHERE number = ?",
        params![now_us(), job.number],
    )?;
    db.execute(
        "UPDATE job_item SET state = 'cancelled' WHERE job = ? AND state = 'pending'",
        [job.number],
    )?;
    Ok(true)
}

/// A transaction of a job that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct JobItem {
    /// Its number in the job, in the order of the preview: newest first.
    pub place: i64,
    /// Its id.
    pub id: u128,
    /// Its address in the journal when the preview found it.
    pub address: Address,
    /// What it is based on, in a retry.
    pub base: Option<RetryBase>,
}

pub(super) fn read_item(row: &Row<'_>) -> rusqlite::Result<JobItem> {
    let position: i64 = row.get(3)?;
    let position = Position::from_bits(position as u64);
    let address = Address { lane: row.get(2)?, position };
    let accepted = row.get(5)?;
    let base = row.get::<_, Option<u64>>(4)?.map(|at| RetryBase { at, accepted });
    Ok(JobItem { place: row.get(0)?, id: id(row, 1)?, address, base })
}

/// A transaction as a preview found it.
#[derive(Clone, Debug)]
pub struct PreviewItem {
    /// Its id.
    pub id: u128,
    /// Its address in the journal.
    pub address: Option<Address>,
    /// Why it cannot be sent, if it cannot.
    pub reason: Option<RejectionReason>,
    /// What it is based on, in a retry.
    pub base: Option<RetryBase>,
}

/// Most transactions of a job.
pub const MAX_ITEMS: i64 = 1_000_000;

/// Sets the state of one transaction of a job, with the code of the reason.
///
/// # Errors
/// The database fails.
pub fn set_item(
    db: &Connection,
    job: i64,
    place: i64,
    state: &str,
    reason: &str,
) -> rusqlite::Result<()> {
    let mut update =
        db.prepare_cached("UPDATE job_item SET state = ?, reason = ? WHERE job = ? AND place = ?")?;
    update.execute(params![state, reason, job, place]).map(|_| ())
}
