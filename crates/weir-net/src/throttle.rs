//! Messages for the operator about frequent events, at a limited rate: each with the number of
//! events since the one before and details of the last.

use std::time::{Duration, Instant};

/// Shortest time between two messages of one worker.
pub const PAUSE: Duration = Duration::from_secs(10);

/// Events since the last message.
#[derive(Debug)]
pub struct Throttle<T> {
    count: u64,
    last: Option<T>,
    /// When the last message was due.
    reported: Option<Instant>,
}

impl<T> Default for Throttle<T> {
    fn default() -> Self {
        Self { count: 0, last: None, reported: None }
    }
}

impl<T> Throttle<T> {
    /// Adds events; the last of them is described.
    pub fn add(&mut self, count: u64, last: T) {
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.last = Some(last);
        }
    }

    /// Number of events and the last description, if a message is due.
    pub fn due(&mut self, now: Instant) -> Option<(u64, T)> {
        if self.reported.is_some_and(|at| now.saturating_duration_since(at) < PAUSE) {
            return None;
        }
        let last = self.last.take()?;
        self.reported = Some(now);
        Some((std::mem::take(&mut self.count), last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_due_when_something_has_happened_and_a_pause_is_over() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.due(now), None);
        throttle.add(0, "nothing");
        assert_eq!(throttle.due(now), None);
        throttle.add(2, "a");
        throttle.add(1, "b");
        assert_eq!(throttle.due(now), Some((3, "b")));
        throttle.add(1, "c");
        assert_eq!(throttle.due(now + PAUSE / 2), None);
        assert_eq!(throttle.due(now + PAUSE), Some((1, "c")));
        assert_eq!(throttle.due(now + PAUSE * 3), None);
    }
}
