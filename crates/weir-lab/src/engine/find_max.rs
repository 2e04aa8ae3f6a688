//! `find-max`: the highest rate at which the server meets the objective.

use crate::program::{ArrivalRate, Executor, FindMax, Stage};
use crate::record::Interval;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A search without a result after this number of steps is ended.
const MAX_STEPS: usize = 60;

/// A rate step, as in `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateStep {
    /// Offered iterations per second.
    pub rate: f64,
    /// Successful samples per second.
    pub achieved: f64,
    /// Share of samples that failed, 0 to 1.
    pub errors: f64,
    /// Dropped iterations.
    pub dropped: u64,
    /// The longer step that confirms the found rate.
    pub confirms: bool,
    /// The objective was met.
    #[serde(rename = "kept")]
    pub met: bool,
    /// The verdict.
    pub verdict: StepVerdict,
}

/// Verdict on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
pub enum StepVerdict {
    /// The objective was met.
    #[serde(rename = "kept")]
    #[strum(serialize = "kept")]
    Met,
    /// Too many errors.
    #[serde(rename = "too many errors")]
    #[strum(serialize = "too many errors")]
    Errors,
    /// Too slow.
    #[serde(rename = "too slow")]
    #[strum(serialize = "too slow")]
    Slow,
    /// Iterations were dropped: the server fell behind.
    #[serde(rename = "fell behind")]
    #[strum(serialize = "fell behind")]
    Behind,
    /// No request got a response.
    #[serde(rename = "no response")]
    #[strum(serialize = "no response")]
    NoResponse,
}

impl std::fmt::Display for RateStep {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.0}/s: {}", self.rate, self.verdict)
    }
}

/// Chooses the next rate. Pure, so that it is testable without a server.
pub(super) struct Search {
    settings: FindMax,
    /// Highest rate that met the objective, lowest rate that did not.
    highest_met: f64,
    lowest_missed: f64,
    rate: f64,
    confirming: bool,
    steps: usize,
    done: bool,
}

impl Search {
    pub(super) fn new(settings: FindMax) -> Self {
        let rate = settings.start.max(1.0);
        Self {
            settings,
            highest_met: 0.0,
            lowest_missed: f64::INFINITY,
            rate,
            confirming: false,
            steps: 0,
            done: false,
        }
    }

    /// The next step; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Executor> {
        if self.done || self.steps >= MAX_STEPS {
            return None;
        }
        self.steps += 1;
        let duration =
            if self.confirming { self.settings.confirm } else { self.settings.step_duration };
        Some(Executor::ArrivalRate(ArrivalRate {
            start: self.rate,
            stages: vec![Stage { duration, target: self.rate }],
            quantum: self.settings.quantum,
            max_in_flight: self.settings.max_in_flight,
            backlog: 0,
        }))
    }

    /// Evaluates the samples of a step and chooses the next rate.
    pub(super) fn evaluate(&mut self, part: &Interval) -> RateStep {
        let all = part.all(&[]);
        let (samples, failed) = (all.samples(), all.failed());
        let errors = failed as f64 / samples.max(1) as f64;
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
        let step = RateStep {
            rate: self.rate,
            achieved: (samples - failed) as f64 / length.max(1e-9),
            errors,
            dropped: part.dropped,
            confirms: self.confirming,
            met: verdict == StepVerdict::Met,
            verdict,
        };
        self.judge(step.met);
        step
    }

    fn judge(&mut self, met: bool) {
        if self.confirming {
            // A rate that was met for a short time may fail over a longer time: continue with a
            // lower rate.
            self.done = met || self.rate < 1.0;
            self.rate *= 1.0 - (2.0 * self.settings.precision).max(0.05);
            return;
        }
        if met {
            self.highest_met = self.rate;
        } else {
            self.lowest_missed = self.rate;
        }
        if self.lowest_missed < 1.0 {
            self.done = true;
        } else if self.lowest_missed.is_infinite() {
            self.rate = self.highest_met * 2.0;
        } else if self.highest_met == 0.0 {
            self.rate = self.lowest_missed / 2.0;
        } else if self.lowest_missed - self.highest_met
            <= self.lowest_missed * self.settings.precision
        {
            self.confirming = true;
            self.rate = self.highest_met;
        } else {
            self.rate = self.highest_met.midpoint(self.lowest_missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Label;
    use crate::record::Tally;
    use crate::sample::ErrorKind;

    /// Searches a server that handles up to `knee` requests per second. Returns all steps.
    fn search(start: f64, knee: impl Fn(bool) -> f64) -> Vec<RateStep> {
        let mut search = Search::new(FindMax {
            start,
            errors: 0.0,
            limits: vec![(99.0, Duration::from_millis(500))],
            precision: 0.02,
            step_duration: Duration::from_secs(1),
            confirm: Duration::from_secs(60),
            quantum: Duration::from_millis(1),
            max_in_flight: 100,
        });
        let mut steps = Vec::new();
        while let Some(Executor::ArrivalRate(ArrivalRate { start, stages, .. })) = search.next() {
            let mut part = Interval::new(0, 1, true);
            let tally: &mut Tally = &mut part.labels[Label(0).0 as usize];
            let confirms = stages[0].duration == Duration::from_secs(60);
            tally.ok = 1000;
            if start > knee(confirms) {
                tally.errors[ErrorKind::Http503.index()] = 1;
            }
            steps.push(search.evaluate(&part));
        }
        steps
    }

    #[test]
    fn the_knee_is_found_and_confirmed() {
        for (start, knee) in [(100.0, 5_000.0), (8_000.0, 777.0), (1_000.0, 1_000.0)] {
            let steps = search(start, |_| knee);
            let last = steps.last().unwrap();
            assert!(last.confirms && last.verdict == StepVerdict::Met, "{last:?}");
            assert!(last.rate <= knee && last.rate >= knee * 0.97, "{} for {knee}", last.rate);
            assert!(steps.len() < 25, "{}", steps.len());
        }
    }

    #[test]
    fn a_rate_that_fails_the_confirmation_is_rejected() {
        let steps = search(100.0, |confirms| if confirms { 700.0 } else { 1_000.0 });
        let last = steps.last().unwrap();
        assert!(
            last.verdict == StepVerdict::Met && last.rate <= 700.0 && last.rate > 550.0,
            "{last:?}"
        );
    }

    #[test]
    fn a_server_without_responses_ends_the_search() {
        let steps = search(64.0, |_| 0.0);
        assert!(steps.len() <= 10 && steps.iter().all(|step| step.verdict != StepVerdict::Met));
    }
}
