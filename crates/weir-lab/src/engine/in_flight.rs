//! Samples in flight.

use super::Level;
use super::closed::UserGroup;
use super::event_loop::Loop;
use crate::program::Label;

/// Counts a sample in flight, and whether it was interrupted.
pub(super) struct InFlight<'l> {
    events: &'l Loop,
    /// The end of the load leaves requests time.
    has_grace: bool,
    ended: bool,
    /// Counts as a started sample if it is interrupted.
    starts: Option<Label>,
}

impl<'l> InFlight<'l> {
    pub(super) fn new(events: &'l Loop, group: &UserGroup) -> Self {
        events.in_flight.set(events.in_flight.get() + 1);
        Self { events, has_grace: !group.grace.is_zero(), ended: false, starts: None }
    }

    /// A sample of this label that starts only with its result, but also if it is interrupted.
    pub(super) fn starts(mut self, label: Label) -> Self {
        self.starts = Some(label);
        self
    }

    /// The request has its result.
    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.events.in_flight.set(self.events.in_flight.get() - 1);
        if self.ended {
            return;
        }
        let Ok(mut recorder) = self.events.recorder.try_borrow_mut() else { return };
        if let Some(label) = self.starts {
            recorder.start_sample(label);
        }
        // A stop that aborts requests at once says nothing about the server.
        if self.has_grace && self.events.level.get() != Level::StopNow {
            recorder.interrupted();
        }
    }
}
