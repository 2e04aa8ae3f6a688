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

/// A time in microseconds since 1970 as RFC 3339 writes it, in UTC.
#[must_use]
pub fn rfc3339(us: u64) -> String {
    let time = i64::try_from(us).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    time.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
