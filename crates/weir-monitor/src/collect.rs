//! Counts of several nodes, added up in memory: reports and invoices read them like those of one.

use crate::bucket::{Table, Writer};
use crate::error::MonitorError;
use crate::monitor::Monitor;
use crate::replica::{BucketCounts, PriceEntry};
use crate::sketch::Sketch;
use crate::tally::{Series, Sum};
use rusqlite::{Connection, params};
use weir_store::gaps::{Gap, Gaps};

/// Adds up counts.
#[derive(Debug)]
pub struct Collector {
    connection: Connection,
    gaps: Connection,
    writer: Writer,
}

impl Collector {
    /// A collector without counts.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, MonitorError> {
        let (connection, gaps) = (weir_store::in_memory()?, weir_store::in_memory()?);
        // Nothing is rolled back, and nothing is kept: one transaction is fastest.
        connection.execute_batch("BEGIN")?;
        Ok(Self { connection, gaps, writer: Writer::new(Table::Bucket) })
    }

    /// Adds a bucket of a node.
    ///
    /// # Errors
    /// There is no memory.
    pub fn add(&mut self, counts: &BucketCounts) -> Result<(), MonitorError> {
        let names = &counts.series;
        let series = Series {
            consumer: names.consumer.clone(),
            api: names.api.clone(),
            operation: names.operation.clone(),
            plan: names.plan.clone(),
            status: names.status,
            unbilled: names.unbilled,
        };
        let number = self.writer.number(&self.connection, &series)?;
        let sum = Sum {
            calls: counts.calls,
            request_bytes: counts.request_bytes,
            response_bytes: counts.response_bytes,
            amount: counts.amount,
            // A damaged sketch is omitted: the calls are counted anyway.
            latency: Sketch::decode(&counts.latency).unwrap_or_default(),
        };
        self.writer.merge(&self.connection, (counts.step, counts.start, number), &sum)?;
        Ok(())
    }

    /// Adds a price.
    ///
    /// # Errors
    /// There is no memory.
    pub fn add_price(&mut self, price: &PriceEntry) -> Result<(), MonitorError> {
        let PriceEntry { plan, since, rule } = price;
        // Nodes that load a price in the same second agree about it in a moment.
        let write = "INSERT INTO price VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        self.connection.prepare_cached(write)?.execute(params![plan, since, rule])?;
        Ok(())
    }

    /// Adds a gap of a minute, in seconds since 1970.
    ///
    /// # Errors
    /// There is no memory.
    pub fn add_gap(&mut self, minute: u64, gap: Gap) -> Result<(), MonitorError> {
        let write = "INSERT INTO gap VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET
             unrecorded = unrecorded + ?2, shortened = shortened + ?3, uncounted = uncounted + ?4";
        let Gap { unrecorded, shortened, uncounted } = gap;
        let gap = params![minute, unrecorded, shortened, uncounted];
        self.gaps.prepare_cached(write)?.execute(gap)?;
        Ok(())
    }

    /// The counts: all calls before `settled` are in them, and counts before `dropped` may be purged;
    /// both in seconds since 1970.
    ///
    /// # Errors
    /// There is no memory.
    pub fn finish(self, settled: u64, dropped: u64) -> Result<(Monitor, Gaps), MonitorError> {
        let bounds = "UPDATE counted_until SET settled = ?1, dropped = ?2";
        self.connection.execute(bounds, [settled, dropped])?;
        self.connection.execute_batch("COMMIT")?;
        Ok((Monitor::of(self.connection), Gaps::of(self.gaps)))
    }
}
