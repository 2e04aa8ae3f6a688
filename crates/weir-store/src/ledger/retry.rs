//! Transactions of a job as a list, and jobs that retry those of another one.

use super::item::{ItemState, reason_words, states_text};
use super::job::{find_job, insert_job, read_item};
use super::{Job, JobItem, JobState, Ledger, NewJob, id};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::{TransactionId, UnixMicros};

/// Which transactions of a job are listed.
#[derive(Clone, Debug, Default)]
pub struct ListItems {
    /// In these states; empty: all.
    pub states: Vec<ItemState>,
    /// With this code of a reason.
    pub reason: Option<String>,
    /// After this transaction.
    pub after: Option<u128>,
    /// At most this many.
    pub limit: usize,
}

impl ListItems {
    /// Whether transactions with this state and reason are listed.
    #[must_use]
    pub fn selects(&self, state: &str, reason: &str) -> bool {
        let is_state = |one: &ItemState| one.as_ref() == state;
        (self.states.is_empty() || self.states.iter().any(is_state))
            && self.reason.as_ref().is_none_or(|code| code == reason)
    }
}

/// A page of the transactions of a job, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobTransactions {
    /// The transactions.
    pub transactions: Vec<JobTransaction>,
    /// Number of transactions of the job that the filter selects, on all pages; of the first page only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<u64>,
    /// `after` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<TransactionId>,
}

/// A transaction of a job, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobTransaction {
    /// The transaction that is sent again.
    #[schema(value_type = String)]
    pub transaction: TransactionId,
    /// `pending`, `cannot` (rejected by the preview), `sending`, `succeeded`, `failed` (sent, with
    /// another status), `refused` (rejected, not sent), `unknown` (it may have been sent) or
    /// `cancelled`.
    pub state: ItemState,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Transaction id of the last attempt of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub attempt: Option<TransactionId>,
    /// Status of the response, 0 without a response.
    pub status: u16,
    /// Operation of the other route, if it was sent there.
    #[serde(default, rename = "to", skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Node of the fleet that has the transaction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Start of the attempt (RFC 3339, UTC).
    #[serde(default, rename = "began", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub started: Option<UnixMicros>,
    /// End of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ended: Option<UnixMicros>,
}

/// A job that retries transactions of another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryJob {
    /// Which transactions: `failed`, and of those that were not or perhaps not sent `unknown`, `cannot`,
    /// `refused` and `cancelled`; default `failed`.
    pub states: Vec<ItemState>,
    /// Requests per second; default: that of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Include transactions that were sent, resolved or dismissed since, and those whose last attempt is
    /// `unknown`.
    pub again: bool,
    /// Run after the preview.
    pub run: bool,
}

impl Default for RetryJob {
    fn default() -> Self {
        Self { states: vec![ItemState::Failed], rate: None, again: false, run: false }
    }
}

impl RetryJob {
    /// The job to be created for the retry of another one.
    #[must_use]
    pub fn job(&self, original: &Job) -> NewJob {
        NewJob {
            query: String::new(),
            rate: Some(self.rate.unwrap_or(original.rate)),
            destination: Some(original.destination.clone()),
            again: self.again,
            run: self.run,
        }
    }
}

/// Why a job cannot be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBlocker {
    /// There is no such job.
    NoJob,
    /// It is being previewed, or runs: its transactions may still change.
    Active(JobState),
    /// It has no transaction in one of the states.
    Nothing,
}

impl RetryBlocker {
    /// Why a job in this state cannot be retried.
    #[must_use]
    pub fn of(state: JobState) -> Option<Self> {
        let is_active = matches!(state, JobState::Previewing | JobState::Running);
        is_active.then_some(Self::Active(state))
    }
}

impl Ledger {
    /// A page of the transactions of a job; none if there is no such job. The groups of state and reason that
    /// are selected are read by their index, and merged.
    ///
    /// # Errors
    /// The database fails.
    pub fn job_transactions(
        &self,
        job: i64,
        list: &ListItems,
    ) -> rusqlite::Result<Option<JobTransactions>> {
        let db = self.connection.lock();
        if find_job(&db, job)?.is_none() {
            return Ok(None);
        }
        let groups = groups(&db, job, list)?;
        let (after, matching) = match list.after {
            None => (0, Some(count(&db, job, &groups)?)),
            Some(after) => (place(&db, job, after)?.unwrap_or(i64::MAX), None),
        };
        let mut select = db.prepare_cached(
            "SELECT place, id, state, reason FROM job_item INDEXED BY job_item_state
             WHERE job = ? AND state = ? AND reason = ? AND place > ? ORDER BY place LIMIT ?",
        )?;
        let limit = list.limit.saturating_add(1);
        let mut found: Vec<(i64, JobTransaction)> = Vec::new();
        for (state, reason) in groups {
            let values = params![job, state, reason, after, limit as i64];
            for row in select.query_map(values, |row| Ok((row.get(0)?, item(row)?)))? {
                found.push(row?);
            }
            found.sort_unstable_by_key(|(place, _)| *place);
            found.truncate(limit);
        }
        let has_more = found.len() > list.limit;
        found.truncate(list.limit);
        let mut transactions: Vec<_> = found.into_iter().map(|(_, one)| one).collect();
        for one in transactions.iter_mut().filter(|one| one.state.is_attempted()) {
            add_attempt(&db, job, one)?;
        }
        let last = transactions.last().map(|one| one.transaction);
        Ok(Some(JobTransactions { transactions, matching, next: last.filter(|_| has_more) }))
    }

