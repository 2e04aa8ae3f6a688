//! Follows the journal and counts.

use crate::bucket::{self, MINUTES_KEPT, Table, Writer};
use crate::error::MonitorError;
use crate::quota::{self, Used};
use crate::tally::{Price, Tally};
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_config::{Counts, Monitor as Configured};
use weir_journal::{Follower, Journal, Position, Reader, failpoint};
use weir_store::clock;

/// Its name among the followers of the journal.
pub(crate) const FOLLOWER: &str = "monitor";
/// The follower that keeps the journal from dropping anything during a rebuild.
pub(crate) const REBUILD_PIN: &str = "monitor-rebuild";
/// Longest time that counts are only in memory while the counter runs.
const WRITE: Duration = Duration::from_secs(1);
/// Calls after which they are written before that.
const MOST: u64 = 200_000;
/// Longest time until it is noted how far was read where nothing was to be counted.
const NOTE: Duration = Duration::from_secs(10);
/// How often what is old is looked for.
const TIDY: Duration = Duration::from_secs(60 * 60);
/// How calls are counted.
#[derive(Clone)]
pub struct Settings {
    /// What counts as a call.
    pub counts: Counts,
    /// How long counts are kept.
    pub keep: Duration,
    /// Most combinations of a day.
    pub cardinality: usize,
    /// What a call costs, if any costs something.
    pub price: Option<Arc<Price>>,
    /// How long a call may last, but for those that have no limit: it is counted when it has ended,
    /// where it began.
    pub longest_call: Duration,
}

impl Settings {
    /// As it is configured, without prices, for calls that last no time.
    #[must_use]
    pub fn new(configured: &Configured) -> Self {
        let Configured { counts, keep, cardinality, .. } = *configured;
        Self { counts, keep, cardinality, price: None, longest_call: Duration::ZERO }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(&Configured::default())
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("counts", &self.counts)
            .field("keep", &self.keep)
            .field("cardinality", &self.cardinality)
            .field("longest_call", &self.longest_call)
            .finish_non_exhaustive()
    }
}

/// What the counter has done since it was opened, and how far behind it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls counted, and written.
    pub counted: u64,
    /// Of these, calls in buckets of others because there were too many combinations.
    pub others: u64,
    /// Times that counts were written.
    pub writes: u64,
    /// Since the transaction written last was received, or since all was written; 0 when all is.
    pub lag: Duration,
    /// Times that [`Counter::recover`] was called.
    pub restarts: u64,
}

/// What the counter and those who ask share.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: Mutex<Settings>,
    counted: AtomicU64,
    others: AtomicU64,
    writes: AtomicU64,
    restarts: AtomicU64,
    /// All was written that was received before then, nearly; in microseconds since 1970.
    written_until: AtomicU64,
    /// How far all was written in each lane; none are known before there is a counter.
    written: Mutex<Vec<Position>>,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Mutex::new(settings),
            counted: AtomicU64::default(),
            others: AtomicU64::default(),
            writes: AtomicU64::default(),
            restarts: AtomicU64::default(),
            written_until: AtomicU64::default(),
            written: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, Vec<Position>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With the journal that is counted, if one is.
    pub(crate) fn statistics(&self, journal: Option<&Journal>) -> Statistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let left = journal.is_some_and(|journal| {
            (0..).zip(self.written().iter()).any(|(lane, written)| *written < journal.end(lane))
        });
        let until = Duration::from_micros(load(&self.written_until));
        let behind = clock::now().saturating_sub(until).max(Duration::from_millis(1));
        Statistics {
            counted: load(&self.counted),
            others: load(&self.others),
            writes: load(&self.writes),
            lag: if left { behind } else { Duration::ZERO },
            restarts: load(&self.restarts),
        }
    }
}

/// Counts what the journal has. Meant for a thread of its own.
#[derive(Debug)]
pub struct Counter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) connection: Connection,
    follower: Follower,
    readers: Vec<Reader>,
    /// Where they began: all before that has been counted.
    begun: Vec<Position>,
    /// When what was read last was received, in microseconds since 1970.
    read_until: u64,
    /// When all that had ended was read last.
    all_read: Option<Duration>,
    tally: Tally,
    writer: Writer,
    /// When something was written last, and when what is old was looked for.
    written: Instant,
    tidied: Option<Instant>,
}

