//! Samples in flight.

use super::Level;
use super::closed::UserGroup;
use super::event_loop::Loop;

/// Counts a sample in flight, and whether it was interrupted.
pub(super) struct InFlight<'l> {
    events: &'l Loop,
    /// The end of the load leaves requests time.
    has_grace: bool,
    ended: bool,
}

impl<'l> InFlight<'l> {
    pub(super) fn new(events: &'l Loop, group: &UserGroup) -> Self {
        events.in_flight.set(events.in_flight.get() + 1);
        Self { events, has_grace: !group.grace.is_zero(), ended: false }
    }

    /// The request has its result.
    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.events.in_flight.set(self.events.in_flight.get() - 1);
        // A stop that aborts requests at once says nothing about the server.
        if !self.ended
            && self.has_grace
            && self.events.level.get() != Level::StopNow
            && let Ok(mut recorder) = self.events.recorder.try_borrow_mut()
        {
            recorder.interrupted();
        }
    }
}
