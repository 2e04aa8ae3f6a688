//! The counter: follows the journal and counts calls.

use crate::bucket::{self, MINUTE_RETENTION, Table, Writer};
use crate::error::MonitorError;
use crate::quota::{self, QuotaUse};
use crate::tally::{Price, Tally};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_journal::{Follower, Journal, Position, Reader, failpoint};
use weir_model::Counts;
use weir_store::clock;

/// Name of its follower of the journal.
pub const FOLLOWER: &str = "monitor";
/// The follower that keeps the journal from dropping anything during a rebuild.
pub(crate) const REBUILD_PIN: &str = "monitor-rebuild";
/// Longest time that counts are only in memory.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Most calls that are only in memory.
const MAX_UNWRITTEN: u64 = 200_000;
/// Longest time until the position is written if there was nothing to count.
const POSITION_INTERVAL: Duration = Duration::from_secs(10);
/// Time between purges.
const PURGE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Settings of the counter.
#[derive(Clone, Default)]
pub struct Settings {
    /// The metering rules.
    pub counts: Counts,
    /// Retention of counts.
    pub keep: Duration,
    /// Most combinations of a day.
    pub cardinality: usize,
    /// Price of a call, if any call has one.
    pub price: Option<Arc<Price>>,
    /// Longest duration of a call, except for those without a limit. A call is counted when it has
    /// ended, in the minute in which it started.
    pub max_call_time: Duration,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("counts", &self.counts)
            .field("keep", &self.keep)
            .field("cardinality", &self.cardinality)
            .field("max_call_time", &self.max_call_time)
            .finish_non_exhaustive()
    }
}

/// State of the counter since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls counted and written.
    pub counted: u64,
    /// Of these, calls counted as others because of the cardinality limit.
    pub overflow: u64,
    /// Number of writes.
    pub writes: u64,
    /// Time since the transaction written last was received, or since all was written; 0 when all is.
    pub lag: Duration,
    /// Calls of [`Counter::recover`].
    pub restarts: u64,
}

/// State shared by counter and readers.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) settings: Mutex<Settings>,
    /// Without the lag.
    statistics: Mutex<Statistics>,
    /// Approximate time before which all is written, in microseconds since 1970.
    written_until: AtomicU64,
    /// Position up to which all is written in each lane; empty without a counter.
    written: Mutex<Vec<Position>>,
    /// Records that the journal had when all that it had was read, and has been written since.
    counted_records: Mutex<Option<u64>>,
}

/// How many records the journal has got since it was opened, and how many of them are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Records of transactions, one or more for each; count-only ones that wait for space included.
    pub appended: u64,
    /// At least so many, from the first one on, are counted and written.
    pub counted: u64,
}

/// Records since the journal was opened.
fn appended(journal: &Journal) -> u64 {
    let statistics = journal.statistics();
    statistics.records + statistics.pending_counts
}

impl Shared {
    /// `None` while records of earlier runs may not be counted.
    pub(crate) fn recorded(&self, journal: &Journal) -> Option<Recorded> {
        let counted = (*self.counted_records.lock())?;
        Some(Recorded { appended: appended(journal), counted })
    }

    /// `journal` is the one that is counted, if any.
    pub(crate) fn statistics(&self, journal: Option<&Journal>) -> Statistics {
        let left = journal.is_some_and(|journal| {
            let written = self.written.lock();
            (0..).zip(written.iter()).any(|(lane, written)| *written < journal.end(lane))
        });
        let until = Duration::from_micros(self.written_until.load(Ordering::Relaxed));
        let behind = clock::now().saturating_sub(until).max(Duration::from_millis(1));
        let lag = if left { behind } else { Duration::ZERO };
        Statistics { lag, ..*self.statistics.lock() }
    }
}

/// Counts the calls in the journal. Meant for a thread of its own.
#[derive(Debug)]
pub struct Counter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) connection: Connection,
    follower: Follower,
    readers: Vec<Reader>,
    /// Their start positions: all before is counted.
    starts: Vec<Position>,
    /// Time of the call read last, in microseconds since 1970.
    read_until: u64,
    /// When the end of the journal was last reached.
    all_read: Option<Duration>,
    /// Records that the journal had then.
    all_records: Option<u64>,
    tally: Tally,
    writer: Writer,
    /// Time of the last write, and of the last purge.
    written: Instant,
    purged: Option<Instant>,
}

impl Counter {
    pub(crate) fn open(
        data: &Path,
        journal: Arc<Journal>,
        shared: Arc<Shared>,
    ) -> Result<Self, MonitorError> {
        let connection = weir_store::open(data)?;
        // Left by a rebuild that a crash ended.
        journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        connection.execute("DELETE FROM rebuilt", [])?;
        let follower = journal.follower(FOLLOWER).map_err(MonitorError::Journal)?;
        let mut counter = Self {
            readers: open_readers(&connection, &journal, &follower)?,
            starts: Vec::new(),
            shared,
            journal,
            connection,
            follower,
            read_until: 0,
            all_read: None,
            all_records: None,
            tally: Tally::default(),
            writer: Writer::new(Table::Bucket),
            written: Instant::now(),
            purged: None,
        };
        counter.starts = counter.readers.iter().map(Reader::position).collect();
        // The position in the database is the valid one; the checkpoint of the journal may be older.
        counter.write()?;
        counter.readers.iter().for_each(|reader| counter.follower.advance(reader));
        counter.follower.commit().map_err(MonitorError::Journal)?;
        Ok(counter)
    }

