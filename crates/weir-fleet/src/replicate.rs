//! Replication of usage: changed buckets of this node, in batches.
//!
//! A batch is one transaction that checks boot and lease of the node. Sending a batch again changes
//! nothing, so a lost response is no problem. What the database has lost in a failover is found by
//! comparing the sums of days, and sent again.

use crate::database::{Connection, DatabaseError, Parameter, Transaction, bounded};
use crate::identity::Boot;
use crate::unreplicated::{Unreplicated, UnreplicatedReport};
use aws_lc_rs::digest::{SHA256, digest};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_monitor::replica::{Batch, ChangedBucket, DaySums, Replica, SeriesNames};
use weir_monitor::{DAY, MonitorError};
use weir_store::clock;

/// Most buckets of a transaction.
const BATCH_BUCKETS: usize = 1000;
/// Most batches before the next heartbeat.
const MAX_BATCHES: usize = 20;
/// Most series that are known to be in the database.
const MAX_SERIES: usize = 100_000;
/// Interval of comparisons of all days.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Time compared after each connection, in seconds: a failover loses the last commits.
const RECENT: u64 = 2 * DAY;
/// Time of gaps that are sent again with each batch, in seconds.
const RECENT_GAPS: u64 = 600;

/// Why usage was not replicated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplicationError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Counts(#[from] MonitorError),
}

impl From<tokio_postgres::Error> for ReplicationError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Sends the usage of this node.
#[derive(Debug)]
pub(crate) struct Replicator {
    replica: Replica,
    unreplicated: Unreplicated,
    /// Ids of series that the database has.
    series: HashMap<SeriesNames, Uuid>,
    /// Partitions that exist.
    partitions: HashSet<(u64, Month)>,
    /// All days were compared.
    compared: Option<Instant>,
    /// The last days were compared with this connection.
    compared_recently: bool,
    /// All gaps and prices were sent with this connection.
    sent_all: bool,
}

/// What replication has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Buckets sent.
    pub(crate) sent: u64,
    /// Everything is replicated that was counted up to now.
    pub(crate) complete: bool,
}

impl Replicator {
    pub(crate) fn new(replica: Replica, unreplicated: Unreplicated) -> Self {
        Self {
            replica,
            unreplicated,
            series: HashMap::new(),
            partitions: HashSet::new(),
            compared: None,
            compared_recently: false,
            sent_all: false,
        }
    }

    /// The counts of this node.
    pub(crate) fn replica(&mut self) -> &mut Replica {
        &mut self.replica
    }

    /// What is missing if this node is lost now; `None` if it is not known.
    pub(crate) fn unreplicated(&mut self) -> Option<UnreplicatedReport> {
        self.unreplicated.report(None)
    }

    /// Has to be called with a new connection: the database may have lost commits, or be another one.
    pub(crate) fn connected(&mut self, node: Uuid) -> Result<(), MonitorError> {
        self.forget();
        self.replica.start(&node.to_string())
    }

    /// Forgets what the database has. Has to be called after an error: the transaction is rolled back.
    pub(crate) fn forget(&mut self) {
        self.series.clear();
        self.partitions.clear();
        self.compared_recently = false;
        self.sent_all = false;
    }

