//! Quotas: slices of calls, leased from the database.
//!
//! A statement adds a slice to the calls granted of a quota, if they stay within the quota, and to the
//! lease of this node. If its response is lost, the slice is stranded, never granted twice. A slice is
//! what the node uses in two seconds, at most an eighth of its share of what is left, and at least what
//! it has admitted beyond its lease in an outage, and one call.

use crate::database::{Connect, Connection, DatabaseError, Parameter, Transaction, bounded};
use crate::identity::Boot;
use crate::quota_grants::QuotaGrants;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_limit::{Limiter, QuotaDemand, QuotaGrant, QuotaLeased};
use weir_store::StoreError;

/// Use of a node for which a slice should last.
const SLICE: Duration = Duration::from_secs(2);
/// Sub-windows of a rolling quota, besides the current one.
const SUB_WINDOWS: u64 = 60;

/// A granted slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// Calls granted.
    calls: u64,
    /// Calls of the quota that are left.
    rest: u64,
    /// Calls granted to this node in the window, in total.
    leased: u64,
}

/// Grants a slice for each demand, or the answer that nothing is left.
async fn grant_all(
    connection: &mut Connection,
    limiter: &Limiter,
    grants: &QuotaGrants,
    (node, boot): (Uuid, Boot),
) -> Result<(), AnswerError> {
    for demand in limiter.quota_demands(limiter.now()) {
        let size = slice_size(&demand, limiter.nodes());
        let slice = match demand.rolling {
            None => grant(connection, &demand, size, (node, boot)).await?,
            Some(period) => {
                let place = (&*period.to_string(), (node, boot));
                grant_rolling(connection, &demand, size, place).await?
            }
        };
        // A late one is counted: the window is over, or the consumer is gone.
        limiter.grant_quota(&QuotaGrant {
            plan: &demand.plan,
            consumer: &demand.consumer,
            window_start: demand.window_start,
            calls: slice.calls,
            rest: slice.rest,
        });
        if demand.rolling.is_none() {
            // After the requests that wait. If the process ends before, the next one takes more calls for
            // an overdraft than there were.
            let QuotaDemand { plan, consumer, window_start, window_end, .. } = demand;
            let granted = QuotaLeased { plan, consumer, window_start, leased: slice.leased };
            grants.store(&granted, window_end)?;
        }
    }
    Ok(())
}

/// Why demands were not answered.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the grants cannot be stored: {0}")]
    Store(#[from] rusqlite::Error),
}

/// Pause before the next attempt during an outage.
const RETRY: Duration = Duration::from_secs(1);

/// Answers the demands of this node for quotas, on a connection of its own: requests wait for it.
#[derive(Debug)]
pub(crate) struct Slices {
    limiter: Arc<Limiter>,
    grants: QuotaGrants,
    connection: Option<Connection>,
}

/// What the member tells.
pub(crate) trait Membership {
    /// The node and its boot, while its lease is renewed.
    fn registered(&self) -> Option<(Uuid, Boot)>;
    /// How to connect.
    fn connect(&self) -> Connect;
    /// The overdraft of an outage, in hundredths of a percent of a quota.
    fn overdraft(&self) -> u32;
    /// Waits until the node is registered anew.
    fn registration(&self) -> impl Future<Output = ()>;
    /// Takes the result of an attempt to answer demands, or to connect.
    fn answered(&self, result: Result<(), String>);
}

impl Slices {
    /// Turns leases of quotas on, after those of earlier runs were restored.
    ///
    /// # Errors
    /// The grants of earlier runs cannot be read.
    pub(crate) fn open(data: &Path, limiter: Arc<Limiter>) -> Result<Self, StoreError> {
        let grants = QuotaGrants::open(data)?;
        let current = grants.current().map_err(|error| StoreError::database(data, error))?;
        limiter.restore_quota_leases(&current);
        limiter.lease_quotas(true);
        Ok(Self { limiter, grants, connection: None })
    }

