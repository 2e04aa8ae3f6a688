//! Transactions of a job of the fleet as a list, and jobs that retry those of another one.

use crate::Handle;
use crate::database::{Connection, DatabaseError, Parameter, Transaction, bounded};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_model::{TransactionId, UnixMicros};
use weir_store::clock::now_us;
use weir_store::ledger::{
    ItemState, Job, JobState, JobTransaction, JobTransactions, ListItems, NewJob, RetryBlocker,
    RetryJob, reason_words, states_text,
};

/// Transactions of a retry that are inserted by a statement.
const RETRY_CHUNK: i64 = 20_000;

impl Handle {
    /// A page of the transactions of a job.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn job_transactions(
        &self,
        job: &Job,
        list: &ListItems,
    ) -> Result<JobTransactions, DatabaseError> {
        self.report_on(async |connection| page(connection, job, list).await).await
    }

    /// Creates a job that retries transactions of another one: as a preview, or running.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn retry_job(
        &self,
        number: i64,
        retry: &RetryJob,
        who: &str,
    ) -> Result<Result<Job, RetryBlocker>, DatabaseError> {
        let Some(original) = self.job(number).await? else {
            return Ok(Err(RetryBlocker::NoJob));
        };
        let created =
            self.report_on(async |connection| create(connection, &original, retry, who).await);
        let created = match created.await? {
            Ok(created) => created,
            Err(blocker) => return Ok(Err(blocker)),
        };
        self.shared.job_work.notify_one();
        self.job(created).await?.map(Ok).ok_or(DatabaseError::Missing)
    }
}

