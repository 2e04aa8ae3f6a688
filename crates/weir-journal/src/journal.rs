//! Opening a journal and reading from it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::catalog::budget::Budget;
use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::data_lock::{DataLock, Error, at};
use crate::failpoint::Faults;
use crate::files::{Files, Parts};
use crate::follower::{Follower, Lag};
use crate::format::{Address, Position};
use crate::journal_state::{JournalState, Wakers};
use crate::lane::Lane;
use crate::lane_state::{LaneProgress, LaneState};
use crate::maintenance::Threads;
use crate::manifest::{Manifest, MissingFile};
use crate::os::unix_time;
use crate::preallocator::Preallocator;
use crate::reader::{self, Reader};
use crate::record::undecoded::Undecoded;
use crate::record::{Completed, Transaction};
use crate::recovery::{self, RecoveryReport};
use crate::settings::{Durability, Settings};
use crate::statistics::Statistics;
use weir_model::Outcome;

/// Most lanes of a journal.
const MAX_LANES: u16 = 1024;
/// The length of a segment is a multiple of this.
const PAGE_BYTES: u32 = 4096;

/// Why a transaction is not in the journal any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// Dropped because of its age or the budget.
    #[default]
    Dropped,
    /// Its file is damaged.
    Damaged,
    /// Its file does not exist, and weir did not drop it.
    Missing,
}

/// An open journal. To be dropped after its lanes.
#[derive(Debug)]
pub struct Journal {
    state: Arc<JournalState>,
    threads: Option<Threads>,
    lock: DataLock,
}

impl Journal {
    /// Opens the journal in `data`, recovers it, and returns a lane for each worker.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has locked the folder, [`Error::Io`] if files fail.
    pub fn open(
        data: &Path,
        settings: Settings,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        Self::start(data, settings, DataLock::acquire(data)?, &[])
    }

    pub(crate) fn start(
        data: &Path,
        settings: Settings,
        lock: DataLock,
        held: &[LaneProgress],
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        let (mut journal, lanes, report) =
            Self::open_locked((data, lock), settings, held, Faults::default())?;
        let threads = Threads::start(&journal.state);
        journal.threads = Some(threads.map_err(at(data))?);
        Ok((journal, lanes, report))
    }

    /// Opens a journal without its threads.
    #[cfg(test)]
    pub(crate) fn open_without_threads(
        data: &Path,
        settings: Settings,
        faults: Faults,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        Self::open_locked((data, DataLock::acquire(data)?), settings, &[], faults)
    }

    /// Opens a locked journal without its threads. The lanes in `held` belong to another process.
    pub(crate) fn open_locked(
        (data, lock): (&Path, DataLock),
        mut settings: Settings,
        held: &[LaneProgress],
        faults: Faults,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        let bytes = settings.segment_bytes.clamp(PAGE_BYTES, u32::MAX - PAGE_BYTES);
        settings.segment_bytes = bytes.next_multiple_of(PAGE_BYTES);
        let mut report = RecoveryReport::default();
        let folder = data.join("journal");
        let followers = folder.join("followers");
        let checkpoints = Checkpoints::open(followers.clone(), faults.clone(), &mut report);
        let checkpoints = checkpoints.map_err(at(&followers))?;
        let manifest = Manifest::open(data, faults.clone(), &mut report.damaged_files);
        let mut state = JournalState {
            settings,
            budget: Budget::new(settings.segment_bytes, settings.disk_bytes),
            checkpoints: Arc::new(checkpoints),
            lanes: Vec::new(),
            preallocators: Vec::new(),
            manifest: manifest.map_err(at(data))?,
            released: Mutex::new(false),
            wakers: Wakers::default(),
            seal_delayed: AtomicBool::new(false),
            counters: Mutex::default(),
        };
        let mut lanes = Vec::new();
        let last_held = held.iter().map(|held| held.lane).max();
        for index in 0..MAX_LANES {
            let path = folder.join(format!("lane-{index:04}"));
            let files = Files::new(index, path, faults.clone());
            if let Some(held) = held.iter().find(|held| held.lane == index) {
                open_held_lane(&mut state, files, *held)?;
                continue;
            }
            // The lowest lanes that are free.
            let active = lanes.len() < usize::from(settings.lanes);
            let known = last_held.is_some_and(|last| index < last)
                || files.folder.exists()
                || index < state.manifest.lanes();
            if !active && !known {
                break;
            }
            lanes.extend(open_lane(&mut state, files, active, &mut report)?);
        }
        // Files that were found missing are known to be missing from now on.
        state.manifest.update(&state.lanes, None).map_err(at(data))?;
        state.counters = Mutex::new(Statistics::of_report(&report));
        Ok((Self { state: Arc::new(state), threads: None, lock }, lanes, report))
    }

