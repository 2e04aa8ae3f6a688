//! Durations of the stages of a request, as far as they are measured.

use std::time::{Duration, Instant};
use weir_model::stage;

/// Most durations of one request: every stage once, except queue and upstream.
const MAX_DURATIONS: usize = 10;

/// Durations in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    list: [(u8, u32); MAX_DURATIONS],
    count: u8,
    /// End of the last measured stage.
    mark: Option<Instant>,
    /// When the head of the response of an upstream arrived.
    responded: Option<Instant>,
}

impl StageTimes {
    /// A stage ended at `now`; it started at the end of the one before, or at `start`.
    pub fn ended(&mut self, code: u8, start: Instant, now: Instant) {
        let started = self.mark.replace(now).unwrap_or(start);
        self.add(code, now.saturating_duration_since(started));
    }

    /// End of the last measured stage.
    pub fn mark(&self) -> Option<Instant> {
        self.mark
    }

    /// The head of the response of an upstream arrived, to a request sent at `called`.
    pub fn responded(&mut self, called: Instant, now: Instant) {
        self.add(stage::FIRST_BYTE, now.saturating_duration_since(called));
        self.mark = Some(now);
        self.responded = Some(now);
    }

    /// Adds the duration of a stage.
    pub fn add(&mut self, code: u8, duration: Duration) {
        if let Some(slot) = self.list.get_mut(usize::from(self.count)) {
            *slot = (code, duration.as_micros().try_into().unwrap_or(u32::MAX));
            self.count += 1;
        }
    }

    /// All durations, with those that end now: response and total.
    pub fn finish(&mut self, now: Instant, total: Duration) -> &[(u8, u32)] {
        if let Some(responded) = self.responded {
            self.add(stage::ANSWER, now.saturating_duration_since(responded));
        }
        self.add(stage::TOTAL, total);
        &self.list[..usize::from(self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_begins_where_the_last_one_ended() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut stages = StageTimes::default();
        stages.ended(stage::AUTH, start, at(5));
        stages.ended(stage::LIMIT, start, at(7));
        stages.responded(at(10), at(30));
        let all = stages.finish(at(100), Duration::from_micros(100));
        let expected = [
            (stage::AUTH, 5),
            (stage::LIMIT, 2),
            (stage::FIRST_BYTE, 20),
            (stage::ANSWER, 70),
            (stage::TOTAL, 100),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn more_than_there_are_stages_is_left_out() {
        let mut stages = StageTimes::default();
        (0..20).for_each(|code| stages.add(code, Duration::MAX));
        assert_eq!(stages.finish(Instant::now(), Duration::ZERO).len(), MAX_DURATIONS);
    }
}