impl Counter {
    pub(crate) fn open(
        data: &Path,
        journal: Arc<Journal>,
        shared: Arc<Shared>,
    ) -> Result<Self, MonitorError> {
        let connection = weir_store::open(data)?;
        // Of a counting again that a crash has ended.
        journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        connection.execute("DELETE FROM rebuilt", [])?;
        let follower = journal.follower(FOLLOWER).map_err(MonitorError::Journal)?;
        let mut counter = Self {
            readers: begin(&connection, &journal, &follower)?,
            begun: Vec::new(),
            shared,
            journal,
            connection,
            follower,
            read_until: 0,
            all_read: None,
            tally: Tally::default(),
            writer: Writer::new(Table::Bucket),
            written: Instant::now(),
            tidied: None,
        };
        counter.begun = counter.readers.iter().map(Reader::position).collect();
        // The database says how far it has come, whatever the journal was told.
        counter.write()?;
        counter.readers.iter().for_each(|reader| counter.follower.advance(reader));
        counter.follower.commit().map_err(MonitorError::Journal)?;
        Ok(counter)
    }

    pub(crate) fn database(&self) -> &Connection {
        &self.connection
    }

    /// Calls counted against the quota of a plan in a span of seconds since 1970, of each consumer
    /// in the order of time.
    ///
    /// # Errors
    /// The database fails.
    pub fn quota_used(&self, plan: &str, span: &Range<u64>) -> Result<Vec<Used>, MonitorError> {
        quota::used(self.database(), plan, span)
    }

    /// Reads up to about `most` transactions, writes if it is time to, and gives how many were read.
    ///
    /// # Errors
    /// The journal or the database fails; it can be called again.
    pub fn step(&mut self, most: usize) -> Result<usize, MonitorError> {
        if self.tally.calls >= MOST {
            self.write()?;
        }
        let read = self.read(most);
        let due = if self.tally.is_empty() { NOTE } else { WRITE };
        if self.tally.calls >= MOST || self.written.elapsed() >= due {
            self.write()?;
        }
        let read = read?;
        if read == 0 {
            self.read_until = clock::now_us();
        }
        if self.tally.is_empty() {
            self.tell();
        }
        if self.tidied.is_none_or(|tidied| tidied.elapsed() >= TIDY) {
            self.tidied = Some(Instant::now());
            self.tidy()?;
        }
        Ok(read)
    }

