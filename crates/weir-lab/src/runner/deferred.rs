//! Deferred work of servers: what they still do after a load.

use super::server::RunningServer;
use super::usage::Reading;
use super::{DRAIN_TIMEOUT, Runner, Step, idle};
use crate::measure::{DrainedUsage, Method};
use crate::scenario::Idle;

impl Runner<'_> {
    /// Waits until the last loaded server and the next one are idle. Returns `true` after a
    /// timeout.
    pub(super) fn drain(&mut self, next: &RunningServer) -> bool {
        let before = self.last_loaded.take();
        let first = before.is_none();
        let mut undrained = false;
        for live in before.iter().chain([next]) {
            // A server without previous load is idle.
            if first && matches!(self.scenario.idle, Idle::Time(_)) {
                continue;
            }
            let metrics = self.scenario.observe.metrics.as_deref();
            let wait = idle::Wait::new(&self.scenario.idle, live, metrics);
            if wait.is_long() {
                (self.watch)(&Step::Activity("waiting until the server is idle"));
            }
            undrained |= wait.until_idle(DRAIN_TIMEOUT, self.control).is_none();
            if matches!(self.scenario.idle, Idle::Time(_)) {
                break;
            }
        }
        undrained
    }

    /// Reads the clocks of a server and of everything around it.
    pub(super) fn reading(&self, live: &RunningServer) -> Reading {
        Reading::of(live, self.backends.pid(), self.scenario.observe.thread.as_deref())
    }

    /// Whether a round includes the deferred work of its server.
    pub(super) fn has_deferred(&self) -> bool {
        let is_paired = matches!(self.scenario.method, Method::Paired(_));
        is_paired && !matches!(self.scenario.idle, Idle::Time(_))
    }

    /// With rounds of all cases and an idle condition, waits until a server has done the deferred work
    /// of its round, which began at `before`. Returns the time and CPU time until then, and whether the
    /// server was idle before the timeout.
    pub(super) fn deferred(
        &mut self,
        live: &RunningServer,
        before: &Reading,
    ) -> (Option<DrainedUsage>, bool) {
        if !self.has_deferred() {
            return (None, true);
        }
        (self.watch)(&Step::Activity("waiting until the server is idle"));
        let metrics = self.scenario.observe.metrics.as_deref();
        let wait = idle::Wait::new(&self.scenario.idle, live, metrics);
        if matches!(wait, idle::Wait::Time(_)) {
            // It is unknown when the server has done its work.
            return (None, true);
        }
        match wait.until_idle(DRAIN_TIMEOUT, self.control) {
            Some(time) => (before.drained(&self.reading(live), time), true),
            None => (None, self.control.is_stopped()),
        }
    }
}
