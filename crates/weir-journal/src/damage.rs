//! What of a lane could not be read, each stretch counted once however often it is met.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most stretches that are told apart; others are not counted.
const STRETCHES: usize = 65_536;

/// The damage met since the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    stretches: Mutex<BTreeSet<(u32, &'static str, u64)>>,
    bytes: AtomicU64,
}

impl Damages {
    /// Notes `bytes` of a segment from `place` on in its file of this kind.
    pub(crate) fn note(&self, segment: u32, kind: &'static str, place: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut stretches = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        if stretches.len() < STRETCHES && stretches.insert((segment, kind, place)) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes in all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
