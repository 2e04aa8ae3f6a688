//! Opening a journal: one weir per folder.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::background::{Inner, LaneState, Threads};
use crate::failpoint::Faults;
use crate::files::{Budget, Files, create_folder};
use crate::follower::{Checkpoints, Follower, Lag};
use crate::format::{Address, Position};
use crate::lane::{Lane, Shared};
use crate::manifest::{Manifest, MissingFile, Parts};
use crate::reader::{self, Reader};
use crate::record::{Completed, Outcome, Transaction};
use crate::recovery::{self, RecoveryReport};
use crate::supply::{Bell, Supply};

/// Most lanes of a journal.
const LANES: u16 = 1024;
/// Segments are a whole number of these.
const PAGE: u32 = 4096;

/// When an appended record outlives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The process, at once; the machine, when the system has written it back.
    #[default]
    Process,
    /// The machine, once [`Lane::poll_durable`] says so: lanes are synced in groups.
    Disk,
}

/// How a journal is kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lanes to write to, one per worker.
    pub lanes: u16,
    /// Length of a segment in bytes; rounded up to a multiple of 4096.
    pub segment_bytes: u32,
    /// Most bytes that the whole journal may take; three segments for each lane are needed.
    pub disk_bytes: u64,
    /// What an append promises.
    pub durability: Durability,
    /// A segment that was begun that long ago is sealed even if it is not full.
    pub seal_after: Duration,
    /// How long heads and bodies of completed transactions are kept.
    pub keep_completed: Duration,
    /// How long transactions that failed or were interrupted are kept, and the metadata of all.
    pub keep_failed: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            lanes: 1,
            segment_bytes: 16 << 20,
            disk_bytes: 50 << 30,
            durability: Durability::Process,
            seal_after: Duration::from_secs(60 * 60),
            keep_completed: 7 * DAY,
            keep_failed: 90 * DAY,
        }
    }
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it open.
    #[error("the data folder is in use by process {pid}")]
    Held {
        /// Its process id as it wrote it, or `?`.
        pid: String,
    },
    /// A file could not be made, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

/// What all lanes have done since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Appends refused.
    pub refused: u64,
    /// Transactions whose end was written without headers and body for want of room.
    pub shortened: u64,
    /// Calls to be counted that wait in memory for room; lost if the process is killed.
    pub waiting_counts: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Segments begun.
    pub segments: u64,
    /// Segments sealed.
    pub sealed: u64,
    /// Files dropped because of their age or the budget.
    pub dropped: u64,
    /// Segments that wait to be sealed.
    pub unsealed: u64,
    /// Bytes that could not be read since then: found by recovery, by sealing or by reading, and
    /// counted once.
    pub damaged_bytes: u64,
    /// Files that should be there and are not, and transactions that were in them; without those
    /// that are accepted.
    pub missing_files: u64,
    /// Likewise.
    pub missing_transactions: u64,
    /// Checkpoints of followers that were damaged when it was opened.
    pub damaged_checkpoints: u64,
    /// Bytes that the journal takes on the disk, prepared segments included.
    pub disk_bytes: u64,
}

/// Why the journal does not have a transaction that was in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// It was dropped because of its age, or for want of room.
    #[default]
    Dropped,
    /// Its file is damaged.
    Damaged,
    /// Its file is gone, and nobody here dropped it.
    Missing,
}

/// An open journal. It is to be dropped after its lanes.
#[derive(Debug)]
pub struct Journal {
    inner: Arc<Inner>,
    threads: Option<Threads>,
    _lock: File,
}

impl Journal {
    /// Opens the journal in `data`, recovers it, and gives one lane for each worker.
    ///
    /// # Errors
    /// [`Error::Held`] if another process has it open, [`Error::Io`] if files fail.
    pub fn open(
        data: &Path,
        settings: Settings,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        let (mut journal, lanes, report) = Self::open_still(data, settings, Faults::default())?;
        let threads = Threads::start(&journal.inner);
        journal.threads = Some(threads.map_err(at(data))?);
        Ok((journal, lanes, report))
    }

