//! Samples at the ends of the seconds of a load.

use super::{MIN_INTERVAL, Observer};
use crate::results::ServerRow;
use std::time::Instant;

/// An observer whose rows are on the time axis of a load.
#[derive(Debug)]
pub struct Seconds {
    observer: Observer,
    start: Instant,
    before: Option<Instant>,
}

impl Seconds {
    /// Takes a first sample now. Times of rows count from `start`, which is about now.
    #[must_use]
    pub fn start(mut observer: Observer, start: Instant) -> Self {
        // CPU figures are differences: the first sample has none.
        observer.sample(0.0);
        Self { observer, start, before: None }
    }

    /// Takes a sample at the end of a second of the load. The last second is a part of one: there is no row if
    /// it is too short.
    pub fn sample(&mut self) -> Vec<ServerRow> {
        let now = Instant::now();
        if self.before.is_some_and(|before| now.duration_since(before) < MIN_INTERVAL) {
            return Vec::new();
        }
        self.before = Some(now);
        self.observer.sample(now.duration_since(self.start).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rows_have_the_time_of_their_sample_and_a_short_end_has_none() {
        let start = Instant::now();
        let mut seconds = Seconds::start(Observer::new(), start);
        std::thread::sleep(Duration::from_millis(20));
        let rows = seconds.sample();
        let passed = start.elapsed().as_secs_f64();
        let is_host = |row: &&ServerRow| row.subject == "host";
        let time = rows.iter().find(is_host).unwrap().time;
        assert!(time >= 0.02 && time <= passed, "{time} of {passed}: not a whole second");
        let rows = seconds.sample();
        let is_late = start.elapsed().as_secs_f64() - time >= MIN_INTERVAL.as_secs_f64();
        assert!(rows.is_empty() || is_late, "{rows:?}");
    }
}
