//! Jobs: all that a query finds, sent again at a set rate.
//!
//! The preview goes through the query once and notes in the database what can be sent and what
//! cannot, and why. What is sent is what was noted, the oldest first; whatever comes later is not in
//! the job. So a job goes on after a restart where it was.

use super::Resubmitter;
use super::ledger::{self, Ledger};
use crate::clock::now_us;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::atomic::Ordering;

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It goes through its query.
    Previewing,
    /// It waits for somebody to run it.
    Previewed,
    /// It sends.
    Running,
    /// It was paused.
    Paused,
    /// Somebody ended it.
    Cancelled,
    /// Nothing is left to be sent.
    Finished,
}

impl JobState {
    const ALL: [Self; 6] = [
        Self::Previewing,
        Self::Previewed,
        Self::Running,
        Self::Paused,
        Self::Cancelled,
        Self::Finished,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Previewing => "previewing",
            Self::Previewed => "previewed",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Finished => "finished",
        }
    }

    fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.name() == name).unwrap_or(Self::Cancelled)
    }
}

/// A job to be made.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What it finds.
    pub query: String,
    /// Operation of another route to send to; empty for their own.
    pub destination: String,
    /// Also what is settled, or not known to have been sent.
    pub again: bool,
    /// A second.
    pub rate: f64,
    /// Run it once it is previewed.
    pub run: bool,
}

/// What is to be done with a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobAction {
    /// Send, at this rate if one is given. What a limit refused is tried again; with `again` also
    /// what is settled, or not known to have been sent.
    Run {
        /// A second.
        rate: Option<f64>,
        /// See above.
        again: bool,
    },
    /// Send no more for now.
    Pause,
    /// Send no more.
    Cancel,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number.
    pub number: i64,
    /// What it finds.
    pub query: String,
    /// Operation of another route it sends to.
    pub destination: String,
    /// Also what is settled, or not known to have been sent.
    pub again: bool,
    /// A second.
    pub rate: f64,
    /// Who made it.
    pub who: String,
    /// What it does.
    pub state: JobState,
    /// It runs once it is previewed.
    pub run: bool,
    /// Transactions may be missing from it.
    pub incomplete: bool,
    /// When it was made, in microseconds since 1970.
    pub created: u64,
    /// When it began to send.
    pub began: Option<u64>,
    /// When nothing was left to be sent.
    pub ended: Option<u64>,
    /// Where the preview goes on.
    pub(super) cursor: String,
}

/// Transactions of a job that are in one state for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// `pending`, `cannot`, `sending`, `succeeded`, `failed`, `refused`, `unknown` or `cancelled`.
    pub state: String,
    /// Why, as a code; empty where there is nothing to say.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Rates that a job can have, a second.
pub(super) const RATES: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;

const COLUMNS: &str = "number, query, destination, again, rate, who, state, run, incomplete, \
                       created, began, ended, cursor";

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let state: String = row.get(6)?;
    Ok(Job {
        number: row.get(0)?,
        query: row.get(1)?,
        destination: row.get(2)?,
        again: row.get(3)?,
        rate: row.get(4)?,
        who: row.get(5)?,
        state: JobState::of(&state),
        run: row.get(7)?,
        incomplete: row.get(8)?,
        created: row.get(9)?,
        began: row.get(10)?,
        ended: row.get(11)?,
        cursor: row.get(12)?,
    })
}

pub(super) fn get(db: &Connection, number: i64) -> rusqlite::Result<Option<Job>> {
    let sql = format!("SELECT {COLUMNS} FROM job WHERE number = ?");
    db.prepare_cached(&sql)?.query_row([number], job).optional()
}

impl Ledger {
    /// One job.
    ///
    /// # Errors
    /// The database fails.
    pub fn job(&self, number: i64) -> rusqlite::Result<Option<Job>> {
        get(&self.lock(), number)
    }

    /// The last jobs, newest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn jobs(&self, limit: usize) -> rusqlite::Result<Vec<Job>> {
        let db = self.lock();
        let sql = format!("SELECT {COLUMNS} FROM job ORDER BY number DESC LIMIT ?");
        db.prepare_cached(&sql)?.query_map([limit as i64], job)?.collect()
    }

    /// How many transactions of a job are in which state, and why.
    ///
    /// # Errors
    /// The database fails.
    pub fn counted(&self, number: i64) -> rusqlite::Result<Vec<Counted>> {
        let db = self.lock();
        let mut select = db.prepare_cached(
            "SELECT state, reason, count(*) FROM job_item WHERE job = ? GROUP BY state, reason",
        )?;
        let row = |row: &Row<'_>| {
            Ok(Counted { state: row.get(0)?, reason: row.get(1)?, count: row.get(2)? })
        };
        select.query_map([number], row)?.collect()
    }

    /// The oldest job that does this.
    pub(super) fn oldest(&self, state: JobState) -> rusqlite::Result<Option<Job>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM job INDEXED BY job_active
             WHERE state IN ('previewing', 'running') AND state = ? ORDER BY number LIMIT 1"
        );
        self.lock().prepare_cached(&sql)?.query_row([state.name()], job).optional()
    }
}

