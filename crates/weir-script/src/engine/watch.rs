//! How long a call has used the CPU without a pause.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// Asked by the engine every 10,000 branches and calls (and steps back of a regular expression):
/// often enough for a limit of milliseconds, and so seldom that a call which is over soon never
/// asks the clock.
#[derive(Debug, Default)]
pub(super) struct Watch {
    limit: Cell<Duration>,
    /// CPU time of the thread at the first question of this turn.
    started: Cell<Option<Duration>>,
    stopped: Cell<bool>,
    everything: Cell<bool>,
}

impl Watch {
    /// A turn begins.
    pub(super) fn arm(&self, limit: Duration) {
        self.limit.set(limit);
        self.started.set(None);
        self.stopped.set(false);
    }

    /// Whether the turn has taken longer than it may.
    pub(super) fn is_over(&self) -> bool {
        if self.everything.get() {
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

    /// Whether the turn was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Stops whatever runs next, however short.
    pub(super) fn stop_everything(&self, on: bool) {
        self.everything.set(on);
    }
}
