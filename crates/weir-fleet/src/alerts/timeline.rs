//! When an alert fires: its windows, minute by minute.

use super::MINUTE;
use weir_events::alert::fires;
use weir_model::events::Alert;

/// Whether an alert fires with the window that ends at `until`, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) until: u64,
    pub(super) firing: bool,
}

/// The window with which an alert starts to fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Minute {
    /// Its end, in seconds since 1970.
    pub(super) until: u64,
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// The end of the first window with which the alert does not fire any more, or that follows the last
    /// one.
    pub(super) ended: u64,
}

/// Evaluates the windows of an alert in order.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    alert: &'a Alert,
    state: State,
    /// Start of each minute with calls; calls and errors of all before.
    sums: Vec<(u64, u64, u64)>,
    starts: Vec<Minute>,
}

impl<'a> Timeline<'a> {
    /// `counts` are the start, the calls and the errors of minutes, in order.
    pub(super) fn new(alert: &'a Alert, state: State, counts: &[(u64, u64, u64)]) -> Self {
        let (mut calls, mut errors) = (0, 0);
        let mut sums = Vec::with_capacity(counts.len() + 1);
        for (start, more_calls, more_errors) in counts {
            sums.push((*start, calls, errors));
            calls += more_calls;
            errors += more_errors;
        }
        sums.push((u64::MAX, calls, errors));
        Self { alert, state, sums, starts: Vec::new() }
    }

    /// Evaluates the windows until `end`. Returns the state with the last one that ends at `complete` or
    /// before.
    pub(super) fn run(&mut self, end: u64, complete: u64) -> State {
        let mut at_complete = self.state;
        while self.state.until + MINUTE <= end {
            let until = self.state.until + MINUTE;
            let from = self.before(until.saturating_sub(self.alert.over.as_secs()));
            let to = self.before(until);
            let (calls, errors) = (to.0 - from.0, to.1 - from.1);
            let firing = fires(&self.alert.rule, calls, errors);
            if firing && !self.state.firing {
                self.starts.push(Minute { until, calls, errors, ended: until });
            }
            if firing && let Some(last) = self.starts.last_mut() {
                last.ended = until + MINUTE;
            }
            self.state = State { until, firing };
            if until <= complete {
                at_complete = self.state;
            }
        }
        at_complete
    }

    /// Calls and errors of the minutes that start before a time.
    fn before(&self, time: u64) -> (u64, u64) {
        let index = self.sums.partition_point(|(start, ..)| *start < time);
        self.sums.get(index).map_or((0, 0), |(_, calls, errors)| (*calls, *errors))
    }

    /// The state with the last window.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The windows with which the alert starts to fire.
    pub(super) fn starts(&self) -> impl Iterator<Item = Minute> + '_ {
        self.starts.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_model::UpstreamId;
    use weir_model::events::{AlertRule, Sink};

    fn alert(above: u64, minutes: u64) -> Alert {
        Alert {
            name: "busy".to_owned(),
            rule: AlertRule::Calls { above },
            over: Duration::from_secs(minutes * MINUTE),
            apis: Vec::new(),
            consumers: Vec::new(),
            sink: Sink { upstream: UpstreamId(0), name: "hooks".to_owned(), path: "/".to_owned() },
        }
    }

    /// The first and the first following window of each time in which it fires, in minutes.
    fn firing(alert: &Alert, state: State, counts: &[(u64, u64, u64)]) -> (Vec<(u64, u64)>, State) {
        let counts: Vec<_> = counts.iter().map(|(m, c, e)| (m * MINUTE, *c, *e)).collect();
        let mut timeline = Timeline::new(alert, state, &counts);
        let settled = timeline.run(10 * MINUTE, 4 * MINUTE + 30);
        let starts = timeline.starts().map(|m| (m.until / MINUTE, m.ended / MINUTE)).collect();
        (starts, settled)
    }

    #[test]
    fn each_time_in_which_an_alert_fires_has_one_start() {
        let alert = alert(10, 2);
        let counts = [(1, 6, 0), (2, 6, 0), (3, 6, 0), (6, 11, 0)];
        let (starts, settled) = firing(&alert, State::default(), &counts);
        // The windows that end with minutes 3 and 4, and with 7 and 8.
        assert_eq!(starts, [(3, 5), (7, 9)]);
        assert_eq!(settled, State { until: 4 * MINUTE, firing: true });
        // A time that has begun before has no start.
        let before = State { until: 3 * MINUTE, firing: true };
        assert_eq!(firing(&alert, before, &counts).0, [(7, 9)]);
    }

    #[test]
    fn nothing_is_settled_before_all_have_reported() {
        let alert = alert(10, 1);
        let state = State { until: 6 * MINUTE, firing: false };
        let (starts, settled) = firing(&alert, state, &[(9, 11, 0)]);
        assert_eq!((starts, settled), (vec![(10, 11)], state));
    }
}