    /// Number of lanes that can be read, including lanes that are not written to any more.
    #[must_use]
    pub fn lanes(&self) -> u16 {
        self.state.lanes.len() as u16
    }

    /// A reader of a lane from a position on. A lane that does not exist is empty.
    #[must_use]
    pub fn reader(&self, lane: u16, from: Position) -> Reader {
        self.read(lane, from, 0)
    }

    /// A reader from the position and sequence number of an earlier reader, for callers with their
    /// own checkpoint.
    #[must_use]
    pub fn read(&self, lane: u16, from: Position, sequence: u64) -> Reader {
        let none = || LaneState { catalog: Arc::new(Catalog::empty(lane)), shared: Arc::default() };
        let state = self.state.lanes.get(usize::from(lane)).cloned().unwrap_or_else(none);
        Reader::new(state, from, sequence)
    }

    /// The end of a lane: a reader from there returns transactions that complete from now on.
    #[must_use]
    pub fn end(&self, lane: u16) -> Position {
        self.state.lanes.get(usize::from(lane)).map_or(Position::START, |lane| lane.shared.end())
    }

    /// The start of a lane: everything before was dropped.
    #[must_use]
    pub fn begin(&self, lane: u16) -> Position {
        self.state.lanes.get(usize::from(lane)).map_or(Position::START, |lane| {
            let state = lane.catalog.segments.read();
            let first = state.raw.first().into_iter().chain(state.sealed.keys().next());
            // Missing segments were not dropped.
            let first = first.chain(state.missing.keys().next()).min();
            first.map_or(Position::START, |first| Position::new(*first, 0).max(Position::START))
        })
    }

    /// Numbers of the segments of a lane. Of a sealed one at least the metadata exists.
    #[must_use]
    pub fn segments(&self, lane: u16) -> BTreeSet<u32> {
        self.state.lanes.get(usize::from(lane)).map_or_else(BTreeSet::new, |lane| {
            let state = lane.catalog.segments.read();
            state.raw.iter().chain(state.sealed.keys()).copied().collect()
        })
    }

