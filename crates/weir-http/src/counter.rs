//! A counter that one worker changes and every thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only one thread changes, so that changing it takes no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; from its own thread only.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Takes from it; from its own thread only.
    pub fn sub(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(count), Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
