//! Attempts: the intent before a request is sent, and its outcome.

use super::{Resolution, id, resolution, set_resolution};
use crate::clock::now_us;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString};
use utoipa::ToSchema;
use weir_model::{RejectionReason, ReplayOutcome, TransactionId, UnixMicros};

/// State of an attempt.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, AsRefStr, Display, EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AttemptState {
    /// It is about to be sent, or was sent and has no response yet.
    Sending,
    /// Its response has a status that means success.
    Succeeded,
    /// Its response has another status, or was aborted.
    Failed,
    /// It was rejected and not sent.
    Refused,
    /// weir ended before it did: it is not known whether it was sent.
    Unknown,
}

/// A resubmission of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Transaction id of the attempt.
    #[schema(value_type = String)]
    pub id: TransactionId,
    /// The resubmitted transaction.
    #[schema(value_type = String)]
    pub original: TransactionId,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// `sending`, `succeeded`, `failed`, `refused` or `unknown`: weir ended before the attempt did,
    /// so it may have been sent.
    #[schema(value_type = String)]
    pub state: AttemptState,
    /// Status of the response, 0 without a response.
    pub status: u16,
    /// Rejection reason, or code of the problem that weir returned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the rejection reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Name of the token.
    pub who: String,
    /// Number of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<i64>,
    /// Operation of the other route, if it was sent there.
    #[serde(default, rename = "to", skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Description of the edits, for the role `payload-viewer`; the values are in both records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub difference: Option<serde_json::Value>,
    /// Start (RFC 3339, UTC).
    #[serde(rename = "began")]
    #[schema(value_type = String)]
    pub started: UnixMicros,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ended: Option<UnixMicros>,
}

/// The intent to send an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// Transaction id of the attempt.
    pub id: u128,
    /// The transaction that is sent again.
    pub original: u128,
    /// Number of its job, if any.
    pub job: Option<i64>,
    /// Number of its job of the fleet, if any: its items are not in this database.
    pub fleet_job: Option<i64>,
    /// Name of the operator.
    pub who: &'a str,
    /// Operation of another route; empty for its own.
    pub destination: &'a str,
    /// Description of the edits, without values, as JSON.
    pub difference: &'a str,
    /// Despite a resolution of the original or an attempt of unknown state.
    pub again: Again,
    /// What it is based on, as the retry of another job.
    pub base: Option<RetryBase>,
}

/// What the retry of a transaction is based on: the attempt of the job that is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBase {
    /// Start of that attempt, in microseconds since 1970; without one, when that job was created. A newer
    /// attempt keeps the transaction from being sent.
    pub at: u64,
    /// That job sent it, or would have, despite resolutions and attempts of unknown state before.
    pub accepted: bool,
}

impl RetryBase {
    /// The time from which resolutions and attempts of unknown state count.
    #[must_use]
    pub fn since(base: Option<Self>) -> u64 {
        base.filter(|base| base.accepted).map_or(0, |base| base.at)
    }
}

/// What does not keep a transaction from being sent again. An attempt that is under way always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// Nothing: only what is open is sent.
    #[default]
    No,
    /// Attempts of unknown state. What has been resubmitted, resolved or dismissed is not sent.
    Unknown,
    /// Attempts of unknown state, and resolutions.
    All,
}

impl From<bool> for Again {
    /// `again` of a request.
    fn from(again: bool) -> Self {
        if again { Self::All } else { Self::No }
    }
}

const SELECT: &str = "SELECT id, original, number, coalesce(fleet_job, job), who, state, status, reason, destination, \
                      difference, began, ended FROM attempt";

pub(super) fn attempts(
    db: &Connection,
    original: u128,
    limit: u32,
) -> rusqlite::Result<Vec<Attempt>> {
    let sql = format!("{SELECT} WHERE original = ? ORDER BY number LIMIT ?");
    db.prepare_cached(&sql)?.query_map(params![original.to_be_bytes(), limit], read)?.collect()
}