    /// Calls counted against the quota of a plan in a span of seconds since 1970, of each consumer
    /// in the order of time.
    ///
    /// # Errors
    /// The database fails.
    pub fn quota_used(&self, plan: &str, span: &Range<u64>) -> Result<Vec<QuotaUse>, MonitorError> {
        quota::used(&self.connection, plan, span)
    }

    /// Reads up to about `limit` transactions, and writes if that is due. Returns the number read.
    ///
    /// # Errors
    /// The journal or the database fails; it can be called again.
    pub fn step(&mut self, limit: usize) -> Result<usize, MonitorError> {
        if self.tally.calls >= MAX_UNWRITTEN {
            self.write()?;
        }
        let read = self.read(limit);
        let due = if self.tally.is_empty() { POSITION_INTERVAL } else { WRITE_INTERVAL };
        if self.tally.calls >= MAX_UNWRITTEN || self.written.elapsed() >= due {
            self.write()?;
        }
        let read = read?;
        if read == 0 {
            self.read_until = clock::now_us();
        }
        if self.tally.is_empty() {
            self.publish();
            *self.shared.counted_records.lock() = self.all_records;
        }
        if self.purged.is_none_or(|purged| purged.elapsed() >= PURGE_INTERVAL) {
            self.purged = Some(Instant::now());
            self.purge()?;
        }
        Ok(read)
    }

