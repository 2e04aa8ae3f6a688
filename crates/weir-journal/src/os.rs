//! What the operating system does for the journal: mapped files, thread scheduling, waking threads,
//! replacing files atomically, the clock.

pub(crate) mod atomic_file;
pub(crate) mod mapping;
pub(crate) mod schedule;
pub(crate) mod thread_waker;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
