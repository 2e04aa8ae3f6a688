//! The indexer: follows the journal and writes parts.

mod repair;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weir_journal::failpoint;
use weir_journal::{Follower, Position, Reader, Transaction, if_exists, run_when_idle};

use super::coverage::{gap_from, is_expired, starts};
use super::state::Shared;
use crate::content::payload_bytes;
use crate::error::Error;
use crate::part::Build;
use crate::part::block::Depth;
use crate::part::row;
use crate::part::terms::BlockTerms;
use repair::Repair;
use weir_store::clock::now_us;

/// Name of its follower of the journal.
pub(crate) const FOLLOWER: &str = "tracker";
/// Longest time that a part stays in memory; until it is written the journal keeps its transactions.
pub(crate) const MAX_OPEN_TIME: Duration = Duration::from_secs(60 * 60);
/// Lag from which on indexing no longer waits for idle time.
const MAX_IDLE_LAG: Duration = Duration::from_secs(60);
/// Approximate bytes of transactions that are read together.
const BATCH_BYTES: usize = 4 << 20;
/// Microseconds of a day, the span of a partition.
const DAY: u64 = 86_400_000_000;

/// Indexes what the journal has and the index has not. Meant for a thread of its own.
#[derive(Debug)]
pub struct Indexer {
    shared: Arc<Shared>,
    readers: Vec<Reader>,
    /// Indexed range of each lane when the index was opened.
    passed: Vec<Position>,
    build: Build,
    follower: Follower,
    /// Buffers for the transactions of a block.
    buffers: Vec<Transaction>,
    /// The day of the open part.
    day: Option<u64>,
    /// When the open part got its first transaction.
    pub(crate) opened: Instant,
    /// The open part has a transaction of a later day, which is its last.
    day_ended: bool,
    /// Number of the last part.
    number: u64,
    repair: Option<Repair>,
    /// The lag is too long, or searches are too recent, to index in idle time only.
    urgent: bool,
    /// Number of files that the journal had dropped when expired parts were last removed.
    dropped: u64,
}

impl Indexer {
    pub(crate) fn new(shared: Arc<Shared>, build: Build, number: u64) -> Result<Self, Error> {
        let mut follower = shared.journal.follower(FOLLOWER).map_err(Error::Journal)?;
        let indexed = shared.state.read().indexed.clone();
        let lanes = || indexed.iter().enumerate().map(|(lane, reached)| (lane as u16, *reached));
        if lanes().any(|(lane, reached)| follower.position(lane) > reached) {
            // What was indexed once has to be kept again until it is indexed anew.
            follower.reset().map_err(Error::Journal)?;
        }
        let readers = lanes()
            .map(|(lane, reached)| match follower.position(lane) == reached {
                true => shared.journal.follow(&follower, lane),
                false => shared.journal.reader(lane, reached),
            })
            .map(|reader| with_payload_if_needed(&shared, reader))
            .collect();
        Ok(Self {
            shared,
            readers,
            passed: indexed,
            build,
            follower,
            buffers: Vec::new(),
            day: None,
            opened: Instant::now(),
            day_ended: false,
            number,
            repair: None,
            urgent: false,
            dropped: 0,
        })
    }

    /// Indexes up to about `limit` transactions. Returns their number; 0 when nothing is left to do.
    ///
    /// # Errors
    /// The journal cannot be read or the index cannot be written. It can be called again.
    pub fn step(&mut self, limit: usize) -> Result<usize, Error> {
        self.drop_damaged()?;
        self.drop_expired()?;
        let mut done = 0;
        while done < limit {
            let before = done;
            for lane in 0..self.readers.len() {
                done += self.follow(lane)?;
            }
            if done == before {
                self.shared.counts.behind_since.store(0, Ordering::Relaxed);
                if self.opened.elapsed() > MAX_OPEN_TIME {
                    self.seal()?;
                }
                if done == 0 {
                    done = self.repair_gap(limit)?;
                }
                break;
            }
        }
        if self.shared.journal.is_short() && self.retains_segments() {
            self.seal()?;
        }
        Ok(done)
    }

    /// Reports a lag: there are transactions that will be indexed later.
    pub fn set_behind(&self) {
        let behind = &self.shared.counts.behind_since;
        // Only this thread writes it.
        if behind.load(Ordering::Relaxed) == 0 {
            behind.store(now_us(), Ordering::Relaxed);
        }
    }

    /// Whether there was a search in the last seconds: each search reads what is not indexed.
    #[must_use]
    pub fn was_searched_recently(&self) -> bool {
        self.shared.counts.was_searched_recently()
    }

