//! Replication of counts: buckets that have changed, for a database of a fleet.
//!
//! The counter marks each bucket that it changes. A replicator sends marked buckets with their
//! revisions, and removes the marks of those that were stored. A bucket is sent as a whole, so that
//! sending it again changes nothing.
//!
//! A copied data folder that becomes another node has counts of the node before: they are remembered,
//! and left out of what is sent.

use crate::bucket::{DAY, amount, read_sum};
use crate::error::MonitorError;
use crate::tally::Sum;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::path::Path;
use weir_store::StoreError;
use weir_store::gaps::Gap;

/// The names of a series; those that are absent are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesNames {
    /// The consumer.
    pub consumer: String,
    /// The API.
    pub api: String,
    /// The operation.
    pub operation: String,
    /// The plan.
    pub plan: String,
    /// 1 to 5 for 1xx to 5xx, 0 if there was no response.
    pub status: u8,
    /// Status of the problem for which weir does not bill its own response; 0 for all other calls.
    pub unbilled: u16,
}

/// The counts of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// Length in seconds: 60, 3600 or 86,400.
    pub step: u64,
    /// Start in seconds since 1970.
    pub start: u64,
    /// What it is of.
    pub series: SeriesNames,
    /// Calls.
    pub calls: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of response bodies.
    pub response_bytes: u64,
    /// Costs in units of 10⁻¹⁸ of the currency of the plan.
    pub amount: i128,
    /// Durations: an encoded sketch.
    pub latency: Vec<u8>,
}

/// A bucket to be replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedBucket {
    /// How often it was written; a higher one replaces a lower one.
    pub revision: i64,
    /// Its counts.
    pub counts: BucketCounts,
    /// Number of its series in this database.
    series: i64,
}

/// Buckets to be replicated together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The buckets, each once.
    pub buckets: Vec<ChangedBucket>,
    /// If no other bucket has changed: all calls received before this time are counted, in seconds
    /// since 1970, and are replicated with these buckets.
    pub settled: Option<u64>,
}

/// The sums of the buckets of a length and a day, to be compared with those of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaySums {
    /// Length of the buckets in seconds.
    pub step: u64,
    /// Start of the day in seconds since 1970.
    pub day: u64,
    /// Number of buckets with a revision that is not inherited.
    pub buckets: u64,
    /// Their calls.
    pub calls: u64,
    /// Sum of their revisions.
    pub revisions: u64,
}

/// A price as it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceEntry {
    /// The plan.
    pub plan: String,
    /// In force from then on, in seconds since 1970.
    pub since: u64,
    /// JSON; `null`: the plan had no price.
    pub rule: String,
}

/// The counts of a data folder, as a replicator reads them.
#[derive(Debug)]
pub struct Replica {
    connection: Connection,
}

