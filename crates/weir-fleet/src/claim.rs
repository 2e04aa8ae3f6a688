//! Claims of attempts: a transaction is sent again by one node at a time, and only while it needs that.
//!
//! A node records an attempt as `sending` in its own database, then claims it here, and sends the request
//! only with the claim. What becomes of the attempt is copied from the node's database afterwards: an
//! attempt that the node does not know was not sent, and its claim is withdrawn. So a claim whose response
//! was lost is neither sent nor left behind.

mod items;

use crate::copy_error::CopyError;
use crate::database::{Connection, DatabaseError, Parameter, Transaction};
use crate::identity::Boot;
use crate::resolutions;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_store::ledger::{Again, AttemptState, Ledger, RetryBase};

/// Most attempts of a claim.
pub const MAX_CLAIMS: usize = 256;
/// Interval of comparing attempts of unknown state.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);
/// Most attempts that are compared with the database of the node at a time.
const MAX_OPEN: i64 = 2_000;

/// An attempt to be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Transaction id of the attempt.
    pub attempt: Uuid,
    /// The transaction that is sent again.
    pub original: Uuid,
    /// Name of the operator.
    pub who: String,
    /// Despite an attempt that has succeeded, or one of unknown state.
    pub again: Again,
}

/// Why an attempt is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// Another attempt has not ended.
    Sending,
    /// It is not known whether another attempt was sent.
    Unknown,
    /// An attempt has succeeded.
    Settled,
    /// There is an attempt after the one that the retry is based on.
    Newer,
    /// Its job does not run under this lease, or has the transaction no longer as pending.
    NotPending,
}

/// The job of the fleet for which attempts are claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobClaim {
    /// Its number.
    pub job: i64,
    /// Epoch of the lease of the node that runs the job.
    pub epoch: i64,
    /// Transactions of the job that this node cannot send, each with the code of the reason.
    pub rejected: Vec<(Uuid, String)>,
}

/// Claims attempts. The result has an element for each: `None` if it is granted. Those of a job are granted
/// while the job runs under the lease that the runner had, and takes their items in the same transaction.
pub(crate) async fn claim(
    connection: &mut Connection,
    (node, boot): (Uuid, Boot),
    claims: &[Claim],
    job: Option<&JobClaim>,
) -> Result<Vec<Option<Blocker>>, DatabaseError> {
    let mut originals: Vec<Uuid> = claims.iter().map(|claim| claim.original).collect();
    // All nodes lock in the same order.
    originals.sort_unstable();
    originals.dedup();
    let transaction = connection.transaction().await?;
    let pending = match job {
        None => None,
        Some(job) => match items::lock(&transaction, job, &originals).await? {
            Some(pending) => Some(pending),
            None => return Ok(vec![Some(Blocker::NotPending); claims.len()]),
        },
    };
    let states = States::lock(&transaction, &originals).await?;
    let mut taken = HashSet::new();
    let blockers: Vec<Option<Blocker>> = claims
        .iter()
        .map(|claim| {
            let item = pending.as_ref().map(|items| items.get(&claim.original));
            match item {
                Some(None) => Some(Blocker::NotPending),
                _ => match states.blocker(claim, item.flatten().copied().flatten()) {
                    // Twice in the same claim.
                    None if !taken.insert(claim.original) => Some(Blocker::Sending),
                    blocker => blocker,
                },
            }
        })
        .collect();
    let granted = claims.iter().zip(&blockers).filter(|(_, blocker)| blocker.is_none());
    let granted: Vec<&Claim> = granted.map(|(claim, _)| claim).collect();
    insert(&transaction, node, boot, &granted).await?;
    if let Some(job) = job {
        items::take(&transaction, job, &granted).await?;
        items::reject(&transaction, job, claims, &blockers).await?;
    }
    transaction.commit().await?;
    Ok(blockers)
}

/// What is known about transactions whose rows are locked.
#[derive(Debug, Default)]
struct States {
    /// When the resolution of a transaction that is not open was set, in microseconds since 1970.
    settled: HashMap<Uuid, u64>,
    attempts: HashMap<Uuid, Attempts>,
}

/// The attempts at a transaction; times are microseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    /// One is being sent.
    sending: bool,
    /// Start of the last one of unknown state.
    unknown: Option<u64>,
    /// Start of the last one that was not refused.
    last: Option<u64>,
}

