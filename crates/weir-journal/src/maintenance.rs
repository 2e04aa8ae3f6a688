//! The threads behind the lanes.
//!
//! | thread | task | when |
//! |---|---|---|
//! | `journal-supply` | prepares segments, unmaps full ones | a lane has started a segment; every 200 ms |
//! | `journal-urgent` | the same, at the priority of workers | a lane has fewer than two segments left |
//! | `journal-seal` | seals full segments, drops old files | a segment is full; every second. It compresses in idle time only, unless it is more than a minute behind |
//! | `journal-sync` | syncs lanes in groups; durability `disk` only | a task waits |

mod backlogs;
mod retention;
mod seal;
mod sync;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::journal_state::JournalState;
use crate::settings::Durability;

/// Interval of the supplying threads unless they are woken: how soon a full disk is tried again.
const SUPPLY_INTERVAL: Duration = Duration::from_millis(200);
/// `nice` of the supplying thread relative to a worker.
const SUPPLY_NICE: i32 = 5;
/// Interval of the sealing and the syncing thread unless they are woken.
const SEAL_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after which sealing does not wait for idle time any more.
const MAX_SEAL_DELAY: Duration = Duration::from_secs(60);

impl JournalState {
    /// Prepares segments for every lane.
    pub(crate) fn supply(&self) -> io::Result<()> {
        let mut result = Ok(());
        for preallocator in &self.preallocators {
            let mut preallocator = preallocator.lock();
            result = result.and(preallocator.fill(&self.budget));
        }
        result
    }

    /// Seals every segment that is due.
    #[cfg(test)]
    pub(crate) fn seal_all(&self) -> io::Result<()> {
        while self.seal_one()? {}
        Ok(())
    }

    /// Writes which files exist and how far lanes have come.
    pub(crate) fn write_manifest(&self) -> io::Result<()> {
        self.manifest.update(&self.lanes, None)?;
        self.manifest.write_ends(&self.lanes)
    }

    /// Prepares segments when lanes are about to run out of them. It has the priority of workers: a
    /// lane without a segment loses payloads, and lanes run out of segments on a busy machine.
    fn run_urgent(&self) {
        let waker = &self.wakers.urgent;
        waker.register();
        while !waker.is_stopped() {
            // Errors are counted where they happen, and the next interval tries again.
            let _ = self.supply();
            thread::park_timeout(SEAL_INTERVAL);
        }
    }

    fn run_supply(&self) {
        let waker = &self.wakers.supply;
        waker.register();
        // A worker that wakes up goes first; a quarter of a busy core is enough to keep up. Where
        // the system does not allow it, the priority stays.
        let _ = rustix::process::nice(SUPPLY_NICE);
        while !waker.is_stopped() {
            let _ = self.supply();
            if self.unsealed() > 0 {
                self.wakers.seal.wake();
            }
            thread::park_timeout(SUPPLY_INTERVAL);
        }
    }

    fn run_seal(&self) {
        let waker = &self.wakers.seal;
        waker.register();
        let mut behind_since: Option<Instant> = None;
        let mut written: Option<Instant> = None;
        while !waker.is_stopped() {
            let released = self.released.lock();
            if *released {
                drop(released);
                thread::park_timeout(SEAL_INTERVAL);
                continue;
            }
            let behind = self.unsealed() > 0;
            behind_since = behind.then(|| behind_since.unwrap_or_else(Instant::now));
            let delayed = behind_since.is_some_and(|since| since.elapsed() > MAX_SEAL_DELAY);
            self.seal_delayed.store(delayed, Ordering::Relaxed);
            let sealed = self.seal_one();
            let retained = self.enforce_retention();
            let due = written.is_none_or(|written| written.elapsed() >= SEAL_INTERVAL);
            let manifest = if due { self.write_manifest() } else { Ok(()) };
            written = if due { Some(Instant::now()) } else { written };
            if sealed.is_err() || retained.is_err() || manifest.is_err() {
                self.counters.lock().errors += 1;
            }
            drop(released);
            match sealed {
                Ok(true) => self.wakers.supply.wake(),
                _ => thread::park_timeout(SEAL_INTERVAL),
            }
        }
    }

    fn run_sync(&self) {
        let waker = &self.wakers.sync;
        waker.register();
        while !waker.is_stopped() {
            if !self.sync() {
                thread::park_timeout(SEAL_INTERVAL);
            }
        }
    }
}

/// The running threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    journal: Arc<JournalState>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(journal: &Arc<JournalState>) -> io::Result<Self> {
        let mut threads = Self { journal: Arc::clone(journal), handles: Vec::new() };
        threads.spawn("journal-supply", JournalState::run_supply)?;
        threads.spawn("journal-urgent", JournalState::run_urgent)?;
        threads.spawn("journal-seal", JournalState::run_seal)?;
        if journal.settings.durability == Durability::Disk {
            threads.spawn("journal-sync", JournalState::run_sync)?;
        }
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, run: fn(&JournalState)) -> io::Result<()> {
        let journal = Arc::clone(&self.journal);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&journal))?;
        self.handles.push(thread);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let wakers = &self.journal.wakers;
        for waker in [&wakers.supply, &wakers.urgent, &wakers.seal, &wakers.sync] {
            waker.stop();
        }
        for handle in self.handles.drain(..) {
            // A thread of the journal does not panic; if it did, that was reported.
            let _ = handle.join();
        }
        // The lanes were dropped before. Without this write the next start detects fewer missing
        // files.
        if !*self.journal.released.lock() {
            let _ = self.journal.write_manifest();
        }
    }
}