    /// Sends what has changed, up to a bound, and compares days if that is due.
    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
        boot: Boot,
    ) -> Result<Progress, ReplicationError> {
        let mut progress = Progress::default();
        for _ in 0..MAX_BATCHES {
            let counted = self.unreplicated.counted();
            let batch = self.replica.batch(BATCH_BUCKETS)?;
            let counted = counted.filter(|_| batch.settled.is_some());
            self.send(connection, (node, boot), &batch, counted).await?;
            self.unreplicated.replicated(counted);
            self.replica.replicated(&batch)?;
            progress.sent += batch.buckets.len() as u64;
            if batch.settled.is_some() {
                progress.complete = true;
                break;
            }
        }
        if progress.complete && self.reconcile(connection, node).await? {
            progress.complete = false;
        }
        Ok(progress)
    }

    async fn send(
        &mut self,
        connection: &mut Connection,
        (node, boot): (Uuid, Boot),
        batch: &Batch,
        counted: Option<u64>,
    ) -> Result<(), ReplicationError> {
        if !batch.buckets.is_empty() {
            self.create_partitions(connection, &batch.buckets).await?;
        }
        let transaction = connection.transaction().await?;
        check_lease(&transaction, node, boot).await?;
        if !batch.buckets.is_empty() {
            let series = self.send_series(&transaction, &batch.buckets).await?;
            send_buckets(&transaction, node, &batch.buckets, &series).await?;
        }
        if let Some(settled) = batch.settled {
            self.send_gaps_and_prices(&transaction, node).await?;
            let sql =
                "UPDATE weir.node SET counted_until = greatest(counted_until, to_timestamp($2)),
                     pending = coalesce($3, pending), rate = coalesce($4, rate)
                 WHERE id = $1";
            let report = self.unreplicated.report(counted);
            let (calls, rate) = (report.map(|r| bounded(r.calls)), report.map(|r| r.rate));
            let settled = settled as f64;
            let parameters: [Parameter<'_>; 4] = [
                (&node, Type::UUID),
                (&settled, Type::FLOAT8),
                (&calls, Type::INT8),
                (&rate, Type::FLOAT8),
            ];
            transaction.execute(sql, &parameters).await?;
        }
        transaction.commit().await?;
        self.sent_all |= batch.settled.is_some();
        if self.series.len() > MAX_SERIES {
            self.series.clear();
        }
        Ok(())
    }

    /// Makes the partitions of buckets that do not exist.
    async fn create_partitions(
        &mut self,
        connection: &mut Connection,
        buckets: &[ChangedBucket],
    ) -> Result<(), DatabaseError> {
        let needed: BTreeSet<(u64, Month)> = buckets
            .iter()
            .map(|bucket| (bucket.counts.step, Month::of(bucket.counts.start)))
            .filter(|place| !self.partitions.contains(place))
            .collect();
        for (step, month) in needed {
            create_partition(connection, step, month).await?;
            self.partitions.insert((step, month));
        }
        Ok(())
    }

    /// Sends series that the database may not have. Returns the id of each bucket's series.
    async fn send_series(
        &mut self,
        transaction: &Transaction<'_>,
        buckets: &[ChangedBucket],
    ) -> Result<Vec<Uuid>, DatabaseError> {
        let mut new: HashMap<Uuid, SeriesNames> = HashMap::new();
        let ids: Vec<Uuid> = buckets
            .iter()
            .map(|bucket| match self.series.get(&bucket.counts.series) {
                Some(id) => *id,
                None => {
                    let id = series_id(&bucket.counts.series);
                    new.insert(id, bucket.counts.series.clone());
                    id
                }
            })
            .collect();
        if new.is_empty() {
            return Ok(ids);
        }
        // All nodes in the same order: they wait for each other, and never in a circle.
        let mut sorted: Vec<(Uuid, SeriesNames)> = new.into_iter().collect();
        sorted.sort_unstable();
        let column = |of: fn(&SeriesNames) -> &str| -> Vec<String> {
            sorted.iter().map(|(_, names)| stored(of(names))).collect()
        };
        let keys: Vec<Uuid> = sorted.iter().map(|(id, _)| *id).collect();
        let (consumers, apis) = (column(|names| &names.consumer), column(|names| &names.api));
        let (operations, plans) = (column(|names| &names.operation), column(|names| &names.plan));
        let classes: Vec<i16> = sorted.iter().map(|(_, names)| i16::from(names.status)).collect();
        let unbilled: Vec<i16> =
            sorted.iter().map(|(_, names)| names.unbilled.try_into().unwrap_or(i16::MAX)).collect();
        let sql = "INSERT INTO weir.series (id, consumer, api, operation, plan, status, unbilled)
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
        let parameters: [Parameter<'_>; 7] = [
            (&keys, Type::UUID_ARRAY),
            (&consumers, Type::TEXT_ARRAY),
            (&apis, Type::TEXT_ARRAY),
            (&operations, Type::TEXT_ARRAY),
            (&plans, Type::TEXT_ARRAY),
            (&classes, Type::INT2_ARRAY),
            (&unbilled, Type::INT2_ARRAY),
        ];
        transaction.execute(sql, &parameters).await?;
        // If the transaction is rolled back, this is cleared.
        self.series.extend(sorted.into_iter().map(|(id, names)| (names, id)));
        Ok(ids)
    }

    /// All gaps and prices with the first transaction of a connection, then the last gaps.
    async fn send_gaps_and_prices(
        &mut self,
        transaction: &Transaction<'_>,
        node: Uuid,
    ) -> Result<(), ReplicationError> {
        let since = match self.sent_all {
            true => clock::now().as_secs().saturating_sub(RECENT_GAPS),
            false => 0,
        };
        for (minute, gap) in self.replica.gaps(since)? {
            let sql = "INSERT INTO weir.gap VALUES ($1, to_timestamp($2), $3, $4, $5)
                 ON CONFLICT (node, minute) DO UPDATE SET unrecorded = excluded.unrecorded,
                     shortened = excluded.shortened, uncounted = excluded.uncounted";
            let parameters: [Parameter<'_>; 5] = [
                (&node, Type::UUID),
                (&(minute as f64), Type::FLOAT8),
                (&bounded(gap.unrecorded), Type::INT8),
                (&bounded(gap.shortened), Type::INT8),
                (&bounded(gap.uncounted), Type::INT8),
            ];
            transaction.execute(sql, &parameters).await?;
        }
        for price in self.replica.prices()? {
            let sql = "INSERT INTO weir.price VALUES ($1, $2, to_timestamp($3), $4)
                 ON CONFLICT (node, plan, since) DO UPDATE SET rule = excluded.rule
                 WHERE price.rule <> excluded.rule";
            let (plan, rule) = (stored(&price.plan), stored(&price.rule));
            let parameters: [Parameter<'_>; 4] = [
                (&node, Type::UUID),
                (&plan, Type::TEXT),
                (&(price.since as f64), Type::FLOAT8),
                (&rule, Type::TEXT),
            ];
            transaction.execute(sql, &parameters).await?;
        }
        Ok(())
    }

    /// Compares the sums of days with those in the database, if that is due, and marks days that
    /// differ. Returns whether there are any.
    async fn reconcile(
        &mut self,
        connection: &Connection,
        node: Uuid,
    ) -> Result<bool, ReplicationError> {
        let all = self.compared.is_none_or(|at| at.elapsed() >= RECONCILE_INTERVAL);
        if !all && self.compared_recently {
            return Ok(false);
        }
        let since = if all { 0 } else { clock::now().as_secs().saturating_sub(RECENT) };
        let since = since - since % DAY;
        let stored = day_sums(connection, node, since).await?;
        let mut differs = false;
        for day in self.replica.days(since)? {
            if stored.get(&(day.step, day.day)) != Some(&day) {
                self.replica.mark_day(day.step, day.day)?;
                differs = true;
            }
        }
        self.compared_recently = true;
        if all {
            self.compared = Some(Instant::now());
        }
        Ok(differs)
    }
}

