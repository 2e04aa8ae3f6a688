//! Transactions of a job of the fleet as a list, and jobs that retry those of another one.

use super::{SELECT, job};
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
    /// A page of the transactions of a job; `None` if there is no such job.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn job_transactions(
        &self,
        job: i64,
        list: &ListItems,
    ) -> Result<Option<JobTransactions>, DatabaseError> {
        self.report_on(async |connection| page(connection, job, list).await).await
    }

    /// Creates a job that retries transactions of another one: as a preview, or running. That takes a
    /// connection of its own: with many transactions it would hold up other requests.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn retry_job(
        &self,
        number: i64,
        retry: &RetryJob,
        who: &str,
    ) -> Result<Result<Job, RetryBlocker>, DatabaseError> {
        let connect = self.shared.settings.lock().connect.clone();
        let mut connection = Connection::open(&connect).await?;
        let created = match create(&mut connection, number, retry, who).await? {
            Ok(created) => created,
            Err(blocker) => return Ok(Err(blocker)),
        };
        self.shared.job_work.notify_one();
        self.job(created).await?.map(Ok).ok_or(DatabaseError::Missing)
    }
}

async fn page(
    connection: &Connection,
    job: i64,
    list: &ListItems,
) -> Result<Option<JobTransactions>, DatabaseError> {
    let sql = "SELECT destination FROM weir.job WHERE number = $1";
    let rows = connection.query(sql, &[(&job, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let destination: String = row.try_get(0)?;
    let states: Vec<&str> = list.states.iter().map(AsRef::as_ref).collect();
    let after = list.after.map_or(Uuid::max(), Uuid::from_u128);
    let limit = bounded(list.limit as u64).saturating_add(1);
    let matching = match list.after {
        None => Some(count(connection, job, (&states, &list.reason)).await?),
        Some(_) => None,
    };
    // Ids are in the order of time. The boundary of the first page is an id that no transaction has. Each pair
    // of state and reason is a step in the index, and its transactions are read by the index.
    let sql = "WITH RECURSIVE pair AS (
             (SELECT state, reason FROM weir.job_item WHERE job = $1 ORDER BY state, reason LIMIT 1)
             UNION ALL
             SELECT n.state, n.reason FROM pair p CROSS JOIN LATERAL (
                 SELECT state, reason FROM weir.job_item
                 WHERE job = $1 AND (state, reason) > (p.state, p.reason)
                 ORDER BY state, reason LIMIT 1) n
         )
         SELECT i.original, i.state, i.reason, i.attempt, coalesce(a.status, 0),
             (extract(epoch FROM a.began) * 1000000)::bigint,
             (extract(epoch FROM a.ended) * 1000000)::bigint, coalesce(n.name, '')
         FROM (SELECT x.* FROM pair p CROSS JOIN LATERAL (
                 SELECT original, node, state, reason, attempt FROM weir.job_item
                 WHERE job = $1 AND state = p.state AND reason = p.reason AND original < $2
                 ORDER BY original DESC LIMIT $5) x
             WHERE (cardinality($3) = 0 OR p.state = ANY ($3)) AND ($4 IS NULL OR p.reason = $4)
             ORDER BY x.original DESC LIMIT $5) i
         LEFT JOIN weir.attempt a ON a.id = i.attempt
         LEFT JOIN weir.node n ON n.id = i.node
         ORDER BY i.original DESC";
    let parameters: [Parameter<'_>; 5] = [
        (&job, Type::INT8),
        (&after, Type::UUID),
        (&states, Type::TEXT_ARRAY),
        (&list.reason, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = connection.query(sql, &parameters).await?;
    let mut transactions = rows
        .iter()
        .map(|row| read(row, &destination))
        .collect::<Result<Vec<_>, DatabaseError>>()?;
    let has_more = transactions.len() > list.limit;
    transactions.truncate(list.limit);
    let last = transactions.last().map(|one| one.transaction);
    Ok(Some(JobTransactions { transactions, matching, next: last.filter(|_| has_more) }))
}

/// Number of the transactions of a job in these states, if any are given, and with this reason, if one is.
async fn count(
    connection: &Connection,
    job: i64,
    (states, reason): (&[&str], &Option<String>),
) -> Result<u64, DatabaseError> {
    let sql = "SELECT count(*) FROM weir.job_item WHERE job = $1
             AND (cardinality($2) = 0 OR state = ANY ($2)) AND ($3 IS NULL OR reason = $3)";
    let parameters: [Parameter<'_>; 3] =
        [(&job, Type::INT8), (&states, Type::TEXT_ARRAY), (&reason, Type::TEXT)];
    Ok(connection.one(sql, &parameters).await?.try_get::<_, i64>(0)?.unsigned_abs())
}

fn read(row: &Row, destination: &str) -> Result<JobTransaction, DatabaseError> {
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
        destination.clone_into(&mut one.destination);
        one.started = row.try_get::<_, Option<i64>>(5)?.map(time);
        one.ended = row.try_get::<_, Option<i64>>(6)?.map(time);
    }
    Ok(one)
}

/// Creates the job with its items in one transaction, so that it is never previewed: a node of the release
/// before would do that with the query, which it does not have.
async fn create(
    connection: &mut Connection,
    original: i64,
    retry: &RetryJob,
    who: &str,
) -> Result<Result<i64, RetryBlocker>, DatabaseError> {
    let transaction = connection.transaction().await?;
    // Until the end of the transaction it is not run.
    let sql = format!("{SELECT} WHERE j.number = $1 FOR SHARE OF j");
    let rows = transaction.query(&sql, &[(&original, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(Err(RetryBlocker::NoJob)) };
    let original = job(row)?;
    if let Some(blocker) = RetryBlocker::of(original.state) {
        return Ok(Err(blocker));
    }
    let number = insert(&transaction, &original, retry, who).await?;
    let found = copy_items(&transaction, (original.number, number), retry).await?;
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
    retry: &RetryJob,
) -> Result<u64, DatabaseError> {
    let with_unknown = retry.states.contains(&ItemState::Unknown);
    let states: Vec<&str> = retry.states.iter().map(AsRef::as_ref).collect();
    // As the blocker of a claim. A transaction that the job did not send has the base that it had in it.
    let sql = "WITH page AS (
             SELECT i.original, i.node, i.lane, i.position,
                 coalesce((extract(epoch FROM a.began) * 1000000)::bigint, i.base, j.created) AS base,
                 j.again OR i.accepted OR a.id IS NOT NULL AS accepted
             FROM weir.job_item i JOIN weir.job j ON j.number = i.job
             LEFT JOIN weir.attempt a ON a.id = i.attempt AND a.state <> 'refused'
             WHERE i.job = $1 AND i.state = ANY ($3) AND i.original > $4
             ORDER BY i.original LIMIT $5
         ), known AS (
             SELECT p.*, CASE WHEN accepted THEN base ELSE 0 END AS since,
                 (SELECT bool_or(state = 'sending') FROM weir.attempt a
                     WHERE a.original = p.original) AS sending,
                 (SELECT (extract(epoch FROM max(began)) * 1000000)::bigint FROM weir.attempt a
                     WHERE a.original = p.original AND a.state = 'unknown') AS unknown,
                 (SELECT (extract(epoch FROM max(began)) * 1000000)::bigint FROM weir.attempt a
                     WHERE a.original = p.original AND a.state <> 'refused') AS last,
                 (SELECT at FROM weir.resolution r
                     WHERE r.id = p.original AND r.state <> 'open') AS settled
             FROM page p
         ), checked AS (
             SELECT k.*, CASE
                 WHEN sending THEN 'sending'
                 WHEN $7 THEN ''
                 WHEN NOT $6 AND unknown >= since THEN 'unknown'
                 WHEN settled >= since THEN 'settled'
                 WHEN last > base THEN 'newer-attempt'
                 ELSE '' END AS reason
             FROM known k
         ), added AS (
             INSERT INTO weir.job_item (job, original, node, lane, position, state, reason, base,
                 accepted)
             SELECT $2, original, node, lane, position,
                 CASE reason WHEN '' THEN 'pending' ELSE 'cannot' END, reason, base, accepted
             FROM checked
         )
         SELECT count(*), (SELECT original FROM page ORDER BY original DESC LIMIT 1) FROM page";
    let (mut found, mut after) = (0, Uuid::nil());
    loop {
        let parameters: [Parameter<'_>; 7] = [
            (&original, Type::INT8),
            (&number, Type::INT8),
            (&states, Type::TEXT_ARRAY),
            (&after, Type::UUID),
            (&RETRY_CHUNK, Type::INT8),
            (&with_unknown, Type::BOOL),
            (&retry.again, Type::BOOL),
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
