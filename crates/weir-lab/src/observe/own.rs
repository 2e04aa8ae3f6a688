//! CPU of the Lab itself: all of its threads, and helpers that it has started for scripts.

use super::Usage;
use crate::results::ServerRow;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// This process and its helpers. Servers and other generators, which are also its child processes, are not part of
/// it.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Ids of helpers.
    pub(super) helpers: Vec<i32>,
    before: Option<(Instant, Duration)>,
}

impl Own {
    /// Takes a sample. CPU counts from the previous one; the first has none.
    pub(super) fn sample(&mut self, now: Instant) -> ServerRow {
        let cpu = process_cpu() + Usage::of(&self.helpers).cpu;
        let since = |(then, before): (Instant, Duration)| {
            let seconds = now.duration_since(then).as_secs_f64();
            (seconds > 0.0).then(|| cpu.saturating_sub(before).as_secs_f64() / seconds)
        };
        let row = ServerRow { cpu: self.before.and_then(since), ..ServerRow::default() };
        self.before = Some((now, cpu));
        row
    }
}

/// CPU time of all threads of this process up to now.
pub(crate) fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_of_the_lab_counts() {
        let start = Instant::now();
        let mut own = Own::default();
        assert_eq!(own.sample(start).cpu, None);
        let busy = move || {
            while start.elapsed() < Duration::from_millis(200) {
                std::hint::black_box(0);
            }
        };
        std::thread::spawn(busy).join().unwrap();
        assert!(own.sample(Instant::now()).cpu.unwrap() > 0.05);
    }
}
