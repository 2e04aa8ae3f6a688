//! The threads behind the lanes.
//!
//! | thread | what it does | when |
//! |---|---|---|
//! | `journal-supply` | makes segments ready, gives back mappings | a lane has taken one; each 200 ms |
//! | `journal-urgent` | the same, and does not let workers go first | a lane has fewer than two segments left |
//! | `journal-seal` | seals full segments, drops old files | a segment is full; each second. It compresses when nothing else wants to run, unless it is more than a minute behind |
//! | `journal-sync` | syncs lanes in groups; durability `disk` only | somebody waits |

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::files::{Budget, Files};
use crate::follower::Checkpoints;
use crate::journal::{Durability, Settings, Statistics};
use crate::lane::Shared;
use crate::manifest::Manifest;
use crate::recovery::RecoveryReport;
use crate::supply::{Bell, Supply};

/// Pause of the supplying thread when nobody rings: how soon a full disk is tried again.
const SUPPLY_PAUSE: Duration = Duration::from_millis(200);
/// How much nicer than a worker the supplying thread is.
const POLITE: i32 = 5;
/// Pause of the sealing thread when nobody rings.
const SEAL_PAUSE: Duration = Duration::from_secs(1);
/// Behind by that much, sealing does not wait for idle time any more.
const LATE: Duration = Duration::from_secs(60);

/// A lane without its writing end.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) files: Arc<Files>,
    pub(crate) shared: Arc<Shared>,
    supply: Option<Mutex<Supply>>,
}

impl LaneState {
    pub(crate) fn new(files: Arc<Files>, shared: Arc<Shared>, supply: Option<Supply>) -> Self {
        Self { files, shared, supply: supply.map(Mutex::new) }
    }
}

/// What the journal and its threads share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) lanes: Vec<LaneState>,
    pub(crate) manifest: Manifest,
    pub(crate) sealed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Files that were missing when it was opened, and transactions in them.
    missing: (AtomicU64, AtomicU64),
    /// Checkpoints that were damaged then.
    damaged_checkpoints: AtomicU64,
    /// Sealing is so far behind that it does not wait for idle time.
    pub(crate) late: AtomicBool,
    supplying: [Arc<Bell>; 2],
    sealing: Bell,
    syncing: Arc<Bell>,
}

impl Inner {
    pub(crate) fn new(
        settings: Settings,
        budget: Budget,
        checkpoints: Arc<Checkpoints>,
        (lanes, manifest): (Vec<LaneState>, Manifest),
        supplying: [Arc<Bell>; 2],
        syncing: Arc<Bell>,
    ) -> Self {
        Self {
            settings,
            budget,
            checkpoints,
            lanes,
            manifest,
            sealed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            missing: Default::default(),
            damaged_checkpoints: AtomicU64::new(0),
            late: AtomicBool::new(false),
            supplying,
            sealing: Bell::default(),
            syncing,
        }
    }

    /// Takes over what was found when it was opened.
    pub(crate) fn note_found(&self, report: &RecoveryReport) {
        let missing = || report.missing.iter().filter(|file| !file.accepted);
        self.missing.0.store(missing().count() as u64, Ordering::Relaxed);
        let transactions = missing().map(|file| file.transactions).sum();
        self.missing.1.store(transactions, Ordering::Relaxed);
        self.damaged_checkpoints.store(report.checkpoints.len() as u64, Ordering::Relaxed);
    }

    /// Makes segments ready for every lane.
    pub(crate) fn supply(&self) -> io::Result<()> {
        let mut result = Ok(());
        for lane in &self.lanes {
            if let Some(supply) = &lane.supply {
                let mut supply = supply.lock().unwrap_or_else(PoisonError::into_inner);
                result = result.and(supply.fill(&self.budget));
            }
        }
        result
    }

    /// Seals every segment that is due.
    #[cfg(test)]
    pub(crate) fn seal_all(&self) -> io::Result<()> {
        while self.seal_one()? {}
        Ok(())
    }