impl Resubmitter {
    /// Makes a job, which then previews itself.
    ///
    /// # Errors
    /// The database fails.
    pub fn new_job(&self, new: &NewJob, who: &str) -> rusqlite::Result<Job> {
        let rate = new.rate.clamp(*RATES.start(), *RATES.end());
        let made = self.shared.ledger.write(|db| {
            db.execute(
                "INSERT INTO job (query, destination, again, rate, who, state, run, cursor,
                 incomplete, created) VALUES (?, ?, ?, ?, ?, 'previewing', ?, '', 0, ?)",
                params![new.query, new.destination, new.again, rate, who, new.run, super::now_us()],
            )?;
            get(db, db.last_insert_rowid())
        })?;
        self.shared.counts.made.fetch_add(1, Ordering::Relaxed);
        self.shared.wake();
        made.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Does something with a job; gives it as it is then, or as it was if that cannot be done with
    /// it, and whether it was done.
    ///
    /// # Errors
    /// The database fails.
    pub fn act(&self, number: i64, action: JobAction) -> rusqlite::Result<Option<(Job, bool)>> {
        let mut cancelled = false;
        let done = self.shared.ledger.write(|db| {
            let Some(job) = get(db, number)? else { return Ok(None) };
            let done = match action {
                JobAction::Run { rate, again } => run(db, &job, rate, again)?,
                JobAction::Pause => pause(db, &job)?,
                JobAction::Cancel => cancel(db, &job)?,
            };
            let ends = action == JobAction::Cancel && job.state != JobState::Cancelled;
            cancelled = done && ends;
            Ok(get(db, number)?.map(|job| (job, done)))
        })?;
        self.shared.counts.cancelled.fetch_add(u64::from(cancelled), Ordering::Relaxed);
        self.shared.wake();
        Ok(done)
    }
}

fn set_state(db: &Connection, job: &Job, state: JobState) -> rusqlite::Result<()> {
    let mut update = db.prepare_cached("UPDATE job SET state = ? WHERE number = ?")?;
    update.execute(params![state.name(), job.number]).map(|_| ())
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
    // What was not sent for a reason that may have passed.
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
                  AND reason IN ('settled', 'unknown', 'succeeded')))",
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

/// A transaction of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) place: i64,
    pub(super) id: u128,
    pub(super) address: weir_journal::Address,
}

/// What a preview found of a transaction.
pub(super) struct Found {
    pub(super) id: u128,
    pub(super) address: Option<weir_journal::Address>,
    pub(super) reason: Option<super::Reason>,
}

/// Notes a page of the preview, and where it goes on; without that the preview is over.
pub(super) fn note_page(
    db: &Connection,
    job: &Job,
    found: &[Found],
    next: Option<&str>,
    incomplete: bool,
) -> rusqlite::Result<()> {
    let mut last =
        db.prepare_cached("SELECT coalesce(max(place), 0) FROM job_item WHERE job = ?")?;
    let mut place: i64 = last.query_row([job.number], |row| row.get(0))?;
    let mut insert = db.prepare_cached(
        "INSERT INTO job_item (job, place, id, lane, position, state, reason)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for one in found {
        place += 1;
        let before = ledger::hindrance(db, one.id, job.again)?;
        let reason = one.reason.clone().or(before);
        let (lane, position) =
            one.address.map_or((0, 0), |at| (at.lane, at.position.to_bits() as i64));
        let state = if reason.is_some() { "cannot" } else { "pending" };
        let reason = reason.map(|reason| reason.code()).unwrap_or_default();
        let id = one.id.to_be_bytes();
        insert.execute(params![job.number, place, id, lane, position, state, reason])?;
    }
    let over = next.is_none() || place >= MOST_ITEMS;
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
}

/// Most transactions of a job.
const MOST_ITEMS: i64 = 1_000_000;

/// The next ones to be sent, the oldest first. By the index: what was sent stands before them.
pub(super) fn next_items(db: &Connection, job: i64, limit: usize) -> rusqlite::Result<Vec<Item>> {
    let mut select = db.prepare_cached(
        "SELECT place, id, lane, position FROM job_item INDEXED BY job_item_state
         WHERE job = ? AND state = 'pending' AND reason = '' ORDER BY place DESC LIMIT ?",
    )?;
    let rows = select.query_map(params![job, limit as i64], |row| {
        let position: i64 = row.get(3)?;
        let position = weir_journal::Position::from_bits(position as u64);
        let address = weir_journal::Address { lane: row.get(2)?, position };
        let id = row.get::<_, [u8; 16]>(1).map(u128::from_be_bytes)?;
        Ok(Item { place: row.get(0)?, id, address })
    })?;
    rows.collect()
}

pub(super) fn set_item(
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

/// Ends a job of which nothing is left to be sent or answered.
pub(super) fn end_if_done(db: &Connection, job: i64) -> rusqlite::Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE job SET state = 'finished', ended = ?1 WHERE number = ?2 AND state = 'running'
         AND NOT EXISTS (SELECT 1 FROM job_item WHERE job = ?2 AND state IN ('pending', 'sending'))",
    )?;
    Ok(update.execute(params![now_us(), job])? > 0)
}