    /// Answers demands for ever.
    pub(crate) async fn run(&mut self, member: &impl Membership) {
        loop {
            // Without a demand this finds out in time that the database is gone, or is back.
            tokio::select! {
                () = self.limiter.lease_demanded() => {}
                () = member.registration() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
            let answered = self.answer(member).await;
            member.answered(answered.as_ref().copied().map_err(ToString::to_string));
            if answered.is_ok() {
                self.limiter.quota_recovered();
                continue;
            }
            self.connection = None;
            // Requests do not wait meanwhile.
            self.limiter.quota_outage(member.overdraft());
            tokio::select! {
                () = member.registration() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn answer(&mut self, member: &impl Membership) -> Result<(), AnswerError> {
        let place = member.registered().ok_or(DatabaseError::Fenced)?;
        let connection = match self.connection.take().filter(|one| !one.is_closed()) {
            Some(connection) => connection,
            None => Connection::open(&member.connect()).await?,
        };
        grant_all(self.connection.insert(connection), &self.limiter, &self.grants, place).await
    }
}

/// How many calls a slice should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SliceSize {
    /// At least so many, if they are left.
    least: u64,
    /// At most so many.
    most: u64,
    /// And at most one of so many parts of what is left.
    parts: u64,
}

fn slice_size(demand: &QuotaDemand, nodes: u32) -> SliceSize {
    let QuotaDemand { used, leased, admitted, short, elapsed, .. } = demand;
    let (calls, seconds) = ((admitted + short) as f64, elapsed.as_secs_f64().max(0.001));
    // A node that has just begun to ask has seen little.
    let most = (calls / seconds.max(SLICE.as_secs_f64() / 8.0) * SLICE.as_secs_f64()).ceil();
    let owed = used.saturating_sub(*leased);
    SliceSize { least: owed + 1, most: (most as u64).max(1), parts: 8 * u64::from(nodes.max(1)) }
}

/// The calls to grant of `left`, as the statement computes it.
const CALLS: &str = "least(greatest(least($9::bigint, LEFT / $10::bigint), $8::bigint), LEFT)";

/// The lease of this node, and the result.
const LEASE: &str = ", leased AS (
         INSERT INTO weir.quota_lease AS l
             (node, plan, consumer, rolling, start, ends, leased, used, boot)
         SELECT $1, $4, $5, $6, to_timestamp($7), to_timestamp($11), calls, $13, $2 FROM granted
         ON CONFLICT (node, plan, consumer, rolling, start) DO UPDATE SET
             leased = l.leased + excluded.leased, used = excluded.used, boot = excluded.boot
         RETURNING leased
     )
     SELECT calls, rest, leased FROM granted, leased";

async fn grant(
    connection: &Connection,
    demand: &QuotaDemand,
    size: SliceSize,
    place: (Uuid, Boot),
) -> Result<Slice, DatabaseError> {
    let sql = statement("greatest(excluded.most - q.granted, 0)", "$12::bigint", "most - granted");
    let row =
        first(connection.query(&sql, &Values::new(demand, size, "", place).parameters()).await?)?;
    slice(&row)
}

/// As [`grant`], of the calls that the last sub-windows have left. They are added up under a lock.
async fn grant_rolling(
    connection: &mut Connection,
    demand: &QuotaDemand,
    size: SliceSize,
    (rolling, place): (&str, (Uuid, Boot)),
) -> Result<Slice, DatabaseError> {
    let transaction = connection.transaction().await?;
    let key = format!("{rolling}\n{}\n{}", demand.plan, demand.consumer);
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    transaction.execute(lock, &[(&key, Type::TEXT)]).await?;
    let left = left(&transaction, demand, rolling).await?;
    let values = Values::new(demand, size, rolling, place);
    let sql = statement("$12::bigint", "$12::bigint", "$12::bigint - last_grant");
    let values = Values { left, ..values };
    let row = first(transaction.query(&sql, &values.parameters()).await?)?;
    let slice = slice(&row)?;
    transaction.commit().await?;
    Ok(slice)
}

/// Calls of a rolling quota that are granted to no node.
async fn left(
    transaction: &Transaction<'_>,
    demand: &QuotaDemand,
    rolling: &str,
) -> Result<i64, DatabaseError> {
    let sub_window = demand.window_end - demand.window_start;
    let first = demand.window_start.saturating_sub(SUB_WINDOWS * sub_window) as f64;
    let sql = "SELECT coalesce(sum(granted), 0)::bigint FROM weir.quota
         WHERE plan = $1 AND consumer = $2 AND rolling = $3 AND start >= to_timestamp($4)";
    let parameters: [Parameter<'_>; 4] = [
        (&demand.plan, Type::TEXT),
        (&demand.consumer, Type::TEXT),
        (&rolling, Type::TEXT),
        (&first, Type::FLOAT8),
    ];
    let granted: i64 = transaction.one(sql, &parameters).await?.try_get(0)?;
    Ok(bounded(demand.most).saturating_sub(granted).max(0))
}

/// The statement of a grant: `left` of a row that exists, `left_of_new` of one that does not, and `rest`
/// afterwards.
fn statement(left: &str, left_of_new: &str, rest: &str) -> String {
    let (again, new) = (CALLS.replace("LEFT", left), CALLS.replace("LEFT", left_of_new));
    format!(
        "WITH fence AS (
             SELECT 1 FROM weir.node
             WHERE id = $1 AND boot = $2 AND boot_token = $3 AND until > now() FOR SHARE
         ), granted AS (
             INSERT INTO weir.quota AS q
                 (plan, consumer, rolling, start, ends, most, granted, last_grant)
             SELECT $4, $5, $6, to_timestamp($7), to_timestamp($11), $14::bigint, {new}, {new} FROM fence
             ON CONFLICT (plan, consumer, rolling, start) DO UPDATE SET
                 most = excluded.most, granted = q.granted + {again}, last_grant = {again}
             RETURNING last_grant AS calls, {rest} AS rest
         ){LEASE}"
    )
}

fn first(rows: Vec<Row>) -> Result<Row, DatabaseError> {
    // Without a lease of the node nothing is granted.
    rows.into_iter().next().ok_or(DatabaseError::Fenced)
}

fn slice(row: &Row) -> Result<Slice, DatabaseError> {
    let number = |index| row.try_get::<_, i64>(index).map(|number| number.max(0).unsigned_abs());
    Ok(Slice { calls: number(0)?, rest: number(1)?, leased: number(2)? })
}

/// The values of a grant's parameters.
struct Values<'a> {
    node: Uuid,
    boot: Boot,
    demand: &'a QuotaDemand,
    rolling: &'a str,
    start: f64,
    ends: f64,
    least: i64,
    at_most: i64,
    parts: i64,
    left: i64,
    used: i64,
    most: i64,
}