impl Replica {
    /// Opens the counts of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: weir_store::open(data)? })
    }

    /// Starts to replicate as a node, or goes on.
    ///
    /// The source of events names the node from then on.
    ///
    /// With the first node, everything that is counted is to be replicated; with another node than
    /// before, only what is counted from now on.
    ///
    /// # Errors
    /// The database fails.
    pub fn start(&mut self, node: &str) -> Result<(), MonitorError> {
        let transaction = self.connection.transaction()?;
        let before: Option<String> =
            transaction.query_row("SELECT node FROM replica", [], |row| row.get(0)).optional()?;
        match before.as_deref() {
            None => {
                transaction.execute("INSERT INTO replica VALUES (1, ?1, 1)", [node])?;
                transaction.execute(
                    "INSERT INTO bucket_unreplicated SELECT step, start, series FROM bucket
                     WHERE true ON CONFLICT DO NOTHING",
                    [],
                )?;
            }
            Some(before) if before != node => {
                transaction.execute("UPDATE replica SET node = ?1", [node])?;
                transaction.execute("DELETE FROM bucket_unreplicated", [])?;
                transaction.execute("DELETE FROM bucket_inherited", [])?;
                transaction.execute(
                    "INSERT INTO bucket_inherited SELECT step, start, series, calls, request_bytes,
                     response_bytes, amount, latency FROM bucket",
                    [],
                )?;
            }
            Some(_) => {}
        }
        // Events are unique by their source and id: a copy must not go on as the node before.
        transaction.execute("UPDATE event_source SET id = ?1 WHERE id <> ?1", [node])?;
        Ok(transaction.commit()?)
    }

    /// Ends the replication of a data folder: changes are no longer marked. A later start replicates
    /// everything.
    ///
    /// # Errors
    /// The database fails.
    pub fn end(data: &Path) -> Result<(), MonitorError> {
        let connection = weir_store::open(data)?;
        connection.execute_batch(
            "BEGIN IMMEDIATE; DELETE FROM replica; DELETE FROM bucket_unreplicated; COMMIT",
        )?;
        Ok(())
    }

    /// Up to `limit` buckets that have changed, oldest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn batch(&self, limit: usize) -> Result<Batch, MonitorError> {
        // One snapshot, so that buckets and `settled` fit.
        let snapshot = self.connection.unchecked_transaction()?;
        let mut read = snapshot.prepare_cached(
            "SELECT b.calls, b.request_bytes, b.response_bytes, b.amount, b.latency,
                    b.step, b.start, b.series, b.revision,
                    s.consumer, s.api, s.operation, s.plan, s.status,
                    i.calls, i.request_bytes, i.response_bytes, i.amount, i.latency, s.unbilled
             FROM bucket_unreplicated u
             JOIN bucket b USING (step, start, series)
             JOIN series s ON s.id = b.series
             LEFT JOIN bucket_inherited i USING (step, start, series)
             ORDER BY u.step, u.start, u.series LIMIT ?1",
        )?;
        let buckets = read.query_map([limit as i64], changed)?.collect::<Result<Vec<_>, _>>()?;
        let settled = (buckets.len() < limit)
            .then(|| snapshot.query_row("SELECT settled FROM counted_until", [], |row| row.get(0)));
        let settled = settled.transpose()?;
        Ok(Batch { buckets, settled })
    }

    /// Removes the marks of buckets that were replicated, unless they have changed since.
    ///
    /// # Errors
    /// The database fails; the buckets are replicated again.
    pub fn replicated(&mut self, batch: &Batch) -> Result<(), MonitorError> {
        if batch.buckets.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        let mut remove = transaction.prepare_cached(
            "DELETE FROM bucket_unreplicated WHERE step = ?1 AND start = ?2 AND series = ?3
             AND NOT EXISTS (SELECT 1 FROM bucket WHERE step = ?1 AND start = ?2 AND series = ?3
                             AND revision > ?4)",
        )?;
        for ChangedBucket { revision, counts, series } in &batch.buckets {
            remove.execute(params![counts.step, counts.start, series, revision])?;
        }
        drop(remove);
        if batch.settled.is_some() {
            // Marks of buckets that were purged before they were replicated.
            transaction.execute(
                "DELETE FROM bucket_unreplicated AS u WHERE NOT EXISTS (SELECT 1 FROM bucket b
                 WHERE b.step = u.step AND b.start = u.start AND b.series = u.series)",
                [],
            )?;
        }
        Ok(transaction.commit()?)
    }

    /// Number of buckets that have changed.
    ///
    /// # Errors
    /// The database fails.
    pub fn waiting(&self) -> Result<u64, MonitorError> {
        let count = "SELECT count(*) FROM bucket_unreplicated";
        Ok(self.connection.query_row(count, [], |row| row.get(0))?)
    }

    /// The sums of all days since a time, without buckets that wait and those that are all inherited.
    ///
    /// # Errors
    /// The database fails.
    pub fn days(&self, since: u64) -> Result<Vec<DaySums>, MonitorError> {
        let mut read = self.connection.prepare_cached(
            "SELECT b.step, b.start - b.start % ?2 AS day, count(*),
                    sum(b.calls - coalesce(i.calls, 0)), sum(b.revision)
             FROM bucket b LEFT JOIN bucket_inherited i USING (step, start, series)
             WHERE b.start >= ?1 AND (i.calls IS NULL OR i.calls <> b.calls)
             GROUP BY 1, 2",
        )?;
        let rows = read.query_map(params![since, DAY], |row| {
            Ok(DaySums {
                step: row.get(0)?,
                day: row.get(1)?,
                buckets: row.get(2)?,
                calls: row.get(3)?,
                revisions: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Marks the buckets of a length and a day as changed.
    ///
    /// # Errors
    /// The database fails.
    pub fn mark_day(&mut self, step: u64, day: u64) -> Result<(), MonitorError> {
        self.connection.execute(
            "INSERT INTO bucket_unreplicated SELECT step, start, series FROM bucket
             WHERE step = ?1 AND start >= ?2 AND start < ?3 ON CONFLICT DO NOTHING",
            params![step, day, day + DAY],
        )?;
        Ok(())
    }

    /// All prices, which are few.
    ///
    /// # Errors
    /// The database fails.
    pub fn prices(&self) -> Result<Vec<PriceEntry>, MonitorError> {
        let mut read = self.connection.prepare_cached("SELECT plan, since, rule FROM price")?;
        let rows = read.query_map([], |row| {
            Ok(PriceEntry { plan: row.get(0)?, since: row.get(1)?, rule: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The gaps of the minutes from `since` on, in seconds since 1970.
    ///
    /// # Errors
    /// The database fails.
    pub fn gaps(&self, since: u64) -> Result<Vec<(u64, Gap)>, MonitorError> {
        let read = "SELECT minute, unrecorded, shortened, uncounted FROM gap WHERE minute >= ?1";
        let mut read = self.connection.prepare_cached(read)?;
        let rows = read.query_map([since], |row| {
            let (unrecorded, shortened, uncounted) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, Gap { unrecorded, shortened, uncounted }))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of nodes that served, as last known; 1 without a fleet.
    ///
    /// # Errors
    /// The database fails.
    pub fn live_nodes(&self) -> Result<u64, MonitorError> {
        let read = "SELECT live FROM replica";
        let live = self.connection.query_row(read, [], |row| row.get(0)).optional()?;
        Ok(live.unwrap_or(1))
    }

    /// Stores the number of nodes that serve.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_live_nodes(&mut self, live: u64) -> Result<(), MonitorError> {
        self.connection.execute("UPDATE replica SET live = ?1 WHERE live <> ?1", [live])?;
        Ok(())
    }
}

fn changed(row: &Row<'_>) -> rusqlite::Result<ChangedBucket> {
    let mut sum = read_sum(row)?;
    if let Some(inherited) = inherited(row)? {
        sum.subtract(&inherited);
    }
    let series = SeriesNames {
        consumer: row.get(9)?,
        api: row.get(10)?,
        operation: row.get(11)?,
        plan: row.get(12)?,
        status: row.get(13)?,
        unbilled: row.get(19)?,
    };
    let counts = BucketCounts {
        step: row.get(5)?,
        start: row.get(6)?,
        series,
        calls: sum.calls,
        request_bytes: sum.request_bytes,
        response_bytes: sum.response_bytes,
        amount: sum.amount,
        latency: sum.latency.encode(),
    };
    Ok(ChangedBucket { revision: row.get(8)?, counts, series: row.get(7)? })
}

fn inherited(row: &Row<'_>) -> rusqlite::Result<Option<Sum>> {
    let Some(calls) = row.get(14)? else { return Ok(None) };
    let latency = crate::sketch::Sketch::decode(row.get_ref(18)?.as_blob()?);
    Ok(Some(Sum {
        calls,
        request_bytes: row.get(15)?,
        response_bytes: row.get(16)?,
        amount: amount(row.get_ref(17)?.as_str_or_null()?),
        latency: latency.unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "INSERT INTO series VALUES (1, 'acme', 'x', 'hello', '', 2, 0);
        INSERT INTO bucket VALUES (60, 120, 1, 5, 0, 10, '7', x'01', 1), (86400, 0, 1, 5, 0, 10, '7', x'01', 1);
        UPDATE counted_until SET settled = 180;";

    fn replica() -> (tempfile::TempDir, Replica) {
        let data = tempfile::tempdir().unwrap();
        let replica = Replica::open(data.path()).unwrap();
        replica.connection.execute_batch(COUNTS).unwrap();
        (data, replica)
    }

    fn calls(batch: &Batch) -> Vec<(u64, u64)> {
        batch.buckets.iter().map(|bucket| (bucket.counts.step, bucket.counts.calls)).collect()
    }

    #[test]
    fn everything_is_replicated_once_and_what_changes_meanwhile_again() {
        let (_data, mut replica) = replica();
        replica.start("one").unwrap();
        let first = replica.batch(1).unwrap();
        assert_eq!((calls(&first), first.settled), (vec![(60, 5)], None));
        let all = replica.batch(10).unwrap();
        assert_eq!((calls(&all), all.settled), (vec![(60, 5), (86_400, 5)], Some(180)));
        let change = "UPDATE bucket SET calls = 6, revision = 2 WHERE step = 60";
        replica.connection.execute(change, []).unwrap();
        replica.replicated(&all).unwrap();
        assert_eq!(calls(&replica.batch(10).unwrap()), [(60, 6)]);
        // The same node goes on where it was.
        replica.start("one").unwrap();
        assert_eq!(replica.waiting().unwrap(), 1);
        assert_eq!(replica.days(0).unwrap().len(), 2);
    }

    #[test]
    fn another_node_leaves_out_what_the_one_before_has_counted() {
        let (data, mut replica) = replica();
        replica.start("one").unwrap();
        replica.start("two").unwrap();
        assert_eq!((replica.waiting().unwrap(), replica.days(0).unwrap()), (0, Vec::new()));
        let source = "SELECT id FROM event_source";
        assert_eq!(
            replica.connection.query_row(source, [], |row| row.get(0)),
            Ok("two".to_owned())
        );
        let change = "UPDATE bucket SET calls = 8, revision = 2 WHERE step = 60";
        replica.connection.execute(change, []).unwrap();
        replica.mark_day(60, 0).unwrap();
        assert_eq!(calls(&replica.batch(10).unwrap()), [(60, 3)]);
        assert_eq!(replica.days(0).unwrap()[0].calls, 3);
        Replica::end(data.path()).unwrap();
        assert_eq!(replica.live_nodes().unwrap(), 1);
    }
}