impl States {
    async fn lock(
        transaction: &Transaction<'_>,
        originals: &[Uuid],
    ) -> Result<Self, DatabaseError> {
        let ids: [Parameter<'_>; 1] = [(&originals, Type::UUID_ARRAY)];
        let insert = "INSERT INTO weir.resolution (id) SELECT unnest($1) ORDER BY 1
             ON CONFLICT (id) DO NOTHING";
        transaction.execute(insert, &ids).await?;
        let lock = "SELECT id, state, at FROM weir.resolution WHERE id = ANY ($1)
             ORDER BY id FOR UPDATE";
        let mut states = Self::default();
        for row in transaction.query(lock, &ids).await? {
            if row.try_get::<_, &str>(1)? != "open" {
                states.settled.insert(row.try_get(0)?, row.try_get::<_, i64>(2)?.unsigned_abs());
            }
        }
        // A statement of its own: it sees what was committed before the lock was there.
        let attempts = "SELECT original, bool_or(state = 'sending'),
                 (extract(epoch FROM max(began) FILTER (WHERE state = 'unknown')) * 1000000)::bigint,
                 (extract(epoch FROM max(began) FILTER (WHERE state <> 'refused')) * 1000000)::bigint
             FROM weir.attempt WHERE original = ANY ($1) GROUP BY original";
        for row in transaction.query(attempts, &ids).await? {
            let (unknown, last): (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
            let attempts = Attempts {
                sending: row.try_get(1)?,
                unknown: unknown.map(i64::unsigned_abs),
                last: last.map(i64::unsigned_abs),
            };
            states.attempts.insert(row.try_get(0)?, attempts);
        }
        Ok(states)
    }

    /// As the blocker of the database of a node.
    fn blocker(&self, claim: &Claim, base: Option<RetryBase>) -> Option<Blocker> {
        let attempts = self.attempts.get(&claim.original).copied().unwrap_or_default();
        let since = RetryBase::since(base);
        let is_since = |at: &u64| *at >= since;
        if attempts.sending {
            return Some(Blocker::Sending);
        }
        if claim.again == Again::All {
            return None;
        }
        if claim.again == Again::No && attempts.unknown.as_ref().is_some_and(is_since) {
            return Some(Blocker::Unknown);
        }
        if self.settled.get(&claim.original).is_some_and(is_since) {
            return Some(Blocker::Settled);
        }
        let is_newer = base.is_some_and(|base| attempts.last.is_some_and(|at| at > base.at));
        is_newer.then_some(Blocker::Newer)
    }
}

async fn insert(
    transaction: &Transaction<'_>,
    node: Uuid,
    boot: Boot,
    granted: &[&Claim],
) -> Result<(), DatabaseError> {
    let attempts: Vec<Uuid> = granted.iter().map(|claim| claim.attempt).collect();
    let originals: Vec<Uuid> = granted.iter().map(|claim| claim.original).collect();
    let who: Vec<&str> = granted.iter().map(|claim| claim.who.as_str()).collect();
    let sql = "INSERT INTO weir.attempt (id, original, node, boot, who, state)
         SELECT c.attempt, c.original, n.id, n.boot, c.who, 'sending'
         FROM unnest($1, $2, $3) AS c (attempt, original, who), weir.node n
         WHERE n.id = $4 AND n.boot = $5 AND n.boot_token = $6 AND n.until > now()";
    let parameters: [Parameter<'_>; 6] = [
        (&attempts, Type::UUID_ARRAY),
        (&originals, Type::UUID_ARRAY),
        (&who, Type::TEXT_ARRAY),
        (&node, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
    ];
    let inserted = transaction.execute(sql, &parameters).await?;
    if inserted as usize == granted.len() { Ok(()) } else { Err(DatabaseError::Fenced) }
}

/// Copies the ends of attempts from the database of the node.
#[derive(Debug)]
pub(crate) struct Ends {
    ledger: Ledger,
    /// When attempts of unknown state were compared last: the journal may have their end.
    compared: Option<Instant>,
}

impl Ends {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger, compared: None }
    }

    /// After a new registration: other nodes may have set attempts to `unknown`.
    pub(crate) fn connected(&mut self) {
        self.compared = None;
    }

    /// Copies what has ended since.
    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
    ) -> Result<(), CopyError> {
        let is_due = self.compared.is_none_or(|at| at.elapsed() >= COMPARE_INTERVAL);
        copy_ends(connection, &self.ledger, node, is_due).await?;
        if is_due {
            self.compared = Some(Instant::now());
        }
        Ok(())
    }
}

