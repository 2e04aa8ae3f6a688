//! Resolutions of failed transactions: the database has the last one of each, and every node copies them.
//!
//! The row of a transaction is the one under which attempts are claimed. To set it takes its lock, and adds
//! 1 to its revision; a node applies a row only if the revision is higher than its own. So an operator may
//! use any node, also while the one that has the transaction is down.

use crate::copy_error::CopyError;
use crate::database::{Connection, DatabaseError, Parameter, Transaction};
use crate::identity::Boot;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_store::ledger::{Ledger, Resolution, ResolutionCopy};

/// Rows of a batch of copies.
const BATCH: i64 = 1_000;
/// Batches of a step: other work does not wait for all of a large table.
const MAX_BATCHES: usize = 4;

/// A resolution to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResolution {
    /// The transaction.
    pub transaction: Uuid,
    /// The resolution.
    pub state: Resolution,
    /// Name of the operator.
    pub who: String,
    /// Comment.
    pub comment: String,
    /// Now, in microseconds since 1970.
    pub at: u64,
    /// Revision of the copy of this node: a failover of the database may have lost it.
    pub after: i64,
}

/// Sets a resolution; returns its revision.
pub(crate) async fn set(
    connection: &mut Connection,
    (node, boot): (Uuid, Boot),
    new: &NewResolution,
) -> Result<i64, DatabaseError> {
    let transaction = connection.transaction().await?;
    let id: [Parameter<'_>; 1] = [(&new.transaction, Type::UUID)];
    let insert = "INSERT INTO weir.resolution (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
    transaction.execute(insert, &id).await?;
    // In the order of claims: this row first, that of the fleet last.
    transaction.query("SELECT FROM weir.resolution WHERE id = $1 FOR UPDATE", &id).await?;
    let change = next_change(&transaction).await?;
    let sql = "UPDATE weir.resolution r
         SET state = $2, who = $3, comment = $4, at = $5, change = $6,
             revision = greatest(r.revision, $10) + 1,
             node = n.id
         FROM weir.node n
         WHERE r.id = $1 AND n.id = $7 AND n.boot = $8 AND n.boot_token = $9 AND n.until > now()
         RETURNING r.revision";
    let at = i64::try_from(new.at).unwrap_or(i64::MAX);
    let parameters: [Parameter<'_>; 10] = [
        (&new.transaction, Type::UUID),
        (&new.state.as_ref(), Type::TEXT),
        (&new.who, Type::TEXT),
        (&new.comment, Type::TEXT),
        (&at, Type::INT8),
        (&change, Type::INT8),
        (&node, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
        (&new.after, Type::INT8),
    ];
    let rows = transaction.query(sql, &parameters).await?;
    let row = rows.first().ok_or(DatabaseError::Fenced)?;
    let revision = row.try_get(0)?;
    transaction.commit().await?;
    Ok(revision)
}

/// Sets the originals of attempts that have succeeded to `resubmitted`.
pub(crate) async fn settle(
    transaction: &Transaction<'_>,
    node: Uuid,
    succeeded: &[Uuid],
) -> Result<(), DatabaseError> {
    if succeeded.is_empty() {
        return Ok(());
    }
    let ids: [Parameter<'_>; 1] = [(&succeeded, Type::UUID_ARRAY)];
    let lock = "SELECT FROM weir.resolution
         WHERE id IN (SELECT original FROM weir.attempt WHERE id = ANY ($1)) ORDER BY id FOR UPDATE";
    transaction.query(lock, &ids).await?;
    let change = next_change(transaction).await?;
    let at = i64::try_from(weir_store::clock::now_us()).unwrap_or(i64::MAX);
    let sql = "UPDATE weir.resolution r
         SET state = 'resubmitted', who = a.who, comment = '', at = $2, revision = r.revision + 1,
             change = $3, node = $4
         FROM weir.attempt a WHERE a.id = ANY ($1) AND r.id = a.original";
    let parameters: [Parameter<'_>; 4] = [
        (&succeeded, Type::UUID_ARRAY),
        (&at, Type::INT8),
        (&change, Type::INT8),
        (&node, Type::UUID),
    ];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// The number of a transaction that sets resolutions; the lock on it is held until the commit.
async fn next_change(transaction: &Transaction<'_>) -> Result<i64, DatabaseError> {
    let sql = "UPDATE weir.fleet SET resolutions = resolutions + 1 RETURNING resolutions";
    Ok(transaction.one(sql, &[]).await?.try_get(0)?)
}

/// Copies resolutions into the database of the node.
#[derive(Debug)]
pub(crate) struct ResolutionCopier {
    ledger: Ledger,
    /// The last row that was copied: number of its change, and id.
    copied: (i64, Uuid),
}

impl ResolutionCopier {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger, copied: (0, Uuid::nil()) }
    }

    /// After a new registration: the database may have lost something, and have given its numbers again.
    pub(crate) fn connected(&mut self) {
        self.copied = (0, Uuid::nil());
    }

    /// Copies what has changed.
    pub(crate) async fn step(&mut self, connection: &Connection) -> Result<(), CopyError> {
        for _ in 0..MAX_BATCHES {
            let sql = "SELECT id, revision, state, who, comment, at, change FROM weir.resolution
                 WHERE change > 0 AND (change, id) > ($1, $2) ORDER BY change, id LIMIT $3";
            let (change, id) = self.copied;
            let parameters: [Parameter<'_>; 3] =
                [(&change, Type::INT8), (&id, Type::UUID), (&BATCH, Type::INT8)];
            let rows = connection.query(sql, &parameters).await?;
            let Some(last) = rows.last() else { break };
            let copies: Vec<ResolutionCopy> = rows.iter().map(copy).collect::<Result<_, _>>()?;
            self.ledger.copy_resolutions(&copies)?;
            self.copied = (last.try_get(6)?, last.try_get(0)?);
            if (rows.len() as i64) < BATCH {
                break;
            }
        }
        Ok(())
    }
}

fn copy(row: &Row) -> Result<ResolutionCopy, tokio_postgres::Error> {
    let (id, state): (Uuid, &str) = (row.try_get(0)?, row.try_get(2)?);
    Ok(ResolutionCopy {
        transaction: id.as_u128(),
        revision: row.try_get(1)?,
        state: state.parse().unwrap_or(Resolution::Open),
        who: row.try_get(3)?,
        comment: row.try_get(4)?,
        at: row.try_get::<_, i64>(5)?.unsigned_abs(),
    })
}