/// The sums of the days of a node in the database.
pub(crate) async fn day_sums(
    connection: &Connection,
    node: Uuid,
    since: u64,
) -> Result<HashMap<(u64, u64), DaySums>, DatabaseError> {
    let sql = "SELECT step::bigint, (extract(epoch FROM start)::bigint / 86400) * 86400, count(*),
             sum(calls)::bigint, sum(revision)::bigint
         FROM weir.bucket WHERE node = $1 AND start >= to_timestamp($2) GROUP BY 1, 2";
    let since = since as f64;
    let rows = connection.query(sql, &[(&node, Type::UUID), (&since, Type::FLOAT8)]).await?;
    let sums = rows.iter().map(|row| {
        let number = |index| row.try_get::<_, i64>(index).map(i64::unsigned_abs);
        let (step, day) = (number(0)?, number(1)?);
        let (buckets, calls, revisions) = (number(2)?, number(3)?, number(4)?);
        Ok(((step, day), DaySums { step, day, buckets, calls, revisions }))
    });
    sums.collect::<Result<_, tokio_postgres::Error>>().map_err(Into::into)
}

/// Fails unless this process has made the last boot of the node and holds its lease.
pub(crate) async fn check_lease(
    transaction: &Transaction<'_>,
    node: Uuid,
    boot: Boot,
) -> Result<(), DatabaseError> {
    let sql = "SELECT 1 FROM weir.node
         WHERE id = $1 AND boot = $2 AND boot_token = $3 AND until > now() FOR SHARE";
    let parameters: [Parameter<'_>; 3] =
        [(&node, Type::UUID), (&boot.number, Type::INT8), (&boot.token, Type::UUID)];
    match transaction.one(sql, &parameters).await {
        Err(DatabaseError::Missing) => Err(DatabaseError::Fenced),
        other => other.map(drop),
    }
}

async fn send_buckets(
    transaction: &Transaction<'_>,
    node: Uuid,
    buckets: &[ChangedBucket],
    series: &[Uuid],
) -> Result<(), DatabaseError> {
    let column = |of: fn(&ChangedBucket) -> i64| buckets.iter().map(of).collect::<Vec<i64>>();
    let steps: Vec<i32> = buckets.iter().map(|bucket| bucket.counts.step as i32).collect();
    let starts = column(|bucket| bounded(bucket.counts.start));
    let (revisions, calls) = (column(|b| b.revision), column(|b| bounded(b.counts.calls)));
    let requests = column(|bucket| bounded(bucket.counts.request_bytes));
    let responses = column(|bucket| bounded(bucket.counts.response_bytes));
    let amounts: Vec<String> = buckets.iter().map(|b| b.counts.amount.to_string()).collect();
    let latencies: Vec<&[u8]> = buckets.iter().map(|b| b.counts.latency.as_slice()).collect();
    let sql = "INSERT INTO weir.bucket AS b (step, start, node, series, revision, calls, request_bytes,
             response_bytes, amount, latency)
         SELECT step, to_timestamp(start), $1, series, revision, calls, request_bytes, response_bytes,
             amount::numeric, latency
         FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10) AS changed (step, start, series, revision,
             calls, request_bytes, response_bytes, amount, latency)
         ON CONFLICT (step, start, node, series) DO UPDATE SET revision = excluded.revision,
             calls = excluded.calls, request_bytes = excluded.request_bytes,
             response_bytes = excluded.response_bytes, amount = excluded.amount,
             latency = excluded.latency
         WHERE b.revision < excluded.revision";
    let parameters: [Parameter<'_>; 10] = [
        (&node, Type::UUID),
        (&steps, Type::INT4_ARRAY),
        (&starts, Type::INT8_ARRAY),
        (&series, Type::UUID_ARRAY),
        (&revisions, Type::INT8_ARRAY),
        (&calls, Type::INT8_ARRAY),
        (&requests, Type::INT8_ARRAY),
        (&responses, Type::INT8_ARRAY),
        (&amounts, Type::TEXT_ARRAY),
        (&latencies, Type::BYTEA_ARRAY),
    ];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// A month of UTC, counted from January 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Month(u32);