    /// A follower by its name: 1 to 64 lower-case letters, digits and hyphens. Nothing after its
    /// checkpoint is dropped, also while the follower does not run.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn follower(&self, name: &str) -> io::Result<Follower> {
        Follower::new(name, Arc::clone(&self.state.checkpoints), self.state.lanes.len())
    }

    /// As [`Journal::follower`], for at most `max_backlog` bytes on the disk: beyond them the oldest
    /// segments may be dropped although the follower has not read them, and all of them before a
    /// record is refused. [`Follower::take_skipped`] reports what the follower skips. The bound holds
    /// until the journal is closed; before the follower is opened again, all segments are kept. A new
    /// follower begins with the first record of the journal.
    ///
    /// # Errors
    /// The checkpoint cannot be written, or a segment cannot be read.
    pub fn follower_with_backlog(&self, name: &str, max_backlog: u64) -> io::Result<Follower> {
        let mut begin = Vec::new();
        for lane in 0..self.lanes() {
            let position = self.begin(lane);
            let first = self.reader(lane, position).metadata_only().next_transaction()?;
            let newest =
                self.state.lanes[usize::from(lane)].shared.next_sequence.load(Ordering::Relaxed);
            let sequence = first.map_or(newest, |first| first.sequence).saturating_sub(1);
            begin.push(Checkpoint { position, sequence });
        }
        Follower::bounded(name, Arc::clone(&self.state.checkpoints), &begin, max_backlog)
    }

    /// A reader from a follower's checkpoint on.
    #[must_use]
    pub fn follow(&self, follower: &Follower, lane: u16) -> Reader {
        let checkpoint = follower.checkpoint(lane);
        let reader = self.read(lane, checkpoint.position, checkpoint.sequence);
        match follower.progress(lane) {
            Some(progress) => reader.publishing(progress),
            None => reader,
        }
    }

    /// Removes a follower: nothing is kept for it any more.
    ///
    /// # Errors
    /// The checkpoint cannot be removed.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.state.checkpoints.remove(name)
    }

    /// Names of all followers, also of those that do not run.
    #[must_use]
    pub fn followers(&self) -> Vec<String> {
        self.state.checkpoints.all.lock().keys().cloned().collect()
    }

    /// The lag of each follower. Reads one transaction of each lane with unread ones.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn lags(&self) -> io::Result<Vec<Lag>> {
        let followers = self.state.checkpoints.all.lock().clone();
        followers.into_iter().map(|(name, checkpoints)| self.lag_of(name, &checkpoints)).collect()
    }

    /// The lag of one follower; `None` if there is no follower of this name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn lag(&self, name: &str) -> io::Result<Option<Lag>> {
        let checkpoints = self.state.checkpoints.all.lock().get(name).cloned();
        checkpoints.map(|checkpoints| self.lag_of(name.to_owned(), &checkpoints)).transpose()
    }

    fn lag_of(&self, name: String, checkpoints: &[Checkpoint]) -> io::Result<Lag> {
        let mut lag = Lag { name, records: 0, bytes: 0, seconds: 0.0 };
        for (index, lane) in self.state.lanes.iter().enumerate() {
            let checkpoint = checkpoints.get(index).copied().unwrap_or_default();
            let end = lane.shared.end();
            let newest = lane.shared.next_sequence.load(Ordering::Relaxed).saturating_sub(1);
            let bytes = lane.catalog.bytes_between(checkpoint.position, end);
            let mut reader = self.read(index as u16, checkpoint.position, 0).metadata_only();
            let Some(oldest) = reader.next_transaction()? else { continue };
            lag.bytes += bytes;
            lag.records += newest.saturating_sub(checkpoint.sequence).max(1);
            let received = Duration::from_micros(oldest.received_us);
            let age = unix_time().saturating_sub(received).as_secs_f64();
            lag.seconds = lag.seconds.max(age);
        }
        Ok(lag)
    }

    /// Why a transaction is not at its address any more.
    #[must_use]
    pub fn absence(&self, address: Address) -> Absence {
        let Some(lane) = self.state.lanes.get(usize::from(address.lane)) else {
            return Absence::Dropped;
        };
        let (state, number) = (lane.catalog.segments.read(), address.position.segment());
        match state.missing.get(&number) {
            Some(missing) if missing.intersects(Parts::UNREADABLE) => Absence::Damaged,
            _ if state.raw.contains(&number) || state.sealed.contains_key(&number) => {
                Absence::Damaged
            }
            Some(_) => Absence::Missing,
            None => Absence::Dropped,
        }
    }

    /// The transaction at an address; none if it is not in the journal.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn get(&self, address: Address) -> io::Result<Option<Transaction>> {
        Ok(self.get_many(&[address], true)?.pop())
    }

    /// The transactions at these addresses. Sorted addresses are faster: each block of a sealed
    /// segment is decompressed once. Transactions that are not in the journal are left out. Without
    /// `payload`, sealed transactions have no heads, bodies, properties and logs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn get_many(&self, addresses: &[Address], payload: bool) -> io::Result<Vec<Transaction>> {
        let mut found = Vec::with_capacity(addresses.len());
        for (catalog, of_lane) in self.by_lane(addresses) {
            reader::get(catalog, of_lane, payload, &mut |transaction| found.push(transaction))?;
        }
        Ok(found)
    }

    /// Calls `each` with the transactions at these addresses, not decoded: to find out which of them are worth
    /// reading takes a fraction of the time of reading them. Sorted addresses are faster. Transactions that
    /// are not in the journal, or without a payload there, or incomplete, are left out.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn visit(
        &self,
        addresses: &[Address],
        mut each: impl FnMut(Address, &Undecoded<'_>),
    ) -> io::Result<()> {
        for (catalog, of_lane) in self.by_lane(addresses) {
            let mut rest = of_lane;
            while !rest.is_empty() {
                let done = reader::visit(catalog, rest, &mut each)?;
                rest = &rest[done..];
            }
        }
        Ok(())
    }

    /// The addresses of each lane that exists, neighbours together, with its catalog.
    fn by_lane<'a>(
        &'a self,
        addresses: &'a [Address],
    ) -> impl Iterator<Item = (&'a Catalog, &'a [Address])> {
        addresses.chunk_by(|one, other| one.lane == other.lane).filter_map(|of_lane| {
            let lane = self.state.lanes.get(usize::from(of_lane[0].lane))?;
            Some((&*lane.catalog, of_lane))
        })
    }

    /// Whether the budget is nearly used up: followers should advance their checkpoints.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.state.budget.is_short(self.state.lanes.len())
    }

    /// Accepts that files are missing: they stay known as missing and accepted. Returns those that
    /// were not accepted before.
    ///
    /// # Errors
    /// The manifest cannot be written; nothing is accepted then.
    pub fn accept_missing(&self) -> io::Result<Vec<MissingFile>> {
        self.state.manifest.accept()
    }

    /// Figures since the journal was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.state.statistics()
    }

    /// Runs every task of the maintenance threads once.
    #[cfg(test)]
    pub(crate) fn work(&self) -> io::Result<()> {
        self.state.supply()?;
        self.state.seal_all()?;
        self.state.enforce_retention()?;
        self.state.write_manifest()?;
        self.state.supply()
    }

    pub(crate) fn state(&self) -> &JournalState {
        &self.state
    }

    pub(crate) fn lock(&self) -> &DataLock {
        &self.lock
    }
}