async fn copy_ends(
    connection: &mut Connection,
    ledger: &Ledger,
    node: Uuid,
    with_unknown: bool,
) -> Result<(), CopyError> {
    let sql = "SELECT id, state FROM weir.attempt
         WHERE node = $1 AND state IN ('sending', 'unknown') AND (state = 'sending' OR $2)
         ORDER BY began DESC LIMIT $3";
    let parameters: [Parameter<'_>; 3] =
        [(&node, Type::UUID), (&with_unknown, Type::BOOL), (&MAX_OPEN, Type::INT8)];
    let (mut ended, mut withdrawn) = (Vec::new(), Vec::new());
    for row in connection.query(sql, &parameters).await? {
        let (id, before): (Uuid, &str) = (row.try_get(0)?, row.try_get(1)?);
        match ledger.attempt(id.as_u128())? {
            // Not sent. One of unknown state may have been: its row in the other database was purged.
            None if before == AttemptState::Sending.as_ref() => withdrawn.push(id),
            Some(one) if one.state.as_ref() != before && one.state != AttemptState::Sending => {
                ended.push(Ended { id, state: one.state, status: one.status, reason: one.reason });
            }
            _ => {}
        }
    }
    if ended.len() + withdrawn.len() > 0 {
        write_ends(connection, node, &ended, &withdrawn).await?;
    }
    Ok(())
}

/// An attempt that has ended.
struct Ended {
    id: Uuid,
    state: AttemptState,
    status: u16,
    reason: String,
}

async fn write_ends(
    connection: &mut Connection,
    node: Uuid,
    ended: &[Ended],
    withdrawn: &[Uuid],
) -> Result<(), DatabaseError> {
    let ids: Vec<Uuid> = ended.iter().map(|one| one.id).collect();
    let states: Vec<&str> = ended.iter().map(|one| one.state.as_ref()).collect();
    let statuses: Vec<i32> = ended.iter().map(|one| i32::from(one.status)).collect();
    let is_success = |one: &&Ended| one.state == AttemptState::Succeeded;
    let succeeded: Vec<Uuid> = ended.iter().filter(is_success).map(|one| one.id).collect();
    let transaction = connection.transaction().await?;
    let end = "UPDATE weir.attempt SET state = e.state, status = e.status, ended = now()
         FROM unnest($1, $2, $3) AS e (id, state, status)
         WHERE attempt.id = e.id AND node = $4";
    let parameters: [Parameter<'_>; 4] = [
        (&ids, Type::UUID_ARRAY),
        (&states, Type::TEXT_ARRAY),
        (&statuses, Type::INT4_ARRAY),
        (&node, Type::UUID),
    ];
    transaction.execute(end, &parameters).await?;
    items::end(&transaction, ended).await?;
    items::withdraw(&transaction, node, withdrawn).await?;
    let withdraw =
        "DELETE FROM weir.attempt WHERE id = ANY ($1) AND node = $2 AND state = 'sending'";
    let parameters: [Parameter<'_>; 2] = [(&withdrawn, Type::UUID_ARRAY), (&node, Type::UUID)];
    transaction.execute(withdraw, &parameters).await?;
    resolutions::settle(&transaction, node, &succeeded).await?;
    transaction.commit().await
}

/// Drops attempts that began longer ago than `keep`, and resolutions that were set before, without
/// attempts.
pub(crate) async fn purge(connection: &Connection, keep: Duration) -> Result<(), DatabaseError> {
    let first = weir_store::clock::now().saturating_sub(keep);
    let seconds = first.as_secs() as f64;
    let sql = "DELETE FROM weir.attempt WHERE began < to_timestamp($1) AND state <> 'sending'";
    connection.execute(sql, &[(&seconds, Type::FLOAT8)]).await?;
    let micros = i64::try_from(first.as_micros()).unwrap_or(i64::MAX);
    // A claim that loses its lock by this still has the unique index: one attempt at a time.
    let sql = "DELETE FROM weir.resolution r
         WHERE at < $1 AND NOT EXISTS (SELECT FROM weir.attempt a WHERE a.original = r.id)";
    connection.execute(sql, &[(&micros, Type::INT8)]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_sent_blocks_always_and_the_rest_unless_it_is_wanted_again() {
        let [sending, unknown, settled, new, failed] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let states = States {
            settled: HashMap::from([(settled, 50), (sending, 50)]),
            attempts: HashMap::from([
                (sending, Attempts { sending: true, ..Attempts::default() }),
                (unknown, Attempts { unknown: Some(50), last: Some(50), sending: false }),
                (failed, Attempts { last: Some(50), ..Attempts::default() }),
            ]),
        };
        let based = |original, at, accepted| {
            let (who, again) = (String::new(), Again::No);
            let claim = Claim { attempt: Uuid::nil(), original, who, again };
            states.blocker(&claim, Some(RetryBase { at, accepted }))
        };
        let blocker = |original, again: Again| {
            let claim = Claim { attempt: Uuid::nil(), original, who: String::new(), again };
            states.blocker(&claim, None)
        };
        for again in [Again::No, Again::Unknown, Again::All] {
            assert_eq!(blocker(sending, again), Some(Blocker::Sending));
        }
        assert_eq!(blocker(unknown, Again::No), Some(Blocker::Unknown));
        assert_eq!(blocker(unknown, Again::Unknown), None);
        assert_eq!(blocker(settled, Again::No), Some(Blocker::Settled));
        assert_eq!(blocker(settled, Again::Unknown), Some(Blocker::Settled));
        for original in [unknown, settled, new] {
            assert_eq!(blocker(original, Again::All), None);
        }
        assert_eq!((blocker(new, Again::No), blocker(failed, Again::No)), (None, None));
        // In a retry: what came before the attempt that it is based on was accepted with that.
        let of = |at| [settled, unknown, failed].map(|original| based(original, at, true));
        let all = [Blocker::Settled, Blocker::Unknown, Blocker::Newer].map(Some);
        assert_eq!((of(49), of(51)), (all, [None; 3]));
        assert_eq!(based(settled, 51, false), Some(Blocker::Settled));
    }
}
