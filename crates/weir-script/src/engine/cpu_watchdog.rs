//! The limit of a call's uninterrupted CPU time.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// Checked by QuickJS every 10,000 branches and calls (and backtracking steps of a regular
/// expression): often enough for a limit of milliseconds, and so rarely that a short call never
/// reads the clock.
#[derive(Debug, Default)]
pub(super) struct CpuWatchdog {
    limit: Cell<Duration>,
    /// CPU time of the thread at the first check of this job.
    started: Cell<Option<Duration>>,
    stopped: Cell<bool>,
    always: Cell<bool>,
}

impl CpuWatchdog {
    /// Starts a job.
    pub(super) fn start(&self, limit: Duration) {
        self.limit.set(limit);
        self.started.set(None);
        self.stopped.set(false);
    }

    /// Whether the job has exceeded the limit.
    pub(super) fn is_exceeded(&self) -> bool {
        if self.always.get() {
            return true;
        }
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let now = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
        match self.started.get() {
            None => self.started.set(Some(now)),
            Some(started) => {
                self.stopped
                    .set(self.stopped.get() || now.saturating_sub(started) > self.limit.get());
            }
        }
        self.stopped.get()
    }

    /// Whether the job was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Stops every further job at once.
    pub(super) fn stop_always(&self, on: bool) {
        self.always.set(on);
    }
}