    /// Opens it without its threads.
    pub(crate) fn open_still(
        data: &Path,
        mut settings: Settings,
        faults: Faults,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        let bytes = settings.segment_bytes.clamp(PAGE, u32::MAX - PAGE);
        settings.segment_bytes = bytes.next_multiple_of(PAGE);
        let folder = data.join("journal");
        create_folder(&folder).map_err(at(&folder))?;
        let lock = lock(&folder.join("lock"))?;
        let mut report = RecoveryReport::default();
        let followers = folder.join("followers");
        let checkpoints =
            Checkpoints::open(followers.clone(), faults.clone(), &mut report.checkpoints);
        let checkpoints = checkpoints.map_err(at(&followers))?;
        let manifest = Manifest::open(data, faults.clone(), &mut report.manifest);
        let manifest = manifest.map_err(at(data))?;
        let budget = Budget::new(settings.segment_bytes, settings.disk_bytes);
        let bells = [(); 2].map(|()| Arc::new(Bell::default()));
        let syncing = Arc::new(Bell::default());
        let (mut lanes, mut states) = (Vec::new(), Vec::new());
        for index in 0..LANES {
            let path = folder.join(format!("lane-{index:04}"));
            let active = index < settings.lanes;
            if !active && !path.exists() && index >= manifest.lanes() {
                break;
            }
            let known = manifest.of_lane(index);
            let files = Files::open(index, path.clone(), faults.clone(), &budget, &known);
            let files = Arc::new(files.map_err(at(&path))?);
            manifest.compare(&files, &mut report.missing);
            let ended = manifest.end(index);
            let mut past = recovery::recover(&files, ended, &mut report).map_err(at(&path))?;
            past.next_ticket = past.next_ticket.max(ended.next_ticket);
            files.damages.opened();
            let shared = Arc::new(Shared::default());
            let next = files.next().max(ended.next_segment());
            shared.end.store(Position::new(next, 0).to_bits(), Ordering::Release);
            shared.next_ticket.store(past.next_ticket, Ordering::Relaxed);
            if settings.durability == Durability::Disk {
                shared.durable.synced(Position::new(next, 0), true);
                shared.durable.sync_by(Arc::clone(&syncing));
            }
            let (mut supply, taker) =
                Supply::new(Arc::clone(&files), Arc::clone(&shared), next, bells.clone());
            let needed = active || !past.open.is_empty();
            // A disk that is full now may have room later; until then the lane refuses.
            let _ = if needed { supply.fill(&budget) } else { Ok(()) };
            let how = (settings.segment_bytes, settings.seal_after);
            let lane = Lane::new(index, how, Arc::clone(&shared), taker, past);
            let lane = interrupt(lane, &mut report);
            if active {
                lanes.push(lane);
            }
            states.push(LaneState::new(files, shared, active.then_some(supply)));
        }
        let states = (states, manifest);
        let inner = Inner::new(settings, budget, Arc::new(checkpoints), states, bells, syncing);
        // What was found missing is known from now on.
        inner.manifest.bring_up_to_date(&inner.lanes, None).map_err(at(data))?;
        inner.note_found(&report);
        Ok((Self { inner: Arc::new(inner), threads: None, _lock: lock }, lanes, report))
    }

    /// Number of lanes that can be read: those of this opening and of earlier ones.
    #[must_use]
    pub fn lanes(&self) -> u16 {
        self.inner.lanes.len() as u16
    }

    /// A reader of a lane from a position on. A lane that does not exist reads as empty.
    #[must_use]
    pub fn reader(&self, lane: u16, from: Position) -> Reader {
        self.read(lane, from, 0)
    }

    /// A reader that goes on where another one was, as its position and ticket number tell: for
    /// those who keep their checkpoint themselves.
    #[must_use]
    pub fn read(&self, lane: u16, from: Position, ticket: u64) -> Reader {
        let (files, shared) = match self.inner.lanes.get(usize::from(lane)) {
            Some(lane) => (Arc::clone(&lane.files), Arc::clone(&lane.shared)),
            None => (Arc::new(Files::none(lane)), Arc::default()),
        };
        Reader::new(files, shared, from, ticket)
    }

    /// Where the next record of a lane will be: a reader from there gives what ends from now on.
    #[must_use]
    pub fn end(&self, lane: u16) -> Position {
        self.inner.lanes.get(usize::from(lane)).map_or(Position::START, |lane| lane.shared.end())
    }

    /// Where what a lane still has begins: whatever lies before was dropped.
    #[must_use]
    pub fn begin(&self, lane: u16) -> Position {
        self.inner.lanes.get(usize::from(lane)).map_or(Position::START, |lane| {
            let state = lane.files.state();
            let first = state.raw.first().into_iter().chain(state.sealed.keys().next());
            // What is missing was not dropped.
            let first = first.chain(state.gone.keys().next()).min();
            first.map_or(Position::START, |first| Position::new(*first, 0).max(Position::START))
        })
    }

    /// Numbers of the segments that a lane still has, of sealed ones at least who, what and when.
    #[must_use]
    pub fn segments(&self, lane: u16) -> BTreeSet<u32> {
        self.inner.lanes.get(usize::from(lane)).map_or_else(BTreeSet::new, |lane| {
            let state = lane.files.state();
            state.raw.iter().chain(state.sealed.keys()).copied().collect()
        })
    }

    /// A follower by its name, 1 to 64 lower-case letters, digits and hyphens. Nothing that it has
    /// not passed is dropped, also while it does not run.
    ///
    /// # Errors
    /// When its checkpoint cannot be written.
    pub fn follower(&self, name: &str) -> io::Result<Follower> {
        Follower::new(name, Arc::clone(&self.inner.checkpoints), self.inner.lanes.len())
    }