impl<'a> Values<'a> {
    fn new(
        demand: &'a QuotaDemand,
        size: SliceSize,
        rolling: &'a str,
        (node, boot): (Uuid, Boot),
    ) -> Self {
        Self {
            node,
            boot,
            demand,
            rolling,
            start: demand.window_start as f64,
            ends: demand.window_end as f64,
            least: bounded(size.least),
            at_most: bounded(size.most),
            parts: bounded(size.parts),
            left: bounded(demand.most),
            used: bounded(demand.used),
            most: bounded(demand.most),
        }
    }

    fn parameters(&self) -> [Parameter<'_>; 14] {
        [
            (&self.node, Type::UUID),
            (&self.boot.number, Type::INT8),
            (&self.boot.token, Type::UUID),
            (&self.demand.plan, Type::TEXT),
            (&self.demand.consumer, Type::TEXT),
            (&self.rolling, Type::TEXT),
            (&self.start, Type::FLOAT8),
            (&self.least, Type::INT8),
            (&self.at_most, Type::INT8),
            (&self.parts, Type::INT8),
            (&self.ends, Type::FLOAT8),
            (&self.left, Type::INT8),
            (&self.used, Type::INT8),
            (&self.most, Type::INT8),
        ]
    }
}

/// Deletes the rows of windows that have ended a day ago, those of rolling quotas when no window has
/// them any more.
pub(crate) async fn delete_old(connection: &Connection) -> Result<(), DatabaseError> {
    for table in ["weir.quota", "weir.quota_lease"] {
        let sql = format!(
            "DELETE FROM {table} WHERE ends < now() - interval '1 day'
             - CASE WHEN rolling = '' THEN interval '0' ELSE interval '367 days' END"
        );
        connection.execute(&sql, &[]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(used: u64, leased: u64, admitted: u64, elapsed: Duration) -> QuotaDemand {
        QuotaDemand {
            plan: "gold".to_owned(),
            consumer: "acme".to_owned(),
            window_start: 0,
            window_end: 60,
            rolling: None,
            most: 1000,
            used,
            leased,
            admitted,
            short: 0,
            elapsed,
        }
    }

    #[test]
    fn a_slice_lasts_two_seconds_and_covers_what_is_owed() {
        let second = Duration::from_secs(1);
        assert_eq!(
            slice_size(&demand(10, 20, 10, second), 1),
            SliceSize { least: 1, most: 20, parts: 8 }
        );
        assert_eq!(
            slice_size(&demand(25, 20, 0, second), 4),
            SliceSize { least: 6, most: 1, parts: 32 }
        );
        // The first call of a consumer says nothing about its rate.
        let first = slice_size(&demand(0, 0, 1, Duration::from_millis(1)), 1);
        assert_eq!(first.most, 8);
    }
}
