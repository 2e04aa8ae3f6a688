//! What the machine did to the thread of a loop: waits for a core, and steps of the clock.

use rustix::time::ClockId;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// Attempts to read both clocks without an interruption in between.
const ATTEMPTS: usize = 5;
/// Longest interruption between two readings of the same pair of clocks, in nanoseconds.
const MAX_BETWEEN: i128 = 1_000_000;

/// Times that a thread waited for a core although it could have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// Nanoseconds of waiting.
    pub(super) nanos: u64,
    /// Number of times that the thread got a core.
    pub(super) count: u64,
}

/// Waits of a thread: the second and third number of `/proc/thread-self/schedstat`
/// (Documentation/scheduler/sched-stats.rst).
pub(super) struct RunQueue {
    /// `None` if the kernel has no such statistics.
    file: Option<File>,
    before: Waits,
}

impl RunQueue {
    /// Starts with the calling thread.
    pub(super) fn new() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let before = file.as_ref().and_then(read).unwrap_or_default();
        Self { file, before }
    }

    /// Waits since the last call.
    pub(super) fn waits(&mut self) -> Waits {
        let Some(now) = self.file.as_ref().and_then(read) else { return Waits::default() };
        let before = std::mem::replace(&mut self.before, now);
        Waits {
            nanos: now.nanos.saturating_sub(before.nanos),
            count: now.count.saturating_sub(before.count),
        }
    }
}

fn read(file: &File) -> Option<Waits> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let mut numbers = text.split_ascii_whitespace().skip(1).map(str::parse);
    Some(Waits { nanos: numbers.next()?.ok()?, count: numbers.next()?.ok()? })
}

/// The wall clock beside the monotonic clock. Both are slewed alike, so that their difference
/// changes only if the wall clock is set, or if the machine was suspended.
pub(super) struct WallClock {
    offset: Option<i128>,
}

impl WallClock {
    pub(super) fn new() -> Self {
        Self { offset: offset(clock) }
    }

    /// Size of the steps since the last call, in nanoseconds.
    pub(super) fn step(&mut self) -> u64 {
        self.step_to(offset(clock))
    }

    fn step_to(&mut self, now: Option<i128>) -> u64 {
        let (Some(now), Some(before)) = (now, self.offset) else {
            self.offset = self.offset.or(now);
            return 0;
        };
        self.offset = Some(now);
        u64::try_from((now - before).abs()).unwrap_or(u64::MAX)
    }
}

/// The wall clock minus the monotonic clock; `None` if the thread was interrupted each time.
fn offset(clock: impl Fn(ClockId) -> i128) -> Option<i128> {
    (0..ATTEMPTS).find_map(|_| {
        let before = clock(ClockId::Monotonic);
        let wall = clock(ClockId::Realtime);
        let after = clock(ClockId::Monotonic);
        (after - before <= MAX_BETWEEN).then_some(wall - (before + after) / 2)
    })
}

/// Nanoseconds since the start of the process, or of the wall clock since 1970. The standard library asks that of C,
/// for which tests can set the clock.
fn clock(id: ClockId) -> i128 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    match id {
        ClockId::Realtime => match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => nanos(since),
            Err(before) => -nanos(before.duration()),
        },
        _ => nanos(START.elapsed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_thread_that_shares_its_core_waits_for_it() {
        let busy = |length: Duration| {
            let mut queue = RunQueue::new();
            let end = Instant::now() + length;
            while Instant::now() < end {
                std::hint::black_box(0);
            }
            Duration::from_nanos(queue.waits().nanos)
        };
        // More threads than cores: one of them waits at least for a third of the time.
        let threads = 3 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let waits: Vec<Duration> = std::thread::scope(|scope| {
            let one = || scope.spawn(|| busy(Duration::from_millis(300)));
            let all: Vec<_> = (0..threads).map(|_| one()).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let most = waits.iter().max().unwrap();
        assert!(*most >= Duration::from_millis(100), "{waits:?}");
    }

    #[test]
    fn a_step_of_the_clock_is_seen_once_and_its_direction_does_not_matter() {
        let mut clock = WallClock { offset: Some(1_000) };
        assert_eq!(clock.step_to(Some(1_000)), 0);
        assert_eq!(clock.step_to(Some(5_000)), 4_000);
        assert_eq!(clock.step_to(Some(4_500)), 500);
        assert_eq!(clock.step_to(None), 0, "unknown");
        assert_eq!(clock.step_to(Some(4_500)), 0);
    }

    #[test]
    fn an_interruption_between_the_clocks_is_no_step() {
        let time = Cell::new(0);
        let interrupted = |id| {
            time.set(time.get() + 2 * MAX_BETWEEN);
            time.get() + if id == ClockId::Realtime { 50 } else { 0 }
        };
        assert_eq!(offset(interrupted), None);
        assert_eq!(offset(|id| if id == ClockId::Realtime { 50 } else { 0 }), Some(50));
    }
}
