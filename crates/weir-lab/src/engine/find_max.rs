//! `find-max` and `steps`: the highest load at which the server meets the objective.
//!
//! ```text
//! find-max:  climb (double) → bisect → again nearby, for the interval → confirm
//! steps:     climb (add) → the first step that misses the objective is the last
//! ```

mod capacity;
mod step;

pub use capacity::Capacity;
pub use step::{LoadStep, SearchedLoad, StepVerdict};

use crate::program::{ArrivalRate, Climb, Executor, FindMax, Searched, Stage, Users};
use crate::record::Interval;
use std::time::Duration;

/// A search is ended after this number of steps, and as many more for each repetition.
const MAX_STEPS: usize = 60;
/// A repeated search starts below the load of the first one by this share, and climbs by it.
const NEARBY: f64 = 0.1;
/// Steps of users with a shorter hold include their ramp-up time: a whole second may be missing without.
const MIN_HOLD_AFTER_RAMP: Duration = Duration::from_secs(2);

/// Chooses the next load. Pure, so that it is testable without a server.
pub(super) struct Search {
    settings: FindMax,
    /// Highest load that met the objective, lowest load that did not, in this search.
    highest_met: f64,
    lowest_missed: f64,
    /// Iterations per second, or users.
    load: f64,
    /// Loads that completed searches found.
    found: Vec<f64>,
    confirming: bool,
    steps: usize,
    done: bool,
}

impl Search {
    pub(super) fn new(settings: FindMax) -> Self {
        let load = settings.start.clamp(1.0, settings.max.max(1.0));
        Self {
            highest_met: 0.0,
            lowest_missed: f64::INFINITY,
            load: whole(settings.of, load),
            found: Vec::new(),
            confirming: false,
            steps: 0,
            done: false,
            settings,
        }
    }

    /// The next step; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Executor> {
        let settings = &self.settings;
        if self.done || self.steps >= MAX_STEPS * settings.repeats.max(1) as usize {
            return None;
        }
        self.steps += 1;
        let duration = if self.confirming { settings.confirm } else { settings.step_duration };
        Some(match settings.of {
            Searched::Rate => Executor::ArrivalRate(ArrivalRate {
                start: self.load,
                stages: vec![Stage { duration, target: self.load }],
                quantum: settings.quantum,
                max_in_flight: settings.max_in_flight,
                backlog: 0,
            }),
            Searched::Users => Executor::Users(Users {
                users: self.load as u32,
                ramp: settings.ramp,
                iterations: None,
                duration: Some(settings.ramp.saturating_add(duration)),
            }),
        })
    }

    /// Time from the start of a step that is not evaluated.
    pub(super) fn warm_up(&self) -> Duration {
        let settings = &self.settings;
        let counts = settings.of == Searched::Rate || settings.step_duration < MIN_HOLD_AFTER_RAMP;
        if counts { Duration::ZERO } else { settings.ramp }
    }

    /// Evaluates the samples of a step and chooses the next load.
    pub(super) fn evaluate(&mut self, part: &Interval) -> LoadStep {
        let all = part.all(&[]);
        let (samples, failed) = (all.samples(), all.failed());
        // Requests that the server never answered are no samples.
        let sent = samples + part.interrupted;
        let errors = (failed + part.interrupted) as f64 / sent.max(1) as f64;
        let at = |percentile: f64| all.response().value_at_quantile(percentile / 100.0);
        let limits = &self.settings.limits;
        let slow = limits.iter().any(|(p, limit)| Duration::from_nanos(at(*p)) > *limit);
        let verdict = if samples == 0 {
            StepVerdict::NoResponse
        } else if errors > self.settings.errors {
            StepVerdict::Errors
        } else if slow {
            StepVerdict::Slow
        } else if part.dropped > 0 {
            StepVerdict::Behind
        } else {
            StepVerdict::Met
        };
        let length = all.last_end.saturating_sub(all.first_start) as f64 / 1e9;
        let step = LoadStep {
            load: match self.settings.of {
                Searched::Rate => SearchedLoad::Rate(self.load),
                Searched::Users => SearchedLoad::Users(self.load as u32),
            },
            achieved: (samples - failed) as f64 / length.max(1e-9),
            errors,
            dropped: part.dropped,
            search: self.found.len() + 1,
            confirms: self.confirming,
            met: verdict == StepVerdict::Met,
            verdict,
        };
        self.judge(step.met);
        step
    }

    fn judge(&mut self, met: bool) {
        if self.confirming {
            // A load that was met for a short time may fail over a longer time: continue with a
            // lower one.
            let less = self.load * (1.0 - (2.0 * self.settings.precision).max(0.05));
            self.done = met || self.load <= 1.0;
            self.load = whole(self.settings.of, less.max(1.0));
            return;
        }
        if met {
            self.highest_met = self.load;
        } else {
            self.lowest_missed = self.load;
        }
        let at_most = met && self.load >= self.settings.max;
        match self.settings.climb {
            Climb::Add(step) => {
                self.done = !met || at_most;
                self.load = (self.load + step).min(self.settings.max);
            }
            // Nothing above the largest load is to be searched again, unless an earlier search found less.
            Climb::Double if at_most && self.found.is_empty() => self.confirm(self.load),
            Climb::Double if at_most => self.complete(self.load),
            Climb::Double => self.narrow(),
        }
    }

    /// The next load between those that met and missed the objective.
    fn narrow(&mut self) {
        let Self { highest_met, lowest_missed, .. } = *self;
        let growth = if self.found.is_empty() { 2.0 } else { 1.0 + NEARBY };
        let load = if lowest_missed <= 1.0 {
            self.done = true;
            return;
        } else if lowest_missed.is_infinite() {
            // A user more, at least.
            (highest_met * growth).max(highest_met + 1.0).min(self.settings.max)
        } else if highest_met == 0.0 {
            (lowest_missed / growth).max(1.0)
        } else if self.is_narrow() {
            return self.complete(highest_met);
        } else {
            highest_met.midpoint(lowest_missed)
        };
        self.load = whole(self.settings.of, load);
    }

    /// A search has found a load: it is repeated near that one, or the lowest of all is confirmed.
    fn complete(&mut self, load: f64) {
        self.found.push(load);
        if self.found.len() >= self.settings.repeats.max(1) as usize {
            let lowest = self.found.iter().copied().fold(f64::INFINITY, f64::min);
            return self.confirm(lowest);
        }
        (self.highest_met, self.lowest_missed) = (0.0, f64::INFINITY);
        self.load = whole(self.settings.of, (load * (1.0 - NEARBY)).max(1.0));
    }

    fn is_narrow(&self) -> bool {
        let least = if self.settings.of == Searched::Users { 1.0 } else { 0.0 };
        let precision = self.lowest_missed * self.settings.precision;
        self.lowest_missed - self.highest_met <= precision.max(least)
    }

    /// Confirms a load by a longer step.
    fn confirm(&mut self, load: f64) {
        self.load = load;
        self.confirming = true;
        self.done = self.settings.confirm.is_zero();
    }
}

