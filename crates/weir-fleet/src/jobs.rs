//! Jobs of the fleet: bulk resubmission of what a query finds on any node.
//!
//! A job and its items are rows of the database. The node that has the lease of the job finds the items on
//! all nodes and has them sent, each by the node that has the transaction: that node takes the item, in the
//! transaction in which it claims the attempt. What becomes of an attempt is copied from its database.

mod item;
mod lease;

pub use lease::{JobCursor, JobLease, LeasedJob, Leases, PageItem, PendingItem};

use crate::Handle;
use crate::database::{Connection, DatabaseError, Parameter, Transaction, bounded};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use weir_model::UnixMicros;
use weir_store::clock::now_us;
use weir_store::ledger::{
    DEFAULT_RATE, Job, JobAction, JobState, MAX_RETRIES, NewJob, RATES, StateCount, read_states,
    reason_words,
};

/// A job, and the node that runs it.
const SELECT: &str =
    "SELECT j.number, j.query, j.destination, j.again, j.rate, j.who, j.state, j.run,
        j.incomplete, j.created, j.began, j.ended, coalesce(n.name, ''), j.retry_of, j.retry_states
    FROM weir.job j
    LEFT JOIN weir.task t ON t.name = 'job-' || j.number AND t.until > now()
        AND j.state IN ('previewing', 'running')
    LEFT JOIN weir.node n ON n.id = t.owner";

fn job(row: &Row) -> Result<Job, tokio_postgres::Error> {
    let time = |micros: i64| UnixMicros(micros.unsigned_abs());
    Ok(Job {
        number: row.try_get(0)?,
        query: row.try_get(1)?,
        destination: row.try_get(2)?,
        again: row.try_get(3)?,
        rate: row.try_get(4)?,
        who: row.try_get(5)?,
        state: row.try_get::<_, &str>(6)?.parse().unwrap_or(JobState::Cancelled),
        run: row.try_get(7)?,
        incomplete: row.try_get(8)?,
        transactions: Vec::new(),
        created: time(row.try_get(9)?),
        started: row.try_get::<_, Option<i64>>(10)?.map(time),
        ended: row.try_get::<_, Option<i64>>(11)?.map(time),
        cursor: String::new(),
        node: row.try_get(12)?,
        retry_of: row.try_get(13)?,
        retry_states: read_states(row.try_get(14)?),
        retries: Vec::new(),
        waits_for: Vec::new(),
    })
}

impl Handle {
    /// Creates a job, which is previewed first.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn new_job(&self, new: &NewJob, who: &str) -> Result<Job, DatabaseError> {
        let number = self.report_on(async |connection| insert(connection, new, who).await).await?;
        self.shared.job_work.notify_one();
        self.job(number).await?.ok_or(DatabaseError::Missing)
    }

    /// Carries out a command. Returns the job afterwards and whether its state allowed the command;
    /// `None` if there is no such job.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn act_on_job(
        &self,
        number: i64,
        action: JobAction,
    ) -> Result<Option<(Job, bool)>, DatabaseError> {
        let done = self.report_on(async |connection| act(connection, number, action).await).await?;
        self.shared.job_work.notify_one();
        let Some(done) = done else { return Ok(None) };
        Ok(self.job(number).await?.map(|job| (job, done)))
    }

    /// One job, with the numbers of its transactions.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn job(&self, number: i64) -> Result<Option<Job>, DatabaseError> {
        let sql = format!("{SELECT} WHERE j.number = $1");
        let parameters: [Parameter<'_>; 1] = [(&number, Type::INT8)];
        let jobs = self.report_on(async |connection| read(connection, &sql, &parameters).await);
        Ok(jobs.await?.pop())
    }

    /// The last jobs, newest first, with the numbers of their transactions.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn jobs(&self, limit: usize) -> Result<Vec<Job>, DatabaseError> {
        let sql = format!("{SELECT} ORDER BY j.number DESC LIMIT $1");
        let limit = bounded(limit as u64);
        let parameters: [Parameter<'_>; 1] = [(&limit, Type::INT8)];
        self.report_on(async |connection| read(connection, &sql, &parameters).await).await
    }
}