    /// Segments that wait to be sealed.
    pub(crate) fn unsealed(&self) -> usize {
        let full = |lane: &LaneState| {
            let end = lane.shared.end().segment();
            lane.files.state().raw.range(..end).count()
        };
        self.lanes.iter().map(full).sum()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = Statistics {
            errors: self.errors.load(Ordering::Relaxed),
            sealed: self.sealed.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            unsealed: self.unsealed() as u64,
            disk_bytes: self.budget.used(),
            missing_files: self.missing.0.load(Ordering::Relaxed),
            missing_transactions: self.missing.1.load(Ordering::Relaxed),
            damaged_checkpoints: self.damaged_checkpoints.load(Ordering::Relaxed),
            ..Statistics::default()
        };
        for LaneState { files, shared, .. } in &self.lanes {
            sum.damaged_bytes += files.damages.bytes();
            sum.records += shared.records.load(Ordering::Relaxed);
            sum.bytes += shared.bytes.load(Ordering::Relaxed);
            sum.refused += shared.refused.load(Ordering::Relaxed);
            sum.shortened += shared.shortened.load(Ordering::Relaxed);
            sum.errors += shared.errors.load(Ordering::Relaxed);
            sum.errors += shared.disk_errors.load(Ordering::Relaxed);
            sum.segments += shared.segments.load(Ordering::Relaxed);
            sum.waiting_counts += shared.waiting.load(Ordering::Relaxed);
        }
        sum
    }

    /// Makes segments when lanes are about to run out of them. It is not nice: a lane without a
    /// segment loses payloads, and it is on a busy machine that it runs out of them.
    fn run_urgent(&self) {
        let [_, bell] = &self.supplying;
        bell.hang();
        while !bell.stopped() {
            let _ = self.supply();
            thread::park_timeout(SEAL_PAUSE);
        }
    }

    fn run_supply(&self) {
        let [bell, _] = &self.supplying;
        bell.hang();
        // A worker that wakes up goes first; a quarter of a busy core is enough to keep up. Where
        // that is not allowed, nothing changes.
        let _ = rustix::process::nice(POLITE);
        while !bell.stopped() {
            // Counted where it happened, and tried again.
            let _ = self.supply();
            if self.unsealed() > 0 {
                self.sealing.ring();
            }
            thread::park_timeout(SUPPLY_PAUSE);
        }
    }

    fn run_seal(&self) {
        self.sealing.hang();
        let mut behind_since: Option<Instant> = None;
        let mut noted: Option<Instant> = None;
        while !self.sealing.stopped() {
            let behind = self.unsealed() > 0;
            behind_since = behind.then(|| behind_since.unwrap_or_else(Instant::now));
            let late = behind_since.is_some_and(|since| since.elapsed() > LATE);
            self.late.store(late, Ordering::Relaxed);
            let worked = self.seal_one();
            let retained = self.retain();
            let due = noted.is_none_or(|noted| noted.elapsed() >= SEAL_PAUSE);
            let kept = if due { self.keep_manifest() } else { Ok(()) };
            noted = if due { Some(Instant::now()) } else { noted };
            if worked.is_err() || retained.is_err() || kept.is_err() {
                self.errors.fetch_add(1, Ordering::Relaxed);
            }
            match worked {
                Ok(true) => self.supplying[0].ring(),
                _ => thread::park_timeout(SEAL_PAUSE),
            }
        }
    }

    /// Writes down which files there are and how far lanes have come.
    pub(crate) fn keep_manifest(&self) -> io::Result<()> {
        self.manifest.bring_up_to_date(&self.lanes, None)?;
        self.manifest.note_ends(&self.lanes)
    }

    fn run_sync(&self) {
        self.syncing.hang();
        while !self.syncing.stopped() {
            if !self.sync() {
                thread::park_timeout(SEAL_PAUSE);
            }
        }
    }
}

/// The running threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    inner: Arc<Inner>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(inner: &Arc<Inner>) -> io::Result<Self> {
        let mut threads = Self { inner: Arc::clone(inner), handles: Vec::new() };
        threads.spawn("journal-supply", Inner::run_supply)?;
        threads.spawn("journal-urgent", Inner::run_urgent)?;
        threads.spawn("journal-seal", Inner::run_seal)?;
        if inner.settings.durability == Durability::Disk {
            threads.spawn("journal-sync", Inner::run_sync)?;
        }
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, run: fn(&Inner)) -> io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&inner))?;
        self.handles.push(thread);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let [supplying, urgent] = &self.inner.supplying;
        for bell in [supplying, urgent, &self.inner.sealing, &self.inner.syncing] {
            bell.stop();
        }
        for handle in self.handles.drain(..) {
            // A thread of the journal does not panic; if it did, that was reported.
            let _ = handle.join();
        }
        // Lanes have ended before. A start without it would only miss less.
        let _ = self.inner.keep_manifest();
    }
}
