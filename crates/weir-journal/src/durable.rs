//! What of a lane would outlive the machine, and who waits for it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use crate::background::{Inner, LaneState};
use crate::files::Files;
use crate::format::Position;
use crate::supply::Bell;

/// The disk did not take what was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk did not take the record")]
pub struct NotDurable;

/// How far a lane is durable. The lock is between a worker and the thread that syncs, which holds
/// it for a few instructions.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    position: AtomicU64,
    /// Everything between `position` before and after the last failure.
    lost: AtomicU64,
    failed: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    /// There only with durability `disk`.
    bell: OnceLock<Arc<Bell>>,
}

impl Durable {
    /// Makes it durability `disk`: `bell` wakes the thread that syncs.
    pub(crate) fn sync_by(&self, bell: Arc<Bell>) {
        let _ = self.bell.set(bell);
    }

    pub(crate) fn poll(&self, position: Position, waker: &Waker) -> Poll<Result<(), NotDurable>> {
        let Some(bell) = self.bell.get() else { return Poll::Ready(Ok(())) };
        if let Some(done) = self.done(position) {
            return Poll::Ready(done);
        }
        let mut waiting = self.waiting();
        if let Some(done) = self.done(position) {
            return Poll::Ready(done);
        }
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        drop(waiting);
        bell.ring();
        Poll::Pending
    }

    fn done(&self, position: Position) -> Option<Result<(), NotDurable>> {
        let lost = self.failed.load(Ordering::Acquire)
            && position.to_bits() <= self.lost.load(Ordering::Acquire);
        if lost {
            return Some(Err(NotDurable));
        }
        (position.to_bits() <= self.position.load(Ordering::Acquire)).then_some(Ok(()))
    }

    pub(crate) fn position(&self) -> Position {
        Position::from_bits(self.position.load(Ordering::Acquire))
    }

    /// Whether anybody waits.
    pub(crate) fn wanted(&self) -> bool {
        !self.waiting().is_empty()
    }

    /// Says how syncing up to `position` went, and wakes everybody who waits.
    pub(crate) fn synced(&self, position: Position, went_well: bool) {
        if !went_well {
            self.lost.store(position.to_bits(), Ordering::Release);
            self.failed.store(true, Ordering::Release);
        }
        self.position.store(position.to_bits(), Ordering::Release);
        let waiting = std::mem::take(&mut *self.waiting());
        for waker in waiting {
            waker.wake();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Syncs every lane that somebody waits for, once; false if nobody does.
    pub(crate) fn sync(&self) -> bool {
        let mut worked = false;
        for LaneState { files, shared, .. } in &self.lanes {
            if !shared.durable.wanted() {
                continue;
            }
            worked = true;
            let (from, end) = (shared.durable.position(), shared.end());
            let synced = sync_files(files, from, end);
            if synced.is_err() {
                self.errors.fetch_add(1, Ordering::Relaxed);
                shared.abandon.store(true, Ordering::Release);
            }
            shared.durable.synced(end, synced.is_ok());
        }
        worked
    }
}

fn sync_files(files: &Files, from: Position, end: Position) -> io::Result<()> {
    files.faults().check("sync")?;
    for number in from.segment()..=end.segment() {
        match File::open(files.segment(number)) {
            Ok(file) => file.sync_data()?,
            // Sealed, and therefore durable; or not begun yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let known = from.segment() == end.segment() && from.offset() > 0;
    if known { Ok(()) } else { files.sync_folder() }
}
