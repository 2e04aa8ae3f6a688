//! Follows the journal and keeps the index up to date.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weir_journal::failpoint;
use weir_journal::{Follower, Position, Reader, Transaction, run_when_idle};

use super::coverage::{Gap, begins, gap_of, is_gone};
use super::state::Shared;
use crate::content::payload_bytes;
use crate::error::Error;
use crate::part::block::Depth;
use crate::part::row;
use crate::part::terms::BlockTerms;
use crate::part::{Build, OpenPiece};
use weir_store::clock::now_us;

/// Its name among the followers of the journal.
pub(crate) const FOLLOWER: &str = "tracker";
/// How long a piece stays in memory when little arrives: the journal keeps for us what is in it.
pub(crate) const LONGEST_OPEN: Duration = Duration::from_secs(60 * 60);
/// Behind by that much, indexing does not wait for idle time any more.
const LATE: Duration = Duration::from_secs(60);
/// Bytes of transactions that are read at once, nearly.
const BATCH_BYTES: usize = 4 << 20;
/// Microseconds of a partition.
const DAY: u64 = 86_400_000_000;

/// Reads what the journal has and the index has not. Meant for a thread of its own.
#[derive(Debug)]
pub struct Indexer {
    shared: Arc<Shared>,
    readers: Vec<Reader>,
    /// How far it had come in each lane when it was opened.
    passed: Vec<Position>,
    build: Build,
    follower: Follower,
    /// Memory for the transactions of a block.
    places: Vec<Transaction>,
    /// The day of the open piece.
    day: Option<u64>,
    /// When the open piece got its first transaction.
    pub(crate) begun: Instant,
    /// The open piece has a transaction of a later day, and ends with it.
    turned: bool,
    /// The number given last to a piece.
    number: u64,
    mending: Option<Mending>,
    /// So much is left to do, or it is wanted so soon, that idle time is not enough.
    pressed: bool,
    /// Files that the journal had dropped when pieces were looked through last.
    dropped: u64,
}

/// A lost stretch that is read again.
#[derive(Debug)]
struct Mending {
    readers: Vec<Reader>,
    gap: Gap,
    build: Build,
    piece: OpenPiece,
    day: Option<u64>,
}

impl Indexer {
    pub(crate) fn new(shared: Arc<Shared>, build: Build, number: u64) -> Result<Self, Error> {
        let mut follower = shared.journal.follower(FOLLOWER).map_err(Error::Journal)?;
        let indexed = shared.read().indexed.clone();
        let lanes = || indexed.iter().enumerate().map(|(lane, reached)| (lane as u16, *reached));
        if lanes().any(|(lane, reached)| follower.position(lane) > reached) {
            // What was passed once has to be kept again until it is indexed.
            follower.reset().map_err(Error::Journal)?;
        }
        let readers = lanes()
            .map(|(lane, reached)| match follower.position(lane) == reached {
                true => shared.journal.follow(&follower, lane),
                false => shared.journal.reader(lane, reached),
            })
            .map(|reader| as_needed(&shared, reader))
            .collect();
        Ok(Self {
            shared,
            readers,
            passed: indexed,
            build,
            follower,
            places: Vec::new(),
            day: None,
            begun: Instant::now(),
            turned: false,
            number,
            mending: None,
            pressed: false,
            dropped: 0,
        })
    }

    /// Indexes up to about `most` transactions and gives how many there were; 0 when nothing is
    /// left to do.
    ///
    /// # Errors
    /// If the journal cannot be read or the index cannot be written. It can be called again.
    pub fn step(&mut self, most: usize) -> Result<usize, Error> {
        self.drop_damaged()?;
        self.drop_gone()?;
        let mut done = 0;
        while done < most {
            let before = done;
            for lane in 0..self.readers.len() {
                done += self.follow(lane)?;
            }
            if done == before {
                self.shared.counts.behind_since.store(0, Ordering::Relaxed);
                if self.begun.elapsed() > LONGEST_OPEN {
                    self.seal()?;
                }
                if done == 0 {
                    done = self.mend(most)?;
                }
                break;
            }
        }
        if self.shared.journal.is_short() && self.holds_back() {
            self.seal()?;
        }
        Ok(done)
    }