    /// A reader of what a follower has not passed.
    #[must_use]
    pub fn follow(&self, follower: &Follower, lane: u16) -> Reader {
        let passed = follower.of(lane);
        self.read(lane, passed.position, passed.ticket)
    }

    /// Forgets a follower, so that nothing is kept for it any more.
    ///
    /// # Errors
    /// When its checkpoint cannot be removed.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.inner.checkpoints.forget(name)
    }

    /// What each follower has not passed. Reads one transaction of each lane that has any.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn lags(&self) -> io::Result<Vec<Lag>> {
        let followers = self.inner.checkpoints.all().clone();
        let mut lags = Vec::new();
        for (name, passed) in followers {
            let mut lag = Lag { name, records: 0, bytes: 0, age: Duration::ZERO };
            for (index, lane) in self.inner.lanes.iter().enumerate() {
                let passed = passed.get(index).copied().unwrap_or_default();
                let end = lane.shared.end();
                let newest = lane.shared.next_ticket.load(Ordering::Relaxed).saturating_sub(1);
                let bytes = lane.files.bytes_between(passed.position, end);
                let mut reader = self.read(index as u16, passed.position, 0).metadata_only();
                let Some(oldest) = reader.next_transaction()? else { continue };
                lag.bytes += bytes;
                lag.records += newest.saturating_sub(passed.ticket).max(1);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                lag.age =
                    lag.age.max(now.saturating_sub(Duration::from_micros(oldest.received_us)));
            }
            lags.push(lag);
        }
        Ok(lags)
    }

    /// Why there is no transaction at an address where there was one.
    #[must_use]
    pub fn absence(&self, address: Address) -> Absence {
        let Some(lane) = self.inner.lanes.get(usize::from(address.lane)) else {
            return Absence::Dropped;
        };
        let (state, number) = (lane.files.state(), address.position.segment());
        match state.gone.get(&number) {
            Some(gone) if gone.has(Parts::UNREADABLE) => Absence::Damaged,
            _ if state.raw.contains(&number) || state.sealed.contains_key(&number) => {
                Absence::Damaged
            }
            Some(_) => Absence::Missing,
            None => Absence::Dropped,
        }
    }

    /// The transaction at an address; none if the journal does not have it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn get(&self, address: Address) -> io::Result<Option<Transaction>> {
        Ok(self.get_many(&[address], true)?.pop())
    }

    /// The transactions at addresses, which are best sorted: each block of a sealed segment is
    /// then unpacked once. Those that the journal does not have are left out; each says its address.
    /// Without their `payload`, what is sealed has no heads, bodies, properties and logs.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn get_many(&self, addresses: &[Address], payload: bool) -> io::Result<Vec<Transaction>> {
        let mut found = Vec::with_capacity(addresses.len());
        for of_lane in addresses.chunk_by(|one, other| one.lane == other.lane) {
            let Some(lane) = self.inner.lanes.get(usize::from(of_lane[0].lane)) else { continue };
            let positions: Vec<_> = of_lane.iter().map(|address| address.position).collect();
            let found = &mut |transaction| found.push(transaction);
            reader::get(&lane.files, &positions, payload, found)?;
        }
        Ok(found)
    }

    /// Whether room is about to run out: a follower should let go of what it holds back.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.inner.budget.short(self.inner.lanes.len())
    }

    /// Accepts that files are missing: they are still known to be missing, and said to be accepted.
    /// Gives those that were not accepted before.
    ///
    /// # Errors
    /// It cannot be written down; nothing is accepted then.
    pub fn accept_missing(&self) -> io::Result<Vec<MissingFile>> {
        self.inner.manifest.accept()
    }

    /// What was done since the journal was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    /// Does once what the threads do again and again.
    #[cfg(test)]
    pub(crate) fn work(&self) -> io::Result<()> {
        self.inner.supply()?;
        self.inner.seal_all()?;
        self.inner.retain()?;
        self.inner.keep_manifest()?;
        self.inner.supply()
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

/// Closes what was open when the lane was last written to.
fn interrupt(mut lane: Lane, report: &mut RecoveryReport) -> Lane {
    for (ticket, unsure) in lane.tickets() {
        let outcome = Outcome::Interrupted;
        let end = Completed { outcome, unsure, ..Completed::default() };
        match lane.completed(ticket, &end) {
            Ok(_) => report.interrupted += 1,
            Err(_) => report.left_open += 1,
        }
    }
    lane
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// Takes a data folder as an open journal does.
pub(crate) fn hold(data: &Path) -> Result<File, Error> {
    let folder = data.join("journal");
    create_folder(&folder).map_err(at(&folder))?;
    lock(&folder.join("lock"))
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path).unwrap_or_default();
            let pid = if pid.is_empty() { "?".to_owned() } else { pid };
            return Err(Error::Held { pid });
        }
        Err(TryLockError::Error(source)) => return Err(at(path)(source)),
    }
    file.set_len(0).map_err(at(path))?;
    write!(file, "{}", std::process::id()).map_err(at(path))?;
    Ok(file)
}