    fn read(&mut self, most: usize) -> Result<usize, MonitorError> {
        let (counts, price) = {
            let settings = self.shared.settings();
            (settings.counts, settings.price.clone())
        };
        let (began, mut done, mut failed) = (clock::now(), 0, None);
        for reader in &mut self.readers {
            let (tally, read_until) = (&mut self.tally, &mut self.read_until);
            let begun = self.begun.get(usize::from(reader.lane())).copied().unwrap_or_default();
            let read = reader.calls(most - done, |call| {
                // Where its end may have been lost had been read before: it was counted there.
                if call.possible_end.is_none_or(|end| end >= begun) {
                    tally.add(call, counts, price.as_deref());
                }
                *read_until = call.received_us;
            });
            match read {
                Ok(read) => done += read,
                // The other lanes go on.
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() && done < most {
            self.all_read = Some(began);
        }
        match failed {
            Some(error) if done == 0 => Err(MonitorError::Journal(error)),
            _ => Ok(done),
        }
    }

    /// Counts everything that is there, and writes it.
    ///
    /// # Errors
    /// As [`Counter::step`].
    pub fn catch_up(&mut self) -> Result<(), MonitorError> {
        while self.step(4096)? > 0 {}
        self.write()
    }

    /// Writes what was counted.
    ///
    /// # Errors
    /// The database fails; what was counted is kept in memory, to be written later.
    pub fn write(&mut self) -> Result<(), MonitorError> {
        let written = self.write_all();
        self.written = Instant::now();
        if written.is_err() {
            self.writer.forget();
        }
        let others = written?;
        let counts = &self.shared;
        counts.counted.fetch_add(self.tally.calls, Ordering::Relaxed);
        counts.others.fetch_add(others, Ordering::Relaxed);
        counts.writes.fetch_add(1, Ordering::Relaxed);
        self.tally = Tally::default();
        self.tell();
        failpoint::pass("monitor.written");
        let reached = |reader: &Reader| reader.position().segment();
        let passed = |reader: &Reader| self.follower.position(reader.lane()).segment();
        if self.readers.iter().any(|reader| reached(reader) > passed(reader)) {
            // Only now may the journal drop it.
            self.readers.iter().for_each(|reader| self.follower.advance(reader));
            self.follower.commit().map_err(MonitorError::Journal)?;
        }
        Ok(())
    }

    /// Tells others how far all is written.
    fn tell(&self) {
        self.shared.written_until.store(self.read_until, Ordering::Relaxed);
        *self.shared.written() = self.readers.iter().map(Reader::position).collect();
    }

    fn write_all(&mut self) -> rusqlite::Result<u64> {
        let (most, longest) = {
            let settings = self.shared.settings();
            (settings.cardinality, settings.longest_call)
        };
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let others = self.writer.add(&begun, &self.tally, most)?;
        failpoint::pass("monitor.buckets");
        quota::add(&begun, &self.tally)?;
        add_segments(&begun, &self.tally)?;
        note(&begun, &self.readers)?;
        if let Some(all_read) = self.all_read {
            let settled = all_read.saturating_sub(longest).as_secs();
            begun.execute("UPDATE counted_until SET settled = ?1", [settled])?;
        }
        failpoint::pass("monitor.noted");
        begun.commit()?;
        Ok(others)
    }

    /// The database was changed behind the writer's back.
    pub(crate) fn forget(&mut self) {
        self.writer.forget();
    }

    /// Drops what is old.
    fn tidy(&mut self) -> Result<(), MonitorError> {
        let now = clock::now().as_secs();
        let keep = self.shared.settings().keep.as_secs();
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let kept = now.saturating_sub(keep);
        let minutes = now.saturating_sub(keep.min(MINUTES_KEPT));
        let dropped = bucket::drop_old(&begun, [minutes, kept, kept])?;
        quota::tidy(&begun, now)?;
        begun.execute("DELETE FROM counted_segment WHERE last < ?1", [kept])?;
        begun.commit()?;
        if dropped {
            self.writer.forget();
        }
        Ok(())
    }

    /// To be called before it is used again after a panic: what is only in memory may be half done,
    /// and is read from the journal again.
    ///
    /// # Errors
    /// The database or the journal fails.
    pub fn recover(&mut self) -> Result<(), MonitorError> {
        self.shared.restarts.fetch_add(1, Ordering::Relaxed);
        self.tally = Tally::default();
        self.all_read = None;
        self.writer.forget();
        // It may have been counting again.
        self.journal.forget(REBUILD_PIN).map_err(MonitorError::Journal)?;
        self.connection.execute("DELETE FROM rebuilt", [])?;
        self.readers = begin(&self.connection, &self.journal, &self.follower)?;
        self.begun = self.readers.iter().map(Reader::position).collect();
        Ok(())
    }
}

/// Readers from where the database says that counting has come to.
fn begin(
    database: &Connection,
    journal: &Journal,
    follower: &Follower,
) -> Result<Vec<Reader>, MonitorError> {
    let mut read = database.prepare_cached("SELECT lane, position, ticket FROM counted")?;
    let rows = read.query_map([], |row| {
        let place: (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, (Position::from_bits(place.0 as u64), place.1 as u64)))
    })?;
    let known = rows.collect::<Result<HashMap<u16, _>, _>>()?;
    for (lane, (position, _)) in &known {
        // A journal that was emptied begins again with the first segment, and forgets who followed it.
        let forgotten = *position > Position::START && follower.position(*lane) == Position::START;
        if forgotten || *position > journal.end(*lane) {
            lose_segments(database, *lane)?;
        }
    }
    let lanes = 0..journal.lanes();
    let readers = lanes.map(|lane| {
        let end = journal.end(lane);
        let (position, ticket) = match known.get(&lane) {
            // A loss of power may have taken what was counted.
            Some((position, ticket)) => ((*position).min(end), *ticket),
            // With a database that is new, all that the journal has is counted again, whether or not
            // there is a checkpoint. What was recorded while nothing was counted says so.
            None => (Position::START, 0),
        };
        journal.read(lane, position, ticket).metadata_only()
    });
    Ok(readers.collect())
}

/// What was counted of a lane's segments is not to be found in those that have their numbers now:
/// it counts as dropped, under a number that none has.
fn lose_segments(database: &Connection, lane: u16) -> rusqlite::Result<()> {
    let begun = database.unchecked_transaction()?;
    begun.execute(
        "INSERT INTO counted_segment
         SELECT lane, -1, max(last) FROM counted_segment WHERE lane = ?1 GROUP BY lane
         ON CONFLICT DO UPDATE SET last = max(last, excluded.last)",
        [lane],
    )?;
    begun.execute("DELETE FROM counted_segment WHERE lane = ?1 AND segment >= 0", [lane])?;
    begun.commit()
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

/// Notes how far the readers have come.
fn note(database: &Connection, readers: &[Reader]) -> rusqlite::Result<()> {
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

/// How far the journal has been counted in a lane.
pub(crate) fn noted(database: &Connection, lane: u16) -> rusqlite::Result<Position> {
    let read = "SELECT position FROM counted WHERE lane = ?1";
    let position = database.prepare_cached(read)?.query_row([lane], |row| row.get::<_, i64>(0));
    match position {
        Ok(position) => Ok(Position::from_bits(position as u64)),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Position::START),
        Err(error) => Err(error),
    }
}