async fn page(
    connection: &Connection,
    job: &Job,
    list: &ListItems,
) -> Result<JobTransactions, DatabaseError> {
    let selected = job.transactions.iter().filter(|one| list.selects(&one.state, &one.reason));
    let matching = selected.map(|group| group.count).sum();
    let states: Vec<&str> = list.states.iter().map(AsRef::as_ref).collect();
    let after = list.after.map_or(Uuid::max(), Uuid::from_u128);
    let limit = bounded(list.limit as u64).saturating_add(1);
    // Ids are in the order of time. The boundary of the first page is an id that no transaction has.
    let sql = "SELECT i.original, i.state, i.reason, i.attempt, coalesce(a.status, 0),
             (extract(epoch FROM a.began) * 1000000)::bigint,
             (extract(epoch FROM a.ended) * 1000000)::bigint, coalesce(n.name, '')
         FROM (SELECT original, node, state, reason, attempt FROM weir.job_item
             WHERE job = $1 AND original < $2 AND (cardinality($3) = 0 OR state = ANY ($3))
                 AND ($4 IS NULL OR reason = $4)
             ORDER BY original DESC LIMIT $5) i
         LEFT JOIN weir.attempt a ON a.id = i.attempt
         LEFT JOIN weir.node n ON n.id = i.node
         ORDER BY i.original DESC";
    let parameters: [Parameter<'_>; 5] = [
        (&job.number, Type::INT8),
        (&after, Type::UUID),
        (&states, Type::TEXT_ARRAY),
        (&list.reason, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = connection.query(sql, &parameters).await?;
    let mut transactions =
        rows.iter().map(|row| read(row, job)).collect::<Result<Vec<_>, DatabaseError>>()?;
    let has_more = transactions.len() > list.limit;
    transactions.truncate(list.limit);
    let last = transactions.last().map(|one| one.transaction);
    Ok(JobTransactions { transactions, matching, next: last.filter(|_| has_more) })
}

fn read(row: &Row, job: &Job) -> Result<JobTransaction, DatabaseError> {
    let id = |id: Uuid| TransactionId(id.as_u128());
    let time = |micros: i64| UnixMicros(micros.unsigned_abs());
    let state = row.try_get::<_, &str>(1)?.parse().unwrap_or(ItemState::Unknown);
    let reason: String = row.try_get(2)?;
    let mut one = JobTransaction {
        transaction: id(row.try_get(0)?),
        state,
        words: reason_words(&reason),
        reason,
        attempt: None,
        status: 0,
        destination: String::new(),
        node: row.try_get(7)?,
        started: None,
        ended: None,
    };
    // One of an earlier run does not belong to a transaction that is to be sent.
    if let Some(attempt) = row.try_get::<_, Option<Uuid>>(3)?.filter(|_| state.is_attempted()) {
        one.attempt = Some(id(attempt));
        one.status = u16::try_from(row.try_get::<_, i32>(4)?).unwrap_or_default();
        one.destination.clone_from(&job.destination);
        one.started = row.try_get::<_, Option<i64>>(5)?.map(time);
        one.ended = row.try_get::<_, Option<i64>>(6)?.map(time);
    }
    Ok(one)
}

/// Creates the job with its items in one transaction, so that it is never previewed: a node of the release
/// before would do that with the query, which it does not have.
async fn create(
    connection: &mut Connection,
    original: &Job,
    retry: &RetryJob,
    who: &str,
) -> Result<Result<i64, RetryBlocker>, DatabaseError> {
    let transaction = connection.transaction().await?;
    // Until the end of the transaction it is not run.
    let sql = "SELECT state FROM weir.job WHERE number = $1 FOR SHARE";
    let rows = transaction.query(sql, &[(&original.number, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(Err(RetryBlocker::NoJob)) };
    let state = row.try_get::<_, &str>(0)?.parse().unwrap_or(JobState::Cancelled);
    if let Some(blocker) = RetryBlocker::of(state) {
        return Ok(Err(blocker));
    }
    let number = insert(&transaction, original, retry, who).await?;
    let found = copy_items(&transaction, (original.number, number), &retry.states).await?;
    if found == 0 {
        return Ok(Err(RetryBlocker::Nothing));
    }
    let found = bounded(found);
    let sql = "UPDATE weir.job SET found = $2 WHERE number = $1";
    transaction.execute(sql, &[(&number, Type::INT8), (&found, Type::INT8)]).await?;
    transaction.commit().await?;
    Ok(Ok(number))
}

async fn insert(
    transaction: &Transaction<'_>,
    original: &Job,
    retry: &RetryJob,
    who: &str,
) -> Result<i64, DatabaseError> {
    let NewJob { query, rate, destination, again, run } = retry.job(original);
    let (states, now) = (states_text(&retry.states), bounded(now_us()));
    let state = if run { JobState::Running } else { JobState::Previewed };
    let (state, began) = (state.as_ref(), run.then_some(now));
    let sql =
        "INSERT INTO weir.job (query, destination, again, rate, who, state, run, created, began,
             retry_of, retry_states)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING number";
    let parameters: [Parameter<'_>; 11] = [
        (&query, Type::TEXT),
        (&destination, Type::TEXT),
        (&again, Type::BOOL),
        (&rate, Type::FLOAT8),
        (&who, Type::TEXT),
        (&state, Type::TEXT),
        (&run, Type::BOOL),
        (&now, Type::INT8),
        (&began, Type::INT8),
        (&original.number, Type::INT8),
        (&states, Type::TEXT),
    ];
    Ok(transaction.one(sql, &parameters).await?.try_get(0)?)
}

/// Copies the items in these states, with the reason for which one is not sent now. Returns their number.
async fn copy_items(
    transaction: &Transaction<'_>,
    (original, number): (i64, i64),
    states: &[ItemState],
) -> Result<u64, DatabaseError> {
    let with_unknown = states.contains(&ItemState::Unknown);
    let states: Vec<&str> = states.iter().map(AsRef::as_ref).collect();
    let sql = "WITH page AS (
             SELECT original, node, lane, position FROM weir.job_item
             WHERE job = $1 AND state = ANY ($3) AND original > $4 ORDER BY original LIMIT $5
         ), checked AS (
             SELECT p.*, CASE
                 WHEN EXISTS (SELECT FROM weir.attempt a
                     WHERE a.original = p.original AND a.state = 'sending') THEN 'sending'
                 WHEN NOT $6 AND EXISTS (SELECT FROM weir.attempt a
                     WHERE a.original = p.original AND a.state = 'unknown') THEN 'unknown'
                 WHEN EXISTS (SELECT FROM weir.resolution r
                     WHERE r.id = p.original AND r.state <> 'open') THEN 'settled'
                 ELSE '' END AS reason
             FROM page p
         ), added AS (
             INSERT INTO weir.job_item (job, original, node, lane, position, state, reason)
             SELECT $2, original, node, lane, position,
                 CASE reason WHEN '' THEN 'pending' ELSE 'cannot' END, reason
             FROM checked
         )
         SELECT count(*), (SELECT original FROM page ORDER BY original DESC LIMIT 1) FROM page";
    let (mut found, mut after) = (0, Uuid::nil());
    loop {
        let parameters: [Parameter<'_>; 6] = [
            (&original, Type::INT8),
            (&number, Type::INT8),
            (&states, Type::TEXT_ARRAY),
            (&after, Type::UUID),
            (&RETRY_CHUNK, Type::INT8),
            (&with_unknown, Type::BOOL),
        ];
        let row = transaction.one(sql, &parameters).await?;
        let count: i64 = row.try_get(0)?;
        found += count.unsigned_abs();
        match row.try_get(1)? {
            Some(last) if count == RETRY_CHUNK => after = last,
            _ => return Ok(found),
        }
    }
}
