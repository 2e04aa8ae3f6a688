//! Readings of the clock, shared within one turn of the event loop of a worker.
//!
//! A limit in seconds needs no separate reading: an earlier one of the same turn is exact enough.
//! [`Wall`] counts how often the wall clock was set back.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Uses of a reading before the clock is read again: a turn may be long.
const USES: u8 = 32;

thread_local! {
    static RECENT: Cell<Option<(Instant, u8)>> = const { Cell::new(None) };
}

/// The time.
pub fn now() -> Instant {
    let now = Instant::now();
    RECENT.set(Some((now, USES)));
    now
}

/// The time of an earlier reading in this turn.
pub fn recent() -> Instant {
    match RECENT.get() {
        Some((then, uses @ 1..)) => {
            RECENT.set(Some((then, uses - 1)));
            then
        }
        _ => now(),
    }
}

/// Starts a turn: the worker may have slept before it.
pub fn turn() {
    RECENT.set(None);
}

/// Smallest change of the wall clock against the monotonic one that counts as a step.
const STEP_US: i64 = 10_000;
/// Maximum time between compared readings of both clocks: the thread may be preempted in between.
const MAX_READ_GAP: Duration = Duration::from_millis(1);

/// The wall clock, for all workers.
#[derive(Debug)]
pub struct Wall {
    started: Instant,
    /// Wall clock less time since `started`, in µs: only a step changes it.
    ahead_us: AtomicI64,
    backwards: AtomicU64,
}

impl Wall {
    /// Starts with the current time.
    pub fn start() -> Self {
        let ahead_us = AtomicI64::new(micros(unix_time()));
        Self { started: Instant::now(), ahead_us, backwards: AtomicU64::new(0) }
    }

    /// Time since 1970.
    pub fn read(&self) -> Duration {
        // Read before the clock: the result of another worker meanwhile is newer.
        let known = self.ahead_us.load(Ordering::Acquire);
        let before = self.started.elapsed();
        let unix = unix_time();
        if self.started.elapsed() - before <= MAX_READ_GAP {
            self.compare(known, micros(unix) - micros(before));
        }
        unix
    }

    /// Number of times the wall clock was set back.
    pub fn backwards(&self) -> u64 {
        self.backwards.load(Ordering::Relaxed)
    }

    fn compare(&self, known: i64, ahead: i64) {
        let stepped = (ahead - known).abs() > STEP_US;
        // The first worker that sees a step counts it.
        let first = stepped
            && self
                .ahead_us
                .compare_exchange(known, ahead, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if first && ahead < known {
            self.backwards.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The wall clock, for one worker: read once a second, as it may be set meanwhile.
#[derive(Debug)]
pub struct WallReader {
    wall: Arc<Wall>,
    /// One moment on both clocks, from which later times are computed.
    last: Cell<(Instant, Duration)>,
}

impl WallReader {
    /// Starts with the current time.
    pub fn new(wall: &Arc<Wall>) -> Self {
        Self { wall: Arc::clone(wall), last: Cell::new((Instant::now(), wall.read())) }
    }

    /// Time since 1970 at `now`.
    pub fn unix_time(&self, now: Instant) -> Duration {
        let (then, unix) = self.last.get();
        let since = now.saturating_duration_since(then);
        if since < Duration::from_secs(1) {
            return unix + since;
        }
        let unix = self.wall.read();
        self.last.set((now, unix));
        unix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_counted_once_and_nothing_else_is() {
        let wall = Wall::start();
        let start = wall.ahead_us.load(Ordering::Relaxed);
        let hour = 3_600_000_000;
        wall.compare(start, start - STEP_US / 2);
        wall.compare(start, start + hour);
        assert_eq!(wall.backwards(), 0, "forward, or hardly at all");
        wall.compare(start + hour, start);
        // Another worker that had started its reading before.
        wall.compare(start + hour, start);
        wall.compare(start, start);
        assert_eq!(wall.backwards(), 1);
        wall.compare(start, start - hour);
        assert_eq!(wall.backwards(), 2);
    }

    #[test]
    fn a_reading_lasts_for_a_turn_and_not_too_long() {
        let first = now();
        assert_eq!(recent(), first);
        turn();
        assert!(recent() > first);
        let second = recent();
        let uses = std::iter::repeat_with(recent).take_while(|&then| then == second).count();
        assert!(uses < usize::from(USES), "{uses}");
    }
}