impl Month {
    /// The month of a time in seconds since 1970.
    pub(crate) fn of(second: u64) -> Self {
        let time = jiff::Timestamp::from_second(bounded(second)).unwrap_or_default();
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        let years = u32::try_from(date.year() - 1970).unwrap_or_default();
        Self(years * 12 + date.month().unsigned_abs() as u32 - 1)
    }

    /// `202611`.
    pub(crate) fn digits(self) -> String {
        format!("{:04}{:02}", 1970 + self.0 / 12, self.0 % 12 + 1)
    }

    /// Its first day: `2026-11-01 00:00:00+00`.
    pub(crate) fn start(self) -> String {
        format!("{:04}-{:02}-01 00:00:00+00", 1970 + self.0 / 12, self.0 % 12 + 1)
    }
}

/// Key of the lock under which partitions are made and dropped: "weip" in ASCII.
pub(crate) const PARTITION_LOCK: i64 = 0x7765_6970;

async fn create_partition(
    connection: &mut Connection,
    step: u64,
    month: Month,
) -> Result<(), DatabaseError> {
    let name = format!("weir.bucket_{step}_{}", month.digits());
    let exists = "SELECT to_regclass($1) IS NOT NULL";
    if connection.one(exists, &[(&name, Type::TEXT)]).await?.try_get(0)? {
        return Ok(());
    }
    let transaction = connection.transaction().await?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    transaction.execute(lock, &[(&PARTITION_LOCK, Type::INT8)]).await?;
    let (start, end) = (month.start(), Month(month.0 + 1).start());
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {name} PARTITION OF weir.bucket
         FOR VALUES FROM ({step}, '{start}') TO ({step}, '{end}')"
    );
    transaction.batch(&sql).await?;
    transaction.commit().await
}