/// Opens and recovers a lane; returns its writer if it is `active`.
fn open_lane(
    journal: &mut JournalState,
    files: Files,
    active: bool,
    report: &mut RecoveryReport,
) -> Result<Option<Lane>, Error> {
    let (index, path) = (files.lane, files.folder.clone());
    let known = journal.manifest.known_parts(index);
    let catalog = Catalog::open(files, &journal.budget, &known).map_err(at(&path))?;
    journal.manifest.compare(&catalog, &mut report.missing);
    let state = LaneState { catalog: Arc::new(catalog), shared: Arc::default() };
    let (lane, preallocator) = recover_lane(journal, &state, active, report)?;
    journal.lanes.push(state);
    if !active {
        return Ok(None);
    }
    journal.preallocators.push(Mutex::new(preallocator));
    Ok(Some(lane))
}

/// Opens a lane that another process writes.
fn open_held_lane(
    journal: &mut JournalState,
    files: Files,
    LaneProgress { end, next_sequence, .. }: LaneProgress,
) -> Result<(), Error> {
    let path = files.folder.clone();
    let catalog = Catalog::open_held(files, &journal.budget, end).map_err(at(&path))?;
    let state = LaneState { catalog: Arc::new(catalog), shared: Arc::default() };
    state.shared.held.store(true, Ordering::Release);
    state.shared.next_sequence.store(next_sequence, Ordering::Relaxed);
    state.shared.end.store(end.to_bits(), Ordering::Release);
    journal.lanes.push(state);
    Ok(())
}

/// Recovers a lane whose files were listed, and completes transactions that were left open.
pub(crate) fn recover_lane(
    journal: &JournalState,
    state: &LaneState,
    active: bool,
    report: &mut RecoveryReport,
) -> Result<(Lane, Preallocator), Error> {
    let (catalog, shared, settings) = (&state.catalog, &state.shared, journal.settings);
    let (index, path) = (catalog.files.lane, &catalog.files.folder);
    let end = journal.manifest.end(index);
    let mut recovered = recovery::recover(catalog, end, report).map_err(at(path))?;
    recovered.next_sequence = recovered.next_sequence.max(end.next_sequence);
    catalog.files.damage.opened();
    let next = catalog.next_number().max(end.next_segment());
    shared.end.store(Position::new(next, 0).to_bits(), Ordering::Release);
    shared.next_sequence.store(recovered.next_sequence, Ordering::Relaxed);
    let wakers = &journal.wakers;
    if settings.durability == Durability::Disk {
        shared.durable.set_synced(Position::new(next, 0), true);
        shared.durable.enable_sync(Arc::clone(&wakers.sync));
    }
    let (supply, urgent) = (Arc::clone(&wakers.supply), Arc::clone(&wakers.urgent));
    let (mut preallocator, queue) = Preallocator::new(state.clone(), next, supply, urgent);
    if active || !recovered.open.is_empty() {
        // A full disk may have space later; until then the lane refuses records.
        let _ = preallocator.fill(&journal.budget);
    }
    let limits = (settings.segment_bytes, settings.seal_after);
    let mut lane = Lane::new(index, limits, Arc::clone(shared), queue, recovered);
    interrupt(&mut lane, report);
    Ok((lane, preallocator))
}

/// Completes transactions as interrupted that a crash left open.
fn interrupt(lane: &mut Lane, report: &mut RecoveryReport) {
    for (handle, possible_end) in lane.open_transactions() {
        let outcome = Outcome::Interrupted;
        let completed = Completed { outcome, possible_end, ..Completed::default() };
        match lane.complete(handle, &completed) {
            Ok(_) => report.interrupted += 1,
            Err(_) => report.left_open += 1,
        }
    }
}