pub(super) fn get(db: &Connection, attempt: u128) -> rusqlite::Result<Option<Attempt>> {
    let sql = format!("{SELECT} WHERE id = ?");
    db.prepare_cached(&sql)?.query_row([attempt.to_be_bytes()], read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let state = row.get::<_, String>(5)?.parse().unwrap_or(AttemptState::Unknown);
    let (reason, difference): (String, String) = (row.get(7)?, row.get(9)?);
    let rejected = RejectionReason::from_code(&reason).filter(|_| state == AttemptState::Refused);
    Ok(Attempt {
        id: TransactionId(id(row, 0)?),
        original: TransactionId(id(row, 1)?),
        number: row.get(2)?,
        job: row.get(3)?,
        who: row.get(4)?,
        state,
        status: row.get(6)?,
        reason,
        words: rejected.map(|reason| reason.words()).unwrap_or_default(),
        destination: row.get(8)?,
        difference: serde_json::from_str(&difference).ok(),
        started: UnixMicros(row.get(10)?),
        ended: row.get::<_, Option<u64>>(11)?.map(UnixMicros),
    })
}

/// The reason, from earlier attempts and the resolution, for which a transaction is not sent now.
///
/// # Errors
/// The database fails.
pub fn blocker(
    db: &Connection,
    original: u128,
    again: Again,
    base: Option<RetryBase>,
) -> rusqlite::Result<Option<RejectionReason>> {
    let mut select = db.prepare_cached(
        "SELECT coalesce(max(state = 'sending'), 0),
             coalesce(max(state = 'unknown' AND began >= ?2), 0),
             coalesce(max(state <> 'refused' AND began > ?3), 0)
         FROM attempt WHERE original = ?1",
    )?;
    let since = RetryBase::since(base);
    let newest = base.map_or(i64::MAX, |base| i64::try_from(base.at).unwrap_or(i64::MAX));
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = select.query_row(params![original.to_be_bytes(), since, newest], read)?;
    let (sending, unknown, newer): (bool, bool, bool) = found;
    if sending {
        return Ok(Some(RejectionReason::Sending));
    }
    if again == Again::All {
        return Ok(None);
    }
    if unknown && again == Again::No {
        return Ok(Some(RejectionReason::Unknown));
    }
    if is_settled(db, original, since)? {
        return Ok(Some(RejectionReason::Settled));
    }
    Ok(newer.then_some(RejectionReason::NewerAttempt))
}

/// Whether a transaction has a resolution that was set at this time or later.
fn is_settled(db: &Connection, original: u128, since: u64) -> rusqlite::Result<bool> {
    if resolution(db, original)?.is_none_or(|state| state == Resolution::Open) {
        return Ok(false);
    }
    let mut select = db.prepare_cached("SELECT max(at) FROM resolution_change WHERE id = ?")?;
    let last: Option<u64> = select.query_row([original.to_be_bytes()], |row| row.get(0))?;
    Ok(last.is_none_or(|at| at >= since))
}

/// Stores an attempt as `sending`, unless there is a [`blocker`].
///
/// # Errors
/// The database fails.
pub fn record_intent(
    db: &Connection,
    intent: &Intent<'_>,
) -> rusqlite::Result<Result<(), RejectionReason>> {
    if let Some(reason) = blocker(db, intent.original, intent.again, intent.base)? {
        return Ok(Err(reason));
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO attempt (id, original, number, job, fleet_job, who, state, destination, difference,
                              began)
         VALUES (?1, ?2, (SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE original = ?2),
                 ?3, ?4, ?5, 'sending', ?6, ?7, ?8)",
    )?;
    let Intent { id, original, job, fleet_job, who, destination, difference, .. } = intent;
    let (id, original) = (id.to_be_bytes(), original.to_be_bytes());
    insert.execute(params![
        id,
        original,
        job,
        fleet_job,
        who,
        destination,
        difference,
        now_us()
    ])?;
    Ok(Ok(()))
}

/// Removes an attempt that was certainly not sent; its transaction is pending in its job again.
///
/// # Errors
/// The database fails.
pub fn withdraw_intent(db: &Connection, attempt: u128) -> rusqlite::Result<()> {
    let key = attempt.to_be_bytes();
    let mut item = db.prepare_cached(
        "UPDATE job_item SET state = CASE
             WHEN (SELECT state FROM job WHERE number = job_item.job) = 'cancelled'
             THEN 'cancelled' ELSE 'pending' END
         WHERE state = 'sending'
         AND job = (SELECT job FROM attempt WHERE id = ?1)
         AND id = (SELECT original FROM attempt WHERE id = ?1)",
    )?;
    item.execute([key])?;
    let mut delete = db.prepare_cached("DELETE FROM attempt WHERE id = ? AND state = 'sending'")?;
    delete.execute([key]).map(|_| ())
}

/// Whether a status means that the upstream has done what was requested. A redirect asks the client
/// to go elsewhere or to log in, and weir follows no redirects; only 303 (the result is at another
/// URL) and 304 mean success (RFC 9110 sections 15.4.4 and 15.4.5).
fn is_success(status: u16) -> bool {
    matches!(status, 200..=299 | 303 | 304)
}

/// Persists the outcome of an attempt and, if it succeeded, the resolution of its original. Gives
/// the new state; none if the outcome was persisted before.
///
/// # Errors
/// The database fails.
pub fn finish(
    db: &Connection,
    attempt: u128,
    outcome: &ReplayOutcome,
) -> rusqlite::Result<Option<AttemptState>> {
    let (state, status, reason) = match outcome {
        ReplayOutcome::Response(status, problem) => {
            let state =
                if is_success(*status) { AttemptState::Succeeded } else { AttemptState::Failed };
            (state, *status, problem.unwrap_or_default().to_owned())
        }
        ReplayOutcome::Aborted(status) => (AttemptState::Failed, *status, "broken-off".to_owned()),
        ReplayOutcome::Rejected(reason) => (AttemptState::Refused, 0, reason.code()),
        ReplayOutcome::Unknown => (AttemptState::Unknown, 0, String::new()),
    };
    let mut update = db.prepare_cached(
        "UPDATE attempt SET state = ?, status = ?, reason = ?, ended = ? WHERE id = ?
         AND state IN ('sending', 'unknown') RETURNING original, who, number, job",
    )?;
    let key = attempt.to_be_bytes();
    let found = update.query_row(params![state.as_ref(), status, reason, now_us(), key], |row| {
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
        update.execute(params![state.as_ref(), reason, job, original.to_be_bytes()])?;
    }
    if state == AttemptState::Succeeded {
        let comment = format!("attempt {number}");
        set_resolution(db, original, Resolution::Resubmitted, &who, &comment)?;
    }
    Ok(Some(state))
}