async fn insert(connection: &Connection, new: &NewJob, who: &str) -> Result<i64, DatabaseError> {
    let rate = new.rate.unwrap_or(DEFAULT_RATE).clamp(*RATES.start(), *RATES.end());
    let destination = new.destination.as_deref().unwrap_or_default();
    let created = bounded(now_us());
    let sql = "INSERT INTO weir.job (query, destination, again, rate, who, state, run, created)
         VALUES ($1, $2, $3, $4, $5, 'previewing', $6, $7) RETURNING number";
    let parameters: [Parameter<'_>; 7] = [
        (&new.query, Type::TEXT),
        (&destination, Type::TEXT),
        (&new.again, Type::BOOL),
        (&rate, Type::FLOAT8),
        (&who, Type::TEXT),
        (&new.run, Type::BOOL),
        (&created, Type::INT8),
    ];
    Ok(connection.one(sql, &parameters).await?.try_get(0)?)
}

/// The jobs of a query, with the numbers of their transactions.
async fn read(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Job>, DatabaseError> {
    let rows = connection.query(sql, parameters).await?;
    let mut jobs: Vec<Job> = rows.iter().map(job).collect::<Result<_, _>>()?;
    let numbers: Vec<i64> = jobs.iter().map(|job| job.number).collect();
    let numbers: [Parameter<'_>; 1] = [(&numbers, Type::INT8_ARRAY)];
    let sql = "SELECT job, state, reason, count(*) FROM weir.job_item WHERE job = ANY ($1)
         GROUP BY job, state, reason ORDER BY job, state, reason";
    let mut counts: HashMap<i64, Vec<StateCount>> = HashMap::new();
    for row in connection.query(sql, &numbers).await? {
        let (state, reason): (String, String) = (row.try_get(1)?, row.try_get(2)?);
        let words = reason_words(&reason);
        let count = row.try_get::<_, i64>(3)?.unsigned_abs();
        let counted = StateCount { state, reason, words, count };
        counts.entry(row.try_get(0)?).or_default().push(counted);
    }
    let sql = "SELECT j.number, n.name FROM weir.job j, weir.node n
         WHERE j.number = ANY ($1) AND j.state = 'running' AND n.until <= now() AND EXISTS (
             SELECT FROM weir.job_item i
             WHERE i.job = j.number AND i.state = 'pending' AND i.node = n.id)
         ORDER BY n.name";
    let mut down: HashMap<i64, Vec<String>> = HashMap::new();
    for row in connection.query(sql, &numbers).await? {
        down.entry(row.try_get(0)?).or_default().push(row.try_get(1)?);
    }
    let sql =
        "SELECT retry_of, number FROM weir.job WHERE retry_of = ANY ($1) ORDER BY number DESC";
    let mut retries: HashMap<i64, Vec<i64>> = HashMap::new();
    for row in connection.query(sql, &numbers).await? {
        let of = retries.entry(row.try_get(0)?).or_default();
        if of.len() < MAX_RETRIES {
            of.insert(0, row.try_get(1)?);
        }
    }
    for job in &mut jobs {
        job.retries = retries.remove(&job.number).unwrap_or_default();
        job.transactions = counts.remove(&job.number).unwrap_or_default();
        job.waits_for = down.remove(&job.number).unwrap_or_default();
    }
    Ok(jobs)
}

/// Whether the state of the job allowed a command; `None` if there is no such job.
async fn act(
    connection: &mut Connection,
    number: i64,
    action: JobAction,
) -> Result<Option<bool>, DatabaseError> {
    let transaction = connection.transaction().await?;
    let sql = "SELECT state FROM weir.job WHERE number = $1 FOR UPDATE";
    let rows = transaction.query(sql, &[(&number, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let state = row.try_get::<_, &str>(0)?.parse().unwrap_or(JobState::Cancelled);
    let done = match action {
        JobAction::Run { rate, again } => run(&transaction, number, state, (rate, again)).await?,
        JobAction::Pause => pause(&transaction, number, state).await?,
        JobAction::Cancel => cancel(&transaction, number, state).await?,
    };
    transaction.commit().await?;
    Ok(Some(done))
}

async fn run(
    transaction: &Transaction<'_>,
    number: i64,
    state: JobState,
    (rate, again): (Option<f64>, bool),
) -> Result<bool, DatabaseError> {
    if state == JobState::Cancelled {
        return Ok(false);
    }
    let rate = rate.map(|rate| rate.clamp(*RATES.start(), *RATES.end()));
    let runs = state != JobState::Previewing;
    let now = bounded(now_us());
    let sql = "UPDATE weir.job SET run = true, rate = coalesce($2, rate), again = again OR $3,
             state = CASE WHEN $4 THEN 'running' ELSE state END,
             began = CASE WHEN $4 THEN coalesce(began, $5) ELSE began END,
             ended = CASE WHEN $4 THEN NULL ELSE ended END
         WHERE number = $1";
    let parameters: [Parameter<'_>; 5] = [
        (&number, Type::INT8),
        (&rate, Type::FLOAT8),
        (&again, Type::BOOL),
        (&runs, Type::BOOL),
        (&now, Type::INT8),
    ];
    transaction.execute(sql, &parameters).await?;
    // Transactions that were not sent for a reason that may have passed.
    let sql = "UPDATE weir.job_item SET state = 'pending', reason = '' WHERE job = $1 AND (
             state IN ('cannot', 'refused')
                 AND reason IN ('limit-reached', 'rejected:journal-full', 'sending')
             OR $2 AND (state = 'unknown' OR state IN ('cannot', 'refused')
                 AND reason IN ('settled', 'unknown', 'succeeded', 'newer-attempt')))";
    let parameters: [Parameter<'_>; 2] = [(&number, Type::INT8), (&again, Type::BOOL)];
    transaction.execute(sql, &parameters).await?;
    Ok(true)
}

async fn pause(
    transaction: &Transaction<'_>,
    number: i64,
    state: JobState,
) -> Result<bool, DatabaseError> {
    let sql = match state {
        JobState::Running => "UPDATE weir.job SET state = 'paused' WHERE number = $1",
        JobState::Previewing => "UPDATE weir.job SET run = false WHERE number = $1",
        JobState::Previewed | JobState::Paused => return Ok(true),
        JobState::Cancelled | JobState::Finished => return Ok(false),
    };
    transaction.execute(sql, &[(&number, Type::INT8)]).await?;
    Ok(true)
}

async fn cancel(
    transaction: &Transaction<'_>,
    number: i64,
    state: JobState,
) -> Result<bool, DatabaseError> {
    if state == JobState::Finished {
        return Ok(false);
    }
    let now = bounded(now_us());
    let sql = "UPDATE weir.job SET state = 'cancelled', ended = coalesce(ended, $2)
         WHERE number = $1";
    transaction.execute(sql, &[(&number, Type::INT8), (&now, Type::INT8)]).await?;
    let sql = "UPDATE weir.job_item SET state = 'cancelled' WHERE job = $1 AND state = 'pending'";
    transaction.execute(sql, &[(&number, Type::INT8)]).await?;
    Ok(true)
}

/// Drops jobs that have ended, or were never run, longer ago than `keep`, and their leases.
pub(crate) async fn purge(connection: &Connection, keep: Duration) -> Result<(), DatabaseError> {
    let first = weir_store::clock::now().saturating_sub(keep).as_micros();
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let sql = "DELETE FROM weir.job WHERE coalesce(ended, created) < $1
         AND state NOT IN ('previewing', 'running')";
    connection.execute(sql, &[(&first, Type::INT8)]).await?;
    let sql = "DELETE FROM weir.task t WHERE t.name LIKE 'job-%' AND t.until <= now()
         AND NOT EXISTS (SELECT FROM weir.job j WHERE t.name = 'job-' || j.number)";
    connection.execute(sql, &[]).await.map(drop)
}