    fn read(&mut self, limit: usize) -> Result<usize, MonitorError> {
        let (counts, price) = {
            let settings = self.shared.settings.lock();
            (settings.counts, settings.price.clone())
        };
        let (began, mut done, mut failed) = (clock::now(), 0, None);
        // Counts in memory are not read before they have found space.
        let records = self.journal.statistics().records;
        for reader in &mut self.readers {
            let (tally, read_until) = (&mut self.tally, &mut self.read_until);
            let start = self.starts.get(usize::from(reader.lane())).copied().unwrap_or_default();
            let read = reader.calls(limit - done, |call| {
                // If its end was read before and lost, it is counted already.
                if call.possible_end.is_none_or(|end| end >= start) {
                    tally.add(call, counts, price.as_deref());
                }
                *read_until = call.received_us;
            });
            match read {
                Ok(read) => done += read,
                // The other lanes are read nevertheless.
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() && done < limit {
            self.all_read = Some(began);
            self.all_records = Some(records);
        }
        match failed {
            Some(error) if done == 0 => Err(MonitorError::Journal(error)),
            _ => Ok(done),
        }
    }

    /// Counts everything that the journal has, and writes it.
    ///
    /// # Errors
    /// As [`Counter::step`].
    pub fn catch_up(&mut self) -> Result<(), MonitorError> {
        while self.step(4096)? > 0 {}
        self.write()
    }

    /// Writes the counts.
    ///
    /// # Errors
    /// The database fails; the counts stay in memory, to be written later.
    pub fn write(&mut self) -> Result<(), MonitorError> {
        let written = self.write_all();
        self.written = Instant::now();
        if written.is_err() {
            self.writer.invalidate();
        }
        let overflow = written?;
        let mut statistics = self.shared.statistics.lock();
        statistics.counted += self.tally.calls;
        statistics.overflow += overflow;
        statistics.writes += 1;
        drop(statistics);
        self.tally = Tally::default();
        self.publish();
        *self.shared.counted_records.lock() = self.all_records;
        failpoint::pass("monitor.written");
        let reached = |reader: &Reader| reader.position().segment();
        let passed = |reader: &Reader| self.follower.position(reader.lane()).segment();
        if self.readers.iter().any(|reader| reached(reader) > passed(reader)) {
            // Only now may the journal drop these segments.
            self.readers.iter().for_each(|reader| self.follower.advance(reader));
            self.follower.commit().map_err(MonitorError::Journal)?;
        }
        Ok(())
    }

    /// Publishes the position up to which all is written.
    fn publish(&self) {
        self.shared.written_until.store(self.read_until, Ordering::Relaxed);
        *self.shared.written.lock() = self.readers.iter().map(Reader::position).collect();
    }

    fn write_all(&mut self) -> rusqlite::Result<u64> {
        let (limit, max_call_time) = {
            let settings = self.shared.settings.lock();
            (settings.cardinality, settings.max_call_time)
        };
        let transaction = self.connection.transaction()?;
        let overflow = self.writer.add(&transaction, &self.tally, limit)?;
        failpoint::pass("monitor.buckets");
        quota::add(&transaction, &self.tally)?;
        add_segments(&transaction, &self.tally)?;
        write_positions(&transaction, &self.readers)?;
        if let Some(all_read) = self.all_read {
            let settled = all_read.saturating_sub(max_call_time).as_secs();
            transaction.execute("UPDATE counted_until SET settled = ?1", [settled])?;
        }
        failpoint::pass("monitor.noted");
        transaction.commit()?;
        Ok(overflow)
    }

    /// Has to be called when the database was changed without the writer.
    pub(crate) fn invalidate(&mut self) {
        self.writer.invalidate();
    }

    /// Purges old counts.
    fn purge(&mut self) -> Result<(), MonitorError> {
        let now = clock::now().as_secs();
        let keep = self.shared.settings.lock().keep.as_secs();
        let transaction = self.connection.transaction()?;
        let kept = now.saturating_sub(keep);
        let minutes = now.saturating_sub(keep.min(MINUTE_RETENTION));
        let dropped = bucket::purge(&transaction, [minutes, kept, kept])?;
        quota::compact(&transaction, now)?;
        transaction.execute("DELETE FROM counted_segment WHERE last < ?1", [kept])?;
        transaction.commit()?;
        if dropped {
            self.writer.invalidate();
        }
        Ok(())
    }

    /// Has to be called after a panic, before it is used again: what is only in memory may be
    /// inconsistent, and is read from the journal again.
    ///
    /// # Errors
    /// The database or the journal fails.
    pub fn recover(&mut self) -> Result<(), MonitorError> {
        self.shared.statistics.lock().restarts += 1;
        self.tally = Tally::default();
        (self.all_read, self.all_records) = (None, None);
        self.writer.invalidate();
        // It may have been in a rebuild.
        self.journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        self.connection.execute("DELETE FROM rebuilt", [])?;
        self.readers = open_readers(&self.connection, &self.journal, &self.follower)?;
        self.starts = self.readers.iter().map(Reader::position).collect();
        Ok(())
    }
}

/// Readers from the positions in the database.
fn open_readers(
    database: &Connection,
    journal: &Journal,
    follower: &Follower,
) -> Result<Vec<Reader>, MonitorError> {
    let mut read = database.prepare_cached("SELECT lane, position, ticket FROM counted")?;
    let rows = read.query_map([], |row| {
        let written: (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, (Position::from_bits(written.0 as u64), written.1 as u64)))
    })?;
    let known = rows.collect::<Result<HashMap<u16, _>, _>>()?;
    for (lane, (position, _)) in &known {
        // A journal that was emptied starts again with the first segment and has no followers.
        let forgotten = *position > Position::START && follower.position(*lane) == Position::START;
        if forgotten || *position > journal.end(*lane) {
            discard_segments(database, *lane)?;
        }
    }
    let lanes = 0..journal.lanes();
    let readers = lanes.map(|lane| {
        let end = journal.end(lane);
        let (position, ticket) = match known.get(&lane) {
            // After a power loss the journal may lack calls that are counted.
            Some((position, ticket)) => ((*position).min(end), *ticket),
            // With a new database all that the journal has is counted again, whether or not there is
            // a checkpoint. Calls recorded while metering was off are marked as such.
            None => (Position::START, 0),
        };
        journal.read(lane, position, ticket).metadata_only()
    });
    Ok(readers.collect())
}

/// The counts of a lane come from other segments than those that have their numbers now: their last
/// minute is stored as that of a dropped segment, under a number that no segment has.
fn discard_segments(database: &Connection, lane: u16) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    transaction.execute(
        "INSERT INTO counted_segment
         SELECT lane, -1, max(last) FROM counted_segment WHERE lane = ?1 GROUP BY lane
         ON CONFLICT DO UPDATE SET last = max(last, excluded.last)",
        [lane],
    )?;
    transaction.execute("DELETE FROM counted_segment WHERE lane = ?1 AND segment >= 0", [lane])?;
    transaction.commit()
}

fn add_segments(database: &Connection, tally: &Tally) -> rusqlite::Result<()> {
    let mut write = database.prepare_cached(
        "INSERT INTO counted_segment VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET last = max(last, ?3)",
    )?;
    for ((lane, segment), last) in &tally.segments {
        write.execute(params![lane, segment, last])?;
    }
    Ok(())
}

/// Writes the positions of the readers.
fn write_positions(database: &Connection, readers: &[Reader]) -> rusqlite::Result<()> {
    let mut write = database.prepare_cached(
        "INSERT INTO counted VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET position = ?2, ticket = ?3",
    )?;
    for reader in readers {
        let position = reader.position().to_bits() as i64;
        write.execute(params![reader.lane(), position, reader.sequence() as i64])?;
    }
    Ok(())
}

/// The position up to which a lane is counted.
pub(crate) fn counted_until(database: &Connection, lane: u16) -> rusqlite::Result<Position> {
    let read = "SELECT position FROM counted WHERE lane = ?1";
    let position = database.prepare_cached(read)?.query_row([lane], |row| row.get::<_, i64>(0));
    match position {
        Ok(position) => Ok(Position::from_bits(position as u64)),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Position::START),
        Err(error) => Err(error),
    }
}
