//! Rebuild: meters again all calls that the journal still has.
//!
//! The last minute of every counted segment is stored. Minutes after those of all dropped segments
//! can be counted again, and replace the old counts; earlier ones are never changed. The first hour
//! and the first day are computed from the minutes before and the new ones.

use crate::bucket::{self, DAY, HOUR, MINUTE_RETENTION, STEPS, Table, Writer};
use crate::counter::{self, Counter, REBUILD_PIN};
use crate::error::MonitorError;
use crate::sketch::Sketch;
use crate::tally::{MINUTE, Tally};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::mpsc;
use utoipa::ToSchema;
use weir_journal::{Position, failpoint};
use weir_model::UnixSeconds;
use weir_store::clock;

/// Calls that are added up before they are written.
const BATCH_CALLS: usize = 100_000;

/// The counts of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Start of the range, a minute in seconds since 1970; 0 if nothing was ever dropped.
    pub from: u64,
    /// End of the range: the end of the last minute with calls.
    pub to: u64,
    /// Transactions read.
    pub read: u64,
    /// Calls of the range before.
    pub before: u64,
    /// Calls of the range now.
    pub after: u64,
}

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebuildReport {
    /// Start of the rebuilt period (RFC 3339, UTC): a minute. Older data was not changed.
    pub from: String,
    /// End of the rebuilt period.
    pub to: String,
    /// Transactions read.
    pub read: u64,
    /// Calls metered in the period before.
    pub before: u64,
    /// Calls metered in the period now.
    pub after: u64,
    /// Why a failed rebuild changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl From<Result<Rebuilt, MonitorError>> for RebuildReport {
    fn from(result: Result<Rebuilt, MonitorError>) -> Self {
        match result {
            Ok(Rebuilt { from, to, read, before, after }) => {
                let [from, to] = [from, to].map(|time| UnixSeconds(time).to_string());
                Self { from, to, read, before, after, failed: None }
            }
            Err(error) => Self { failed: Some(error.to_string()), ..Self::default() },
        }
    }
}

/// A command to the thread that runs a [`Counter`].
#[derive(Debug)]
pub enum CounterCommand {
    /// Rebuild the counts, and send the result.
    Rebuild(mpsc::Sender<RebuildReport>),
    /// End a pause.
    Wake,
}

impl Counter {
    /// Counts what the journal still has again, with the current settings, and replaces the old
    /// counts. Nothing else is counted meanwhile.
    ///
    /// # Errors
    /// The journal or the database fails; nothing is changed then.
    pub fn rebuild(&mut self) -> Result<Rebuilt, MonitorError> {
        self.catch_up()?;
        // As long as the pin does not advance, nothing is dropped.
        let pin = self.journal.follower(REBUILD_PIN).map_err(MonitorError::Journal)?;
        let rebuilt = self.recount();
        drop(pin);
        if rebuilt.is_err() {
            // Rows that are left now are removed by the next rebuild.
            let _ = self.connection.execute("DELETE FROM rebuilt", []);
        }
        self.journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        rebuilt
    }

    fn recount(&mut self) -> Result<Rebuilt, MonitorError> {
        let mut rebuilt = self.stage_all()?;
        // Segments may have been dropped just before the pin took effect.
        while self.first_complete()? > rebuilt.from {
            rebuilt = self.stage_all()?;
        }
        self.replace_counts(&mut rebuilt)?;
        Ok(rebuilt)
    }

    /// Counts into the table `rebuilt`.
    fn stage_all(&mut self) -> Result<Rebuilt, MonitorError> {
        self.connection.execute("DELETE FROM rebuilt", [])?;
        let mut rebuilt = Rebuilt { from: self.first_complete()?, ..Rebuilt::default() };
        let mut writer = Writer::new(Table::Rebuilt);
        let mut tally = Tally::default();
        for lane in 0..self.journal.lanes() {
            let to = counter::counted_until(&self.connection, lane)?;
            rebuilt.read += self.recount_lane(lane, to, rebuilt.from, &mut tally, &mut writer)?;
        }
        self.stage(&mut tally, &mut writer)?;
        Ok(rebuilt)
    }

    /// The first minute of which nothing can have been dropped.
    fn first_complete(&self) -> Result<u64, MonitorError> {
        let mut kept: HashSet<(u16, i64)> = HashSet::new();
        for lane in 0..self.journal.lanes() {
            let numbers = self.journal.segments(lane).into_iter();
            kept.extend(numbers.map(|number| (lane, i64::from(number))));
        }
        let mut read =
            self.connection.prepare("SELECT lane, segment, last FROM counted_segment")?;
        let mut rows = read.query([])?;
        let mut from = 0;
        while let Some(row) = rows.next()? {
            if !kept.contains(&(row.get(0)?, row.get(1)?)) {
                from = from.max(row.get::<_, u64>(2)? + MINUTE);
            }
        }
        // Before that, minutes to compute an hour or a day from may be purged.
        let minutes = clock::now().as_secs().saturating_sub(MINUTE_RETENTION - 2 * DAY);
        let day = from % DAY;
        Ok(if from < minutes && day > 0 { from - day + DAY } else { from })
    }