/// The id of a series: version 8, from SHA-256 of its names.
fn series_id(names: &SeriesNames) -> Uuid {
    let SeriesNames { consumer, api, operation, plan, status, unbilled } = names;
    let mut bytes = vec![*status];
    for name in [consumer, api, operation, plan] {
        let name = stored(name);
        bytes.extend_from_slice(&(name.len() as u64).to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
    }
    // Other series keep the id that they have in databases of earlier versions.
    if *unbilled != 0 {
        bytes.extend_from_slice(&unbilled.to_be_bytes());
    }
    let hash = digest(&SHA256, &bytes);
    let mut id = [0; 16];
    id.copy_from_slice(hash.as_ref().get(..16).unwrap_or(&[0; 16]));
    uuid::Builder::from_custom_bytes(id).into_uuid()
}

/// A text as PostgreSQL can store it: without NUL.
fn stored(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_the_calendar() {
        let november = Month::of(1_795_651_200); // 2026-11-26
        assert_eq!(
            (november.digits(), november.start()),
            ("202611".to_owned(), "2026-11-01 00:00:00+00".to_owned())
        );
        assert_eq!(Month(november.0 + 2).start(), "2027-01-01 00:00:00+00");
        assert_eq!(Month::of(0).digits(), "197001");
    }

    #[test]
    fn a_series_has_the_same_id_everywhere_and_another_one_than_all_others() {
        let names = SeriesNames { consumer: "ab".into(), api: "c".into(), ..Default::default() };
        let other = SeriesNames { consumer: "a".into(), api: "bc".into(), ..Default::default() };
        let failed = SeriesNames { status: 5, ..names.clone() };
        assert_eq!(series_id(&names), series_id(&names.clone()));
        assert_ne!(series_id(&names), series_id(&other));
        assert_ne!(series_id(&names), series_id(&failed));
        let unbilled = |unbilled| series_id(&SeriesNames { unbilled, ..names.clone() });
        assert_ne!(unbilled(429), unbilled(503));
        assert_ne!(unbilled(429), series_id(&names));
        assert_eq!(series_id(&names).to_string(), "7e1a5afe-a548-8bb9-a98a-ee5630e17b6e");
        assert_eq!(stored("a\0b"), "a\u{fffd}b");
    }
}
