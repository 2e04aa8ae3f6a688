//! How far a lane is durable, and the tasks that wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::format::Position;
use crate::os::thread_waker::ThreadWaker;

/// The disk failed to store what was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be written to disk")]
pub struct NotDurable;

/// How far a lane is durable. A worker and the syncing thread share the lock, which is held for a
/// few instructions.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    position: AtomicU64,
    /// Value of `position` after the last failed sync: everything up to it may be lost.
    lost: AtomicU64,
    failed: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    /// Set with durability `disk` only.
    sync_thread: OnceLock<Arc<ThreadWaker>>,
}

impl Durable {
    /// Switches to durability `disk`: `sync_thread` is the thread that syncs.
    pub(crate) fn enable_sync(&self, sync_thread: Arc<ThreadWaker>) {
        let _ = self.sync_thread.set(sync_thread);
    }

    pub(crate) fn poll(&self, position: Position, waker: &Waker) -> Poll<Result<(), NotDurable>> {
        let Some(sync_thread) = self.sync_thread.get() else { return Poll::Ready(Ok(())) };
        if let Some(result) = self.result(position) {
            return Poll::Ready(result);
        }
        let mut waiting = self.waiting.lock();
        if let Some(result) = self.result(position) {
            return Poll::Ready(result);
        }
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        drop(waiting);
        sync_thread.wake();
        Poll::Pending
    }

    fn result(&self, position: Position) -> Option<Result<(), NotDurable>> {
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

    /// Whether a task waits.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Stores the result of syncing up to `position`, and wakes all waiting tasks.
    pub(crate) fn set_synced(&self, position: Position, success: bool) {
        if !success {
            self.lost.store(position.to_bits(), Ordering::Release);
            self.failed.store(true, Ordering::Release);
        }
        self.position.store(position.to_bits(), Ordering::Release);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for waker in waiting {
            waker.wake();
        }
    }
}
