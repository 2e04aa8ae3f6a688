//! Counting again what the journal still has.
//!
//! It is known of every segment that was counted which minute was its last. What is newer than all
//! segments that were dropped since can be counted again, and is put in place of what was counted
//! before; what is older is never touched. The hours and the day in which that begins are put
//! together from the minutes before and the new ones.

use crate::bucket::{self, DAY, HOUR, MINUTES_KEPT, STEPS, Table, Writer};
use crate::counter::{self, Counter, REBUILD_PIN};
use crate::error::MonitorError;
use crate::tally::{MINUTE, Tally};
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::HashSet;
use weir_journal::{Position, failpoint};
use weir_store::clock;

/// Calls that are added up before they are written.
const PIECE: usize = 100_000;

/// What was counted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Begin of the range, in seconds since 1970: a minute. 0 if nothing was ever dropped.
    pub from: u64,
    /// End of the range: the end of the last minute that has anything.
    pub to: u64,
    /// Transactions that were read.
    pub read: u64,
    /// Calls that were counted in the range.
    pub before: u64,
    /// Calls that are counted in it now.
    pub after: u64,
}

impl Counter {
    /// Counts again what the journal still has, by the settings of now, and puts it in the place of
    /// what was counted before. Nothing is counted meanwhile.
    ///
    /// # Errors
    /// The journal or the database fails; then nothing has changed.
    pub fn rebuild(&mut self) -> Result<Rebuilt, MonitorError> {
        self.catch_up()?;
        // As long as it has passed nothing, nothing is dropped.
        let pin = self.journal.follower(REBUILD_PIN).map_err(MonitorError::Journal)?;
        let rebuilt = self.count_all_again();
        drop(pin);
        if rebuilt.is_err() {
            // Nothing refers to series for it any more. It is tried again with the next one.
            let _ = self.connection.execute("DELETE FROM rebuilt", []);
        }
        self.journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        rebuilt
    }

    fn count_all_again(&mut self) -> Result<Rebuilt, MonitorError> {
        let mut rebuilt = self.stage_all()?;
        // What was about to be dropped when the pin was set may have gone while it was read.
        while self.first_whole()? > rebuilt.from {
            rebuilt = self.stage_all()?;
        }
        self.take_over(&mut rebuilt)?;
        Ok(rebuilt)
    }

    /// Counts beside what was counted before.
    fn stage_all(&mut self) -> Result<Rebuilt, MonitorError> {
        self.connection.execute("DELETE FROM rebuilt", [])?;
        let mut rebuilt = Rebuilt { from: self.first_whole()?, ..Rebuilt::default() };
        let mut writer = Writer::new(Table::Rebuilt);
        let mut tally = Tally::default();
        for lane in 0..self.journal.lanes() {
            let to = counter::noted(&self.connection, lane)?;
            rebuilt.read += self.count_again(lane, to, rebuilt.from, &mut tally, &mut writer)?;
        }
        self.stage(&mut tally, &mut writer)?;
        Ok(rebuilt)
    }

    /// The first minute of which nothing can have been dropped.
    fn first_whole(&self) -> Result<u64, MonitorError> {
        let mut held: HashSet<(u16, i64)> = HashSet::new();
        for lane in 0..self.journal.lanes() {
            let numbers = self.journal.segments(lane).into_iter();
            held.extend(numbers.map(|number| (lane, i64::from(number))));
        }
        let mut read =
            self.connection.prepare("SELECT lane, segment, last FROM counted_segment")?;
        let mut rows = read.query([])?;
        let mut from = 0;
        while let Some(row) = rows.next()? {
            if !held.contains(&(row.get(0)?, row.get(1)?)) {
                from = from.max(row.get::<_, u64>(2)? + MINUTE);
            }
        }
        // Before that there may be no minutes to put an hour or a day together from.
        let minutes = clock::now().as_secs().saturating_sub(MINUTES_KEPT - 2 * DAY);
        let day = from % DAY;
        Ok(if from < minutes && day > 0 { from - day + DAY } else { from })
    }

    /// Counts what a lane has before `to`, of minutes since `from`.
    fn count_again(
        &mut self,
        lane: u16,
        to: Position,
        from: u64,
        tally: &mut Tally,
        writer: &mut Writer,
    ) -> Result<u64, MonitorError> {
        let (counts, price) = {
            let settings = self.shared.settings();
            (settings.counts, settings.price.clone())
        };
        let begin = self.journal.begin(lane);
        let mut reader = self.journal.reader(lane, begin).metadata_only();
        let mut read = 0;
        while reader.position() < to {
            let piece = reader.calls(PIECE, |call| {
                let before = call.address.is_some_and(|address| address.position < to);
                read += u64::from(before);
                if before && call.received_us / 1_000_000 >= from {
                    tally.add(call, counts, price.as_deref());
                }
            });
            if piece.map_err(MonitorError::Journal)? == 0 {
                break;
            }
            self.stage(tally, writer)?;
        }
        Ok(read)
    }

    fn stage(&mut self, tally: &mut Tally, writer: &mut Writer) -> Result<(), MonitorError> {
        let most = self.shared.settings().cardinality;
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        writer.add(&begun, tally, most)?;
        begun.commit()?;
        failpoint::pass("monitor.staged");
        *tally = Tally::default();
        Ok(())
    }

    fn take_over(&mut self, rebuilt: &mut Rebuilt) -> Result<(), MonitorError> {
        let from = rebuilt.from;
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        add_minutes_before(&begun, from)?;
        let calls = "SELECT total(calls), max(start) FROM bucket WHERE step = 60 AND start >= ?1";
        let (before, last) = begun.query_row(calls, [from], range)?;
        let calls = "SELECT total(calls), max(start) FROM rebuilt WHERE step = 60 AND start >= ?1";
        let (after, newest) = begun.query_row(calls, [from], range)?;
        (rebuilt.before, rebuilt.after) = (before, after);
        let end = last.max(newest).map_or(from, |last| last + MINUTE);
        rebuilt.to = end;
        set_revisions(&begun)?;
        for step in STEPS {
            let first = from - from % step;
            let drop = "DELETE FROM bucket WHERE step = ?1 AND start >= ?2";
            begun.execute(drop, params![step, first])?;
        }
        begun.execute("INSERT INTO bucket SELECT * FROM rebuilt", [])?;
        begun.execute("DELETE FROM rebuilt", [])?;
        failpoint::pass("monitor.rebuilt");
        begun.commit()?;
        self.forget();
        Ok(())
    }
}

fn range(row: &rusqlite::Row<'_>) -> rusqlite::Result<(u64, Option<u64>)> {
    Ok((row.get::<_, f64>(0)? as u64, row.get(1)?))
}

/// What has come out as before keeps its revision; of the rest others are told.
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
    Ok(())
}

/// Adds the minutes before `from` of its hour and its day to what these are put together from.
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
