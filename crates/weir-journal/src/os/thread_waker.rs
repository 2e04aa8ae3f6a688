//! Wakes a thread of the journal before its interval has passed, and ends it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Wakes one thread, or stops it.
#[derive(Debug, Default)]
pub(crate) struct ThreadWaker {
    thread: OnceLock<Thread>,
    stopped: AtomicBool,
}

impl ThreadWaker {
    /// Makes the calling thread the one that is woken.
    pub(crate) fn register(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}