    /// Counts the calls of a lane before `to`, of minutes since `from`.
    fn recount_lane(
        &mut self,
        lane: u16,
        to: Position,
        from: u64,
        tally: &mut Tally,
        writer: &mut Writer,
    ) -> Result<u64, MonitorError> {
        let (counts, price) = {
            let settings = self.shared.settings.lock();
            (settings.counts, settings.price.clone())
        };
        let start = self.journal.begin(lane);
        let mut reader = self.journal.reader(lane, start).metadata_only();
        let mut read = 0;
        while reader.position() < to {
            let counted = reader.calls(BATCH_CALLS, |call| {
                let before = call.address.is_some_and(|address| address.position < to);
                read += u64::from(before);
                if before && call.received_us / 1_000_000 >= from {
                    tally.add(call, counts, price.as_deref());
                }
            });
            if counted.map_err(MonitorError::Journal)? == 0 {
                break;
            }
            self.stage(tally, writer)?;
        }
        Ok(read)
    }

    fn stage(&mut self, tally: &mut Tally, writer: &mut Writer) -> Result<(), MonitorError> {
        let limit = self.shared.settings.lock().cardinality;
        let transaction = self.connection.transaction()?;
        writer.add(&transaction, tally, limit)?;
        transaction.commit()?;
        failpoint::pass("monitor.staged");
        *tally = Tally::default();
        Ok(())
    }

    fn replace_counts(&mut self, rebuilt: &mut Rebuilt) -> Result<(), MonitorError> {
        let from = rebuilt.from;
        let transaction = self.connection.transaction()?;
        add_minutes_before(&transaction, from)?;
        let calls = "SELECT total(calls), max(start) FROM bucket WHERE step = 60 AND start >= ?1";
        let (before, last) = transaction.query_row(calls, [from], range)?;
        let calls = "SELECT total(calls), max(start) FROM rebuilt WHERE step = 60 AND start >= ?1";
        let (after, newest) = transaction.query_row(calls, [from], range)?;
        (rebuilt.before, rebuilt.after) = (before, after);
        let end = last.max(newest).map_or(from, |last| last + MINUTE);
        rebuilt.to = end;
        add_zeros(&transaction, from)?;
        set_revisions(&transaction)?;
        for step in STEPS {
            let first = from - from % step;
            let drop = "DELETE FROM bucket WHERE step = ?1 AND start >= ?2";
            transaction.execute(drop, params![step, first])?;
        }
        transaction.execute("INSERT INTO bucket SELECT * FROM rebuilt", [])?;
        transaction.execute("DELETE FROM rebuilt", [])?;
        failpoint::pass("monitor.rebuilt");
        transaction.commit()?;
        self.invalidate();
        Ok(())
    }
}

fn range(row: &rusqlite::Row<'_>) -> rusqlite::Result<(u64, Option<u64>)> {
    Ok((row.get::<_, f64>(0)? as u64, row.get(1)?))
}

/// Adds zeros for buckets that have no calls any more: readers of earlier revisions learn of it.
fn add_zeros(database: &Connection, from: u64) -> rusqlite::Result<()> {
    for step in STEPS {
        database.execute(
            "INSERT INTO rebuilt SELECT step, start, series, 0, 0, 0, NULL, ?3, 1 FROM bucket
             WHERE step = ?1 AND start >= ?2 ON CONFLICT DO NOTHING",
            params![step, from - from % step, Sketch::default().encode()],
        )?;
    }
    Ok(())
}

/// Unchanged buckets keep their revision; changed ones are recorded for events.
fn set_revisions(database: &Connection) -> rusqlite::Result<()> {
    database.execute(
        "UPDATE rebuilt SET revision = coalesce((SELECT b.revision
             + (b.calls <> rebuilt.calls OR b.request_bytes <> rebuilt.request_bytes
                OR b.response_bytes <> rebuilt.response_bytes OR b.amount IS NOT rebuilt.amount)
             FROM bucket b WHERE b.step = rebuilt.step AND b.start = rebuilt.start
             AND b.series = rebuilt.series), 1)",
        [],
    )?;
    database.execute(
        "INSERT INTO bucket_changed SELECT r.start, r.series FROM rebuilt r
         WHERE r.step = 60 AND r.start >= (SELECT start FROM bucket_cursor)
         AND NOT EXISTS (SELECT 1 FROM bucket b WHERE b.step = 60 AND b.start = r.start
                         AND b.series = r.series AND b.revision = r.revision)
         ON CONFLICT DO NOTHING",
        [],
    )?;
    database.execute(
        "INSERT INTO bucket_unreplicated SELECT r.step, r.start, r.series FROM rebuilt r
         WHERE EXISTS (SELECT 1 FROM replica)
         AND NOT EXISTS (SELECT 1 FROM bucket b WHERE b.step = r.step AND b.start = r.start
                         AND b.series = r.series AND b.revision = r.revision)
         ON CONFLICT DO NOTHING",
        [],
    )?;
    Ok(())
}

/// Adds the minutes before `from` to the hour and the day of `from`.
fn add_minutes_before(database: &Connection, from: u64) -> rusqlite::Result<()> {
    let writer = Writer::new(Table::Rebuilt);
    for step in [HOUR, DAY] {
        let mut read = database.prepare_cached(
            "SELECT calls, request_bytes, response_bytes, amount, latency, series FROM bucket
             WHERE step = 60 AND start >= ?1 AND start < ?2",
        )?;
        let start = from - from % step;
        let mut rows = read.query(params![start, from])?;
        while let Some(row) = rows.next()? {
            let sum = bucket::read_sum(row)?;
            writer.merge(database, (step, start, row.get(5)?), &sum)?;
        }
    }
    Ok(())
}