    /// Creates a job that retries transactions of another one, which is previewed first.
    ///
    /// # Errors
    /// The database fails.
    pub fn retry(
        &self,
        number: i64,
        retry: &RetryJob,
        who: &str,
    ) -> rusqlite::Result<Result<Job, RetryBlocker>> {
        let states = states_text(&retry.states);
        self.write(|db| {
            let Some(original) = find_job(db, number)? else {
                return Ok(Err(RetryBlocker::NoJob));
            };
            if let Some(blocker) = RetryBlocker::of(original.state) {
                return Ok(Err(blocker));
            }
            if next_of(db, number, &states, 0, 1)?.is_empty() {
                return Ok(Err(RetryBlocker::Nothing));
            }
            let created = insert_job(db, &retry.job(&original), who)?;
            db.execute(
                "UPDATE job SET retry_of = ?, retry_states = ? WHERE number = ?",
                params![number, states, created],
            )?;
            find_job(db, created)?.map(Ok).ok_or(rusqlite::Error::QueryReturnedNoRows)
        })
    }

    /// The next transactions of the job that this one retries.
    ///
    /// # Errors
    /// The database fails.
    pub fn next_to_retry(&self, job: &Job, limit: usize) -> rusqlite::Result<Vec<JobItem>> {
        let Some(original) = job.retry_of else { return Ok(Vec::new()) };
        let (states, after) = (states_text(&job.retry_states), job.cursor.parse().unwrap_or(0));
        next_of(&self.connection.lock(), original, &states, after, limit)
    }
}

/// The next transactions of a job after a place, in one of the states, each with what a retry of it is based
/// on. A transaction that the job did not send has the base that it had in the job.
fn next_of(
    db: &Connection,
    job: i64,
    states: &str,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<JobItem>> {
    let mut select = db.prepare_cached(
        "SELECT place, id, lane, position, coalesce(attempted, base, created),
             again OR accepted OR attempted IS NOT NULL
         FROM (SELECT i.*, j.created, j.again,
                 (SELECT max(a.began) FROM attempt a
                  WHERE a.original = i.id AND a.job = i.job AND a.state <> 'refused') AS attempted
             FROM job_item i JOIN job j ON j.number = i.job
             WHERE i.job = ?1 AND i.place > ?2
                 AND instr(',' || ?3 || ',', ',' || i.state || ',') > 0
             ORDER BY i.place LIMIT ?4)
         ORDER BY place",
    )?;
    let rows = select.query_map(params![job, after, states, limit as i64], read_item)?;
    rows.collect()
}

/// The pairs of state and reason of a job that are selected. Each is one step in the index: the transactions
/// of a pair are not read.
fn groups(db: &Connection, job: i64, list: &ListItems) -> rusqlite::Result<Vec<(String, String)>> {
    let mut select = db.prepare_cached(
        "SELECT state, reason FROM job_item INDEXED BY job_item_state
         WHERE job = ?1 AND (state, reason) > (?2, ?3) ORDER BY state, reason LIMIT 1",
    )?;
    let (mut found, mut last) = (Vec::new(), (String::new(), String::new()));
    loop {
        let next = select.query_row(params![job, last.0, last.1], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        let Some(next) = next.optional()? else { return Ok(found) };
        if list.selects(&next.0, &next.1) {
            found.push(next.clone());
        }
        last = next;
    }
}

fn count(db: &Connection, job: i64, groups: &[(String, String)]) -> rusqlite::Result<u64> {
    let mut select = db.prepare_cached(
        "SELECT count(*) FROM job_item INDEXED BY job_item_state
         WHERE job = ? AND state = ? AND reason = ?",
    )?;
    let counts = groups.iter().map(|(state, reason)| {
        select.query_row(params![job, state, reason], |row| row.get::<_, u64>(0))
    });
    counts.sum()
}

fn place(db: &Connection, job: i64, transaction: u128) -> rusqlite::Result<Option<i64>> {
    let mut select =
        db.prepare_cached("SELECT max(place) FROM job_item WHERE job = ? AND id = ?")?;
    select.query_row(params![job, transaction.to_be_bytes()], |row| row.get(0))
}

fn item(row: &Row<'_>) -> rusqlite::Result<JobTransaction> {
    let (state, reason): (String, String) = (row.get(2)?, row.get(3)?);
    Ok(JobTransaction {
        transaction: TransactionId(id(row, 1)?),
        state: state.parse().unwrap_or(ItemState::Unknown),
        words: reason_words(&reason),
        reason,
        attempt: None,
        status: 0,
        destination: String::new(),
        node: String::new(),
        started: None,
        ended: None,
    })
}

/// Adds the last attempt of the job. A reason of the item says why it was not sent, one of the attempt why
/// the response is not that of the upstream.
fn add_attempt(db: &Connection, job: i64, one: &mut JobTransaction) -> rusqlite::Result<()> {
    let mut select = db.prepare_cached(
        "SELECT id, status, reason, destination, began, ended FROM attempt
         WHERE original = ? AND job = ? ORDER BY number DESC LIMIT 1",
    )?;
    let mut rows = select.query(params![one.transaction.0.to_be_bytes(), job])?;
    let Some(row) = rows.next()? else { return Ok(()) };
    one.attempt = Some(TransactionId(id(row, 0)?));
    one.status = row.get(1)?;
    if one.reason.is_empty() {
        one.reason = row.get(2)?;
    }
    one.destination = row.get(3)?;
    one.started = Some(UnixMicros(row.get(4)?));
    one.ended = row.get::<_, Option<u64>>(5)?.map(UnixMicros);
    Ok(())
}
