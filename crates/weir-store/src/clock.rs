//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    u64::try_from(now().as_micros()).unwrap_or(u64::MAX)
}