/// Users are whole.
fn whole(of: Searched, load: f64) -> f64 {
    if of == Searched::Users { load.floor().max(1.0) } else { load }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Label;
    use crate::record::Tally;
    use crate::sample::ErrorKind;

    fn settings(start: f64) -> FindMax {
        FindMax {
            of: Searched::Rate,
            climb: Climb::Double,
            start,
            max: 1e7,
            repeats: 1,
            ramp: Duration::ZERO,
            errors: 0.0,
            limits: vec![(99.0, Duration::from_millis(500))],
            precision: 0.02,
            step_duration: Duration::from_secs(1),
            confirm: Duration::from_secs(60),
            quantum: Duration::from_millis(1),
            max_in_flight: 100,
        }
    }

    /// Searches a server that handles up to `knee`, which may differ between steps. Returns all steps.
    fn search_with(settings: FindMax, mut knee: impl FnMut(bool) -> f64) -> Vec<LoadStep> {
        let mut search = Search::new(settings);
        let mut steps = Vec::new();
        while let Some(executor) = search.next() {
            let (load, length) = match executor {
                Executor::ArrivalRate(rate) => (rate.start, rate.stages[0].duration),
                Executor::Users(users) => (f64::from(users.users), users.duration.unwrap()),
                other => panic!("{other:?}"),
            };
            let mut part = Interval::new(0, 1, true);
            let tally: &mut Tally = &mut part.labels[Label(0).0 as usize];
            tally.ok = 1000;
            if load > knee(length == Duration::from_secs(60)) {
                tally.errors[ErrorKind::Http503.index()] = 1;
            }
            steps.push(search.evaluate(&part));
        }
        steps
    }

    fn search(start: f64, knee: impl FnMut(bool) -> f64) -> Vec<LoadStep> {
        search_with(settings(start), knee)
    }

    #[test]
    fn the_knee_is_found_and_confirmed() {
        for (start, knee) in [(100.0, 5_000.0), (8_000.0, 777.0), (1_000.0, 1_000.0)] {
            let steps = search(start, |_| knee);
            let last = steps.last().unwrap();
            assert!(last.confirms && last.verdict == StepVerdict::Met, "{last:?}");
            assert!(
                last.load.value() <= knee && last.load.value() >= knee * 0.97,
                "{} for {knee}",
                last.load.value()
            );
            assert!(steps.len() < 25, "{}", steps.len());
        }
    }

    #[test]
    fn a_rate_that_fails_the_confirmation_is_rejected() {
        let steps = search(100.0, |confirms| if confirms { 700.0 } else { 1_000.0 });
        let last = steps.last().unwrap();
        assert!(
            last.verdict == StepVerdict::Met
                && last.load.value() <= 700.0
                && last.load.value() > 550.0,
            "{last:?}"
        );
    }

    #[test]
    fn interrupted_requests_miss_the_objective() {
        let evaluate = |interrupted| {
            let mut part = Interval::new(0, 1, true);
            (part.labels[0].ok, part.interrupted) = (1000, interrupted);
            let step = Search::new(settings(100.0)).evaluate(&part);
            (step.verdict, step.errors)
        };
        assert_eq!(evaluate(0), (StepVerdict::Met, 0.0));
        assert_eq!(evaluate(1000), (StepVerdict::Errors, 0.5));
    }

    #[test]
    fn a_server_without_responses_ends_the_search() {
        let steps = search(64.0, |_| 0.0);
        assert!(steps.len() <= 10 && steps.iter().all(|step| step.verdict != StepVerdict::Met));
    }

    fn users(start: f64, repeats: u32) -> FindMax {
        FindMax { of: Searched::Users, repeats, max: 10_000.0, ..settings(start) }
    }

    #[test]
    fn the_highest_number_of_users_is_exact_for_few_users() {
        for (start, knee) in [(10.0, 7.0), (1.0, 33.0), (100.0, 1.0), (10.0, 42.0)] {
            let steps = search_with(users(start, 3), |_| knee);
            let last = steps.last().unwrap();
            assert!(last.confirms && last.met, "{last:?}");
            assert_eq!(last.load, SearchedLoad::Users(knee as u32));
            assert!(steps.len() < 35, "{}", steps.len());
            assert!(steps.iter().any(|step| step.search == 3), "three searches");
        }
    }

    #[test]
    fn a_server_that_varies_has_a_wider_interval() {
        let mut random = fastrand::Rng::with_seed(3);
        let steps = search_with(users(50.0, 5), |_| 1000.0 * (0.9 + 0.2 * random.f64()));
        let varies = Capacity::of(&steps).expect("found");
        let steps = search_with(users(50.0, 5), |_| 1000.0);
        let steady = Capacity::of(&steps).expect("found");
        let width = |capacity: &Capacity| capacity.interval.map(|found| found.high - found.low);
        assert!(width(&varies) > width(&steady), "{varies:?} {steady:?}");
        assert!(steady.interval.is_some_and(|found| found.low <= 1000.0 && found.high >= 1000.0));
    }

    #[test]
    fn the_lowest_of_several_searches_counts_also_if_one_reaches_the_largest_load() {
        let settings = FindMax { max: 1_000.0, ..users(950.0, 3) };
        let mut steps = 0;
        // The first search finds less than the largest load, the others do not.
        let steps = search_with(settings, |_| {
            steps += 1;
            if steps <= 8 { 960.0 } else { 1_000.0 }
        });
        assert!(steps.iter().any(|step| step.met && step.load.value() == 1_000.0), "{steps:?}");
        assert!(steps.iter().any(|step| step.search == 3), "{steps:?}");
        let last = steps.last().unwrap();
        assert!(last.confirms && last.load.value() < 1_000.0, "{last:?}");
    }

    #[test]
    fn nothing_above_the_largest_load_is_offered() {
        let settings = FindMax { max: 300.0, ..users(50.0, 3) };
        let steps = search_with(settings, |_| f64::INFINITY);
        let loads: Vec<f64> = steps.iter().map(|step| step.load.value()).collect();
        assert_eq!(loads, [50.0, 100.0, 200.0, 300.0, 300.0]);
        let found = Capacity::of(&steps).expect("found");
        assert!(found.at_least && found.interval.is_none() && found.confirmed, "{found:?}");
    }

    #[test]
    fn steps_end_with_the_first_one_that_misses_the_objective() {
        let settings = FindMax { climb: Climb::Add(20.0), ..users(10.0, 1) };
        let steps = search_with(settings.clone(), |_| 75.0);
        let loads: Vec<f64> = steps.iter().map(|step| step.load.value()).collect();
        assert_eq!(loads, [10.0, 30.0, 50.0, 70.0, 90.0]);
        let found = Capacity::of(&steps).expect("found");
        assert_eq!((found.load, found.confirmed), (SearchedLoad::Users(70), false));
        assert_eq!(found.interval.map(|found| (found.low, found.high)), Some((70.0, 90.0)));
        assert_eq!(Capacity::of(&search_with(settings, |_| 5.0)), None);
    }

    #[test]
    fn users_have_their_ramp_before_the_step_unless_it_is_short() {
        let ramp = Duration::from_secs(3);
        let mut search = Search::new(FindMax { ramp, ..users(10.0, 1) });
        let Some(Executor::Users(step)) = search.next() else { panic!("users") };
        assert_eq!((step.ramp, step.duration), (ramp, Some(Duration::from_secs(4))));
        assert_eq!(search.warm_up(), Duration::ZERO, "a second would not be whole");
        search.settings.step_duration = Duration::from_secs(10);
        assert_eq!(search.warm_up(), ramp);
    }
}
