//! Items of jobs, as far as they follow the attempts of this node.

use super::{Blocker, Claim, Ended, JobClaim};
use crate::database::{DatabaseError, Parameter, Transaction};
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_model::RejectionReason;
use weir_store::ledger::{AttemptState, RetryBase};

/// Locks the items of transactions that are pending; returns what each is based on. `None` if the job does not run under this lease: until
/// the end of the transaction, the job is not paused and no other node takes it over.
pub(super) async fn lock(
    transaction: &Transaction<'_>,
    job: &JobClaim,
    originals: &[Uuid],
) -> Result<Option<HashMap<Uuid, Option<RetryBase>>>, DatabaseError> {
    let runs = "SELECT FROM weir.task t, weir.job j
         WHERE t.name = 'job-' || $1 AND t.epoch = $2 AND t.until > now()
             AND j.number = $1 AND j.state = 'running' FOR SHARE";
    let parameters: [Parameter<'_>; 2] = [(&job.job, Type::INT8), (&job.epoch, Type::INT8)];
    if transaction.query(runs, &parameters).await?.is_empty() {
        return Ok(None);
    }
    let pending = "SELECT original, base, accepted FROM weir.job_item
         WHERE job = $1 AND original = ANY ($2) AND state = 'pending'
         ORDER BY original FOR UPDATE";
    let parameters: [Parameter<'_>; 2] = [(&job.job, Type::INT8), (&originals, Type::UUID_ARRAY)];
    let rows = transaction.query(pending, &parameters).await?;
    let read = |row: &Row| {
        let (base, accepted): (Option<i64>, bool) = (row.try_get(1)?, row.try_get(2)?);
        let base = base.map(|at| RetryBase { at: at.unsigned_abs(), accepted });
        Ok((row.try_get(0)?, base))
    };
    Ok(Some(rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>()?))
}

/// Takes the items of attempts that are granted.
pub(super) async fn take(
    transaction: &Transaction<'_>,
    job: &JobClaim,
    granted: &[&Claim],
) -> Result<(), DatabaseError> {
    let attempts: Vec<Uuid> = granted.iter().map(|claim| claim.attempt).collect();
    let originals: Vec<Uuid> = granted.iter().map(|claim| claim.original).collect();
    let sql = "UPDATE weir.job_item SET state = 'sending', reason = '', attempt = c.attempt
         FROM unnest($2, $3) AS c (attempt, original)
         WHERE job = $1 AND job_item.original = c.original AND state = 'pending'";
    let parameters: [Parameter<'_>; 3] =
        [(&job.job, Type::INT8), (&attempts, Type::UUID_ARRAY), (&originals, Type::UUID_ARRAY)];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// Stores why items are not sent.
pub(super) async fn reject(
    transaction: &Transaction<'_>,
    job: &JobClaim,
    claims: &[Claim],
    blockers: &[Option<Blocker>],
) -> Result<(), DatabaseError> {
    let reason = |blocker: &Blocker| match blocker {
        Blocker::Sending => Some(RejectionReason::Sending),
        Blocker::Unknown => Some(RejectionReason::Unknown),
        Blocker::Settled => Some(RejectionReason::Settled),
        Blocker::Newer => Some(RejectionReason::NewerAttempt),
        Blocker::NotPending => None,
    };
    let blocked = claims
        .iter()
        .zip(blockers)
        .filter_map(|(claim, blocker)| Some((claim.original, reason(blocker.as_ref()?)?.code())));
    let (originals, reasons): (Vec<Uuid>, Vec<String>) =
        blocked.chain(job.rejected.iter().cloned()).unzip();
    let sql = "UPDATE weir.job_item SET state = 'refused', reason = c.reason
         FROM unnest($2, $3) AS c (original, reason)
         WHERE job = $1 AND job_item.original = c.original AND state = 'pending'";
    let parameters: [Parameter<'_>; 3] =
        [(&job.job, Type::INT8), (&originals, Type::UUID_ARRAY), (&reasons, Type::TEXT_ARRAY)];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// Ends the items of attempts that have ended.
pub(super) async fn end(
    transaction: &Transaction<'_>,
    ended: &[Ended],
) -> Result<(), DatabaseError> {
    let ids: Vec<Uuid> = ended.iter().map(|one| one.id).collect();
    let states: Vec<&str> = ended.iter().map(|one| one.state.as_ref()).collect();
    let reason = |one: &Ended| match one.state {
        AttemptState::Refused => one.reason.clone(),
        _ => String::new(),
    };
    let reasons: Vec<String> = ended.iter().map(reason).collect();
    let sql = "UPDATE weir.job_item SET state = e.state, reason = e.reason
         FROM unnest($1, $2, $3) AS e (id, state, reason)
         WHERE attempt = e.id AND job_item.state IN ('sending', 'unknown')";
    let parameters: [Parameter<'_>; 3] =
        [(&ids, Type::UUID_ARRAY), (&states, Type::TEXT_ARRAY), (&reasons, Type::TEXT_ARRAY)];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// Items whose attempts were certainly not sent are pending again.
pub(super) async fn withdraw(
    transaction: &Transaction<'_>,
    node: Uuid,
    withdrawn: &[Uuid],
) -> Result<(), DatabaseError> {
    let sql = "UPDATE weir.job_item i SET attempt = NULL,
             state = CASE j.state WHEN 'cancelled' THEN 'cancelled' ELSE 'pending' END
         FROM weir.attempt a, weir.job j
         WHERE i.attempt = ANY ($1) AND i.state = 'sending' AND j.number = i.job
             AND a.id = i.attempt AND a.node = $2 AND a.state = 'sending'";
    let parameters: [Parameter<'_>; 2] = [(&withdrawn, Type::UUID_ARRAY), (&node, Type::UUID)];
    transaction.execute(sql, &parameters).await.map(drop)
}
