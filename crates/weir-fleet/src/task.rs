//! Tasks: work that one node does for all, as long as it renews its lease.

use crate::database::{Connection, DatabaseError, Parameter};
use crate::identity::Boot;
use crate::replicate::PARTITION_LOCK;
use std::time::Duration;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_monitor::{DAY, HOUR};

/// Length of the lease of a task, in seconds.
const LEASE: f64 = 10.0;
/// Retention of minutes: as in the database of a node.
const MINUTE_RETENTION: Duration = Duration::from_secs(40 * DAY);

/// Takes a task that nobody has, or renews its lease. Returns its epoch, a fencing token; `None` if
/// another node has the task.
pub(crate) async fn claim(
    connection: &Connection,
    name: &str,
    node: Uuid,
    boot: Boot,
) -> Result<Option<i64>, DatabaseError> {
    let sql = "INSERT INTO weir.task AS t (name, owner, until, epoch)
         SELECT $1, id, now() + make_interval(secs => $5), 1 FROM weir.node
         WHERE id = $2 AND boot = $3 AND boot_token = $4 AND until > now()
         ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until,
             epoch = t.epoch + (t.owner <> excluded.owner)::int
         WHERE t.owner = excluded.owner OR t.until <= now()
         RETURNING epoch";
    let parameters: [Parameter<'_>; 5] = [
        (&name, Type::TEXT),
        (&node, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
        (&LEASE, Type::FLOAT8),
    ];
    let rows = connection.query(sql, &parameters).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Drops partitions of usage that are older than `keep`, minutes those older than 40 days.
pub(crate) async fn drop_old_usage(
    connection: &mut Connection,
    keep: Duration,
) -> Result<(), DatabaseError> {
    let now = weir_store::clock::now();
    for step in [60, HOUR, DAY] {
        let kept = if step == 60 { keep.min(MINUTE_RETENTION) } else { keep };
        let first = now.saturating_sub(kept).as_secs();
        drop_partitions(connection, step, first).await?;
    }
    let sql = "DELETE FROM weir.gap WHERE minute < to_timestamp($1)";
    let first = now.saturating_sub(keep).as_secs() as f64;
    connection.execute(sql, &[(&first, Type::FLOAT8)]).await.map(drop)
}

/// Drops the partitions of a length that end before `first`, in seconds since 1970.
async fn drop_partitions(
    connection: &mut Connection,
    step: u64,
    first: u64,
) -> Result<(), DatabaseError> {
    let month = crate::replicate::Month::of(first);
    let sql = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'weir.bucket'::regclass AND c.relname LIKE $1";
    let prefix = format!("bucket_{step}_");
    let rows = connection.query(sql, &[(&format!("{prefix}%"), Type::TEXT)]).await?;
    for row in rows {
        let name: String = row.try_get(0)?;
        let digits =
            name.strip_prefix(&prefix).filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
        if digits.is_none_or(|digits| digits >= month.digits().as_str()) {
            continue;
        }
        let transaction = connection.transaction().await?;
        let lock = "SELECT pg_advisory_xact_lock($1)";
        transaction.execute(lock, &[(&PARTITION_LOCK, Type::INT8)]).await?;
        transaction.batch(&format!("DROP TABLE IF EXISTS weir.{name}")).await?;
        if step != 60 {
            let sql = "UPDATE weir.fleet SET dropped = greatest(dropped, $1::text::timestamptz)";
            transaction.execute(sql, &[(&month.start(), Type::TEXT)]).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}