    /// Whether the journal keeps whole segments only for the open part.
    fn retains_segments(&self) -> bool {
        let reached = |reader: &Reader| reader.position().segment();
        self.readers
            .iter()
            .any(|reader| self.follower.position(reader.lane()).segment() < reached(reader))
    }

    /// Indexes everything that the journal has.
    ///
    /// # Errors
    /// As [`Indexer::step`].
    pub fn catch_up(&mut self) -> Result<(), Error> {
        while self.step(4096)? > 0 {}
        Ok(())
    }

    /// Reads transactions of a lane, up to the end of the block.
    fn follow(&mut self, lane: usize) -> Result<usize, Error> {
        if self.build.is_full() || self.day_ended {
            self.seal()?;
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        let (mut count, mut bytes) = (0, 0);
        let mut failed = Ok(());
        while count < self.build.left() && bytes < BATCH_BYTES && !self.day_ended {
            if count == buffers.len() {
                buffers.push(Transaction::default());
            }
            match self.readers[lane].next_visible_into(&mut buffers[count]) {
                Ok(true) => {
                    let transaction = &buffers[count];
                    if transaction.possible_end.is_some_and(|end| end < self.passed[lane]) {
                        // It was indexed with its end, which was lost afterwards.
                        continue;
                    }
                    let day = transaction.received_us / DAY;
                    if self.day.is_none() {
                        self.opened = Instant::now();
                    }
                    self.day_ended |= *self.day.get_or_insert(day) < day;
                    bytes += payload_bytes(transaction);
                    count += 1;
                }
                Ok(false) => break,
                Err(error) => {
                    failed = Err(Error::Journal(error));
                    break;
                }
            }
        }
        let (taken, reached) = (&mut buffers[..count], self.readers[lane].position());
        let block = self.analyze(taken);
        self.publish(lane, taken, block, reached);
        if bytes < BATCH_BYTES {
            // Large buffers are not kept.
            self.buffers = buffers;
        }
        failed.map(|()| count)
    }

    /// Extracts keys and terms of transactions. Returns the block if that is full. Holds no locks, so
    /// it can run in idle time.
    fn analyze(&mut self, taken: &mut [Transaction]) -> Option<BlockTerms> {
        self.urgent = self.is_overdue(taken) || self.was_searched_recently();
        self.run_idle(true);
        let mut block = None;
        for transaction in taken {
            block = read(&self.shared, &mut self.build, transaction);
        }
        self.run_idle(false);
        block
    }

    /// Enters or leaves idle scheduling, if that is configured and there is no urgency.
    fn run_idle(&self, idle: bool) {
        if self.shared.settings.in_idle_time && !self.urgent {
            run_when_idle(idle);
        }
    }

    /// Whether the lag is too long to index in idle time only.
    pub(crate) fn is_overdue(&self, taken: &[Transaction]) -> bool {
        let Some(last) = taken.last() else { return false };
        let ended = Duration::from_micros(ended(last));
        Duration::from_micros(now_us()).saturating_sub(ended) > MAX_IDLE_LAG
    }

    /// Makes transactions of a lane visible to searches.
    fn publish(
        &self,
        lane: usize,
        taken: &[Transaction],
        block: Option<BlockTerms>,
        reached: Position,
    ) {
        let counts = &self.shared.counts;
        counts.indexed.fetch_add(taken.len() as u64, Ordering::Relaxed);
        if let Some(last) = taken.last() {
            counts.behind_since.store(ended(last), Ordering::Relaxed);
        }
        let mut state = self.shared.state.write();
        taken.iter().for_each(|transaction| state.open.columns.push(transaction));
        state.open.blocks.extend(block);
        state.indexed[lane] = reached;
        drop(state);
        if !taken.is_empty() {
            failpoint::pass("index.published");
        }
    }

    /// Writes the open part and starts another; does nothing if it is empty.
    ///
    /// # Errors
    /// Files fail; the transactions of the open part are then read from the journal again.
    pub fn seal(&mut self) -> Result<(), Error> {
        let Some(day) = self.day else { return Ok(()) };
        let (building, folder) = (self.building(), self.next_folder(day));
        if let Some(last) = self.build.last() {
            self.shared.state.write().open.blocks.push(last);
        }
        self.build = Build::new(self.shared.settings.depth);
        (self.day, self.day_ended) = (None, false);
        let written = {
            // A read lock: searches go on, and only this thread writes.
            let state = self.shared.state.read();
            let spans = state.from.iter().copied().zip(state.indexed.iter().copied()).collect();
            self.run_idle(true);
            let provisional = self.shared.settings.provisional;
            let written = state.open.write(spans, provisional, &building, &folder);
            self.run_idle(false);
            written
        };
        let mut state = self.shared.state.write();
        state.open.reset(self.build.seed());
        match written {
            Ok(part) => {
                state.from = state.indexed.clone();
                state.sealed.push(Arc::new(part));
            }
            Err(error) => {
                state.indexed = state.from.clone();
                self.readers = readers(&self.shared, &state.indexed);
                return Err(error);
            }
        }
        drop(state);
        failpoint::pass("index.sealed");
        if self.shared.settings.provisional {
            // The journal keeps the transactions until they are indexed again.
            return Ok(());
        }
        self.readers.iter().for_each(|reader| self.follower.advance(reader));
        self.follower.commit().map_err(Error::Journal)
    }

    /// Has to be called after a panic, before it is used again: what is only in memory may be
    /// inconsistent, and is read from the journal again.
    pub fn recover(&mut self) {
        self.urgent = false;
        self.run_idle(false);
        self.shared.counts.restarts.fetch_add(1, Ordering::Relaxed);
        self.build = Build::new(self.shared.settings.depth);
        (self.day, self.day_ended, self.repair) = (None, false, None);
        let mut state = self.shared.state.write();
        state.open.reset(self.build.seed());
        state.indexed = state.from.clone();
        self.readers = readers(&self.shared, &state.indexed);
    }

    fn building(&self) -> PathBuf {
        self.shared.folder.join("building/piece")
    }

    fn next_folder(&mut self, day: u64) -> PathBuf {
        self.number += 1;
        self.shared.folder.join(partition(day)).join(format!("{:010}", self.number))
    }

    /// Removes parts of which the journal has nothing left.
    fn drop_expired(&mut self) -> Result<(), Error> {
        let dropped = self.shared.journal.statistics().dropped;
        if dropped == self.dropped {
            return Ok(());
        }
        let starts = starts(&self.shared.journal);
        let mut state = self.shared.state.write();
        let expired: Vec<_> =
            state.sealed.extract_if(.., |part| is_expired(part, &starts)).collect();
        drop(state);
        for part in expired {
            if_exists(fs::remove_dir_all(&part.folder)).map_err(Error::io(&part.folder))?;
            if let Some(partition) = part.folder.parent() {
                // Succeeds only for the last part of its day.
                let _ = fs::remove_dir(partition);
            }
        }
        self.dropped = dropped;
        Ok(())
    }

    /// Removes parts that searches found damaged; their ranges become gaps.
    fn drop_damaged(&mut self) -> Result<(), Error> {
        let damaged = std::mem::take(&mut *self.shared.damaged.lock());
        if damaged.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.state.write();
        let lanes = self.readers.len();
        let bad: Vec<_> =
            state.sealed.extract_if(.., |part| damaged.contains(&part.folder)).collect();
        state.gaps.extend(bad.iter().map(|part| gap_from(part, lanes)));
        drop(state);
        for part in bad {
            if_exists(fs::remove_dir_all(&part.folder)).map_err(Error::io(&part.folder))?;
        }
        Ok(())
    }
}

/// Extracts keys and terms of a transaction. Returns the block if that is full. After a panic the
/// transaction is indexed without them, and counted: data of one client must not end indexing.
fn read(shared: &Shared, build: &mut Build, transaction: &mut Transaction) -> Option<BlockTerms> {
    let keys = shared.read_keys(transaction);
    // After a panic the block may have some terms of the transaction, which does no harm.
    let words = catch_unwind(AssertUnwindSafe(|| build.add_terms(transaction))).is_ok();
    if !(keys && words) {
        shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
    }
    build.end_row(transaction)
}

/// End of a transaction, in microseconds since 1970.
fn ended(transaction: &Transaction) -> u64 {
    transaction.received_us.saturating_add(row::elapsed(&transaction.stages))
}

fn readers(shared: &Shared, from: &[Position]) -> Vec<Reader> {
    let lanes = from.iter().enumerate();
    let reader = |(lane, from): (usize, &Position)| shared.journal.reader(lane as u16, *from);
    lanes.map(reader).map(|reader| with_payload_if_needed(shared, reader)).collect()
}

/// Skips payloads if neither terms nor business keys are extracted from them.
fn with_payload_if_needed(shared: &Shared, reader: Reader) -> Reader {
    let settings = &shared.settings;
    let payload = settings.depth == Depth::Payload || !settings.keys.is_empty();
    if payload { reader } else { reader.metadata_only() }
}

/// Name of the folder of a day.
fn partition(day: u64) -> String {
    let start = i64::try_from(day.saturating_mul(DAY)).ok();
    let start = start.and_then(|start| Timestamp::from_microsecond(start).ok());
    start.map_or_else(|| format!("day-{day}"), |start| start.strftime("%Y-%m-%d").to_string())
}