    /// Says that there is something to index which will be indexed later.
    pub fn falls_behind(&self) {
        let behind = &self.shared.counts.behind_since;
        // Only this thread writes it.
        if behind.load(Ordering::Relaxed) == 0 {
            behind.store(now_us(), Ordering::Relaxed);
        }
    }

    /// Whether somebody searches these seconds: what is not indexed, each search reads itself.
    #[must_use]
    pub fn is_searched(&self) -> bool {
        self.shared.counts.is_searched()
    }

    /// Whether the journal may drop whole segments once the open piece is written.
    fn holds_back(&self) -> bool {
        let reached = |reader: &Reader| reader.position().segment();
        self.readers
            .iter()
            .any(|reader| self.follower.position(reader.lane()).segment() < reached(reader))
    }

    /// Indexes everything that is there.
    ///
    /// # Errors
    /// As [`Indexer::step`].
    pub fn catch_up(&mut self) -> Result<(), Error> {
        while self.step(4096)? > 0 {}
        Ok(())
    }

    /// Takes transactions from a lane, up to the end of the block.
    fn follow(&mut self, lane: usize) -> Result<usize, Error> {
        if self.build.is_full() || self.turned {
            self.seal()?;
        }
        let mut places = std::mem::take(&mut self.places);
        let (mut count, mut bytes) = (0, 0);
        let mut failed = Ok(());
        while count < self.build.left() && bytes < BATCH_BYTES && !self.turned {
            if count == places.len() {
                places.push(Transaction::default());
            }
            match self.readers[lane].next_shown_into(&mut places[count]) {
                Ok(true) => {
                    let transaction = &places[count];
                    if transaction.possible_end.is_some_and(|end| end < self.passed[lane]) {
                        // It was indexed with its end, before that was lost.
                        continue;
                    }
                    let day = transaction.received_us / DAY;
                    if self.day.is_none() {
                        self.begun = Instant::now();
                    }
                    self.turned |= *self.day.get_or_insert(day) < day;
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
        let (taken, reached) = (&mut places[..count], self.readers[lane].position());
        let block = self.take_apart(taken);
        self.publish(lane, taken, block, reached);
        if bytes < BATCH_BYTES {
            // What was large is not kept, so that each of them may be large at once.
            self.places = places;
        }
        failed.map(|()| count)
    }

    /// Reads keys and terms out of transactions; gives the block that they finish. It holds
    /// nothing that others wait for, so it can be done when nothing else wants to run.
    fn take_apart(&mut self, taken: &mut [Transaction]) -> Option<BlockTerms> {
        self.pressed = self.is_late(taken) || self.is_searched();
        self.run_idle(true);
        let mut block = None;
        for transaction in taken {
            block = read(&self.shared, &mut self.build, transaction);
        }
        self.run_idle(false);
        block
    }

    /// Goes on when nothing else wants to run, or as everybody does.
    fn run_idle(&self, idle: bool) {
        if self.shared.settings.in_idle_time && !self.pressed {
            run_when_idle(idle);
        }
    }

    /// Whether what is indexed now ended so long ago that idle time is not enough.
    pub(crate) fn is_late(&self, taken: &[Transaction]) -> bool {
        let Some(last) = taken.last() else { return false };
        let ended = Duration::from_micros(ended(last, self.shared.settings.whole_stage));
        Duration::from_micros(now_us()).saturating_sub(ended) > LATE
    }

    /// Lets searches see what was taken from a lane.
    fn publish(
        &self,
        lane: usize,
        taken: &[Transaction],
        block: Option<BlockTerms>,
        reached: Position,
    ) {
        let (counts, whole) = (&self.shared.counts, self.shared.settings.whole_stage);
        counts.indexed.fetch_add(taken.len() as u64, Ordering::Relaxed);
        if let Some(last) = taken.last() {
            counts.behind_since.store(ended(last, whole), Ordering::Relaxed);
        }
        let mut state = self.shared.write();
        taken.iter().for_each(|transaction| state.open.columns.push(transaction, whole));
        state.open.blocks.extend(block);
        state.indexed[lane] = reached;
        drop(state);
        if !taken.is_empty() {
            failpoint::pass("index.published");
        }
    }

    /// Writes the open piece and begins another; nothing if it is empty.
    ///
    /// # Errors
    /// If files fail; what was open is then read from the journal again.
    pub fn seal(&mut self) -> Result<(), Error> {
        let Some(day) = self.day else { return Ok(()) };
        let (building, place) = (self.building(), self.place(day));
        if let Some(last) = self.build.last() {
            self.shared.write().open.blocks.push(last);
        }
        self.build = Build::new(self.shared.settings.depth);
        (self.day, self.turned) = (None, false);
        let written = {
            // Searches read beside it; who writes is this thread alone.
            let state = self.shared.read();
            let spans = state.from.iter().copied().zip(state.indexed.iter().copied()).collect();
            self.run_idle(true);
            let provisional = self.shared.settings.provisional;
            let written = state.open.write(spans, provisional, &building, &place);
            self.run_idle(false);
            written
        };
        let mut state = self.shared.write();
        state.open.begin_again(self.build.seed());
        match written {
            Ok(piece) => {
                state.from = state.indexed.clone();
                state.sealed.push(Arc::new(piece));
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
            // The journal keeps it for whoever indexes it again.
            return Ok(());
        }
        self.readers.iter().for_each(|reader| self.follower.advance(reader));
        self.follower.commit().map_err(Error::Journal)
    }

    /// To be called before it is used again after a panic: what is only in memory may be half done,
    /// and is read from the journal again.
    pub fn recover(&mut self) {
        self.pressed = false;
        self.run_idle(false);
        self.shared.counts.restarts.fetch_add(1, Ordering::Relaxed);
        self.build = Build::new(self.shared.settings.depth);
        (self.day, self.turned, self.mending) = (None, false, None);
        let mut state = self.shared.write();
        state.open.begin_again(self.build.seed());
        state.indexed = state.from.clone();
        self.readers = readers(&self.shared, &state.indexed);
    }

    fn building(&self) -> PathBuf {
        self.shared.folder.join("building/piece")
    }

    fn place(&mut self, day: u64) -> PathBuf {
        self.number += 1;
        self.shared.folder.join(partition(day)).join(format!("{:010}", self.number))
    }

    /// Drops pieces of which the journal has nothing left.
    fn drop_gone(&mut self) -> Result<(), Error> {
        let dropped = self.shared.journal.statistics().dropped;
        if dropped == self.dropped {
            return Ok(());
        }
        let begins = begins(&self.shared.journal);
        let mut state = self.shared.write();
        let (gone, kept) = std::mem::take(&mut state.sealed)
            .into_iter()
            .partition::<Vec<_>, _>(|piece| is_gone(piece, &begins));
        state.sealed = kept;
        drop(state);
        for piece in gone {
            remove(&piece.folder)?;
            if let Some(partition) = piece.folder.parent() {
                // Only when it was the last piece of its day.
                let _ = fs::remove_dir(partition);
            }
        }
        self.dropped = dropped;
        Ok(())
    }

    /// Takes pieces that searches found damaged out, to be read again.
    fn drop_damaged(&mut self) -> Result<(), Error> {
        let damaged = {
            let mut damaged = self.shared.damaged.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *damaged)
        };
        if damaged.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.write();
        let lanes = self.readers.len();
        let (bad, good) = std::mem::take(&mut state.sealed)
            .into_iter()
            .partition(|piece| damaged.contains(&piece.folder));
        state.sealed = good;
        state.gaps.extend(bad.iter().map(|piece| gap_of(piece, lanes)));
        drop(state);
        for piece in bad {
            remove(&piece.folder)?;
        }
        Ok(())
    }

    /// Reads a lost stretch again, up to about `most` transactions of it.
    fn mend(&mut self, most: usize) -> Result<usize, Error> {
        let mended = self.mend_some(most);
        if mended.is_err() {
            self.mending = None;
        }
        mended
    }

    fn mend_some(&mut self, most: usize) -> Result<usize, Error> {
        if self.mending.is_none() {
            let Some(gap) = self.shared.read().gaps.first().cloned() else { return Ok(0) };
            let build = Build::new(self.shared.settings.depth);
            let readers = readers(&self.shared, &gap.from);
            let piece = OpenPiece::new(self.shared.settings.depth, build.seed());
            self.mending = Some(Mending { readers, gap, build, piece, day: None });
        }
        let Some(mending) = &mut self.mending else { return Ok(0) };
        let (mut done, mut ended) = (0, true);
        let mut position: Vec<Position> = mending.gap.from.clone();
        for (lane, reader) in mending.readers.iter_mut().enumerate() {
            let to = mending.gap.to[lane];
            while done < most && !mending.build.is_full() && reader.position() < to {
                let Some(mut transaction) = reader.next_shown().map_err(Error::Journal)? else {
                    break;
                };
                if transaction.address.is_none_or(|address| address.position >= to) {
                    break;
                }
                let day = transaction.received_us / DAY;
                mending.day = Some(mending.day.unwrap_or(day).max(day));
                let block = read(&self.shared, &mut mending.build, &mut transaction);
                mending.piece.blocks.extend(block);
                mending.piece.columns.push(&transaction, self.shared.settings.whole_stage);
                done += 1;
            }
            ended &= done < most && !mending.build.is_full();
            position[lane] = if ended { to } else { reader.position().min(to) };
        }
        if ended || mending.build.is_full() {
            self.end_mending(position)?;
        }
        // One more call is needed to find that nothing is left.
        Ok(done.max(1))
    }

    /// Writes what was read again; what is left of the gap remains.
    fn end_mending(&mut self, reached: Vec<Position>) -> Result<(), Error> {
        let Some(mut mending) = self.mending.take() else { return Ok(()) };
        mending.piece.blocks.extend(mending.build.last());
        let mut sealed = None;
        if let Some(day) = mending.day {
            let place = self.place(day);
            let spans = mending.gap.from.iter().copied().zip(reached.iter().copied()).collect();
            let provisional = self.shared.settings.provisional;
            let piece = mending.piece.write(spans, provisional, &self.building(), &place)?;
            sealed = Some(Arc::new(piece));
        }
        let mut state = self.shared.write();
        state.sealed.extend(sealed);
        state.gaps.retain(|gap| *gap != mending.gap);
        if reached != mending.gap.to {
            state.gaps.insert(0, Gap { from: reached, to: mending.gap.to });
        }
        Ok(())
    }
}

/// Reads the keys and terms of a transaction; gives the block that it finishes. If that panics it
/// is indexed without, and counted: what one client sent must not end the indexing of all.
fn read(shared: &Shared, build: &mut Build, transaction: &mut Transaction) -> Option<BlockTerms> {
    let keys = shared.read_keys(transaction);
    // What it may leave behind is terms of the block, which may have more than it needs.
    let words = catch_unwind(AssertUnwindSafe(|| build.add_terms(transaction))).is_ok();
    if !(keys && words) {
        shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
    }
    build.end_row(transaction)
}

/// When a transaction ended, in microseconds since 1970.
fn ended(transaction: &Transaction, whole: u8) -> u64 {
    transaction.received_us.saturating_add(row::took(&transaction.stages, whole))
}

fn readers(shared: &Shared, from: &[Position]) -> Vec<Reader> {
    let lanes = from.iter().enumerate();
    let reader = |(lane, from): (usize, &Position)| shared.journal.reader(lane as u16, *from);
    lanes.map(reader).map(|reader| as_needed(shared, reader)).collect()
}

/// Without payloads where neither terms nor business keys are read out of them.
fn as_needed(shared: &Shared, reader: Reader) -> Reader {
    let settings = &shared.settings;
    let payload = settings.depth == Depth::Payload || !settings.keys.is_empty();
    if payload { reader } else { reader.metadata_only() }
}

/// The folder of a day.
fn partition(day: u64) -> String {
    let start = i64::try_from(day.saturating_mul(DAY)).ok();
    let start = start.and_then(|start| Timestamp::from_microsecond(start).ok());
    start.map_or_else(|| format!("day-{day}"), |start| start.strftime("%Y-%m-%d").to_string())
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(folder)(error)),
        _ => Ok(()),
    }
}
