//! `find-max`: the highest rate at which the server keeps a promise.

use super::batch::hold;
use crate::program::{Executor, FindMax};
use crate::record::Interval;
use std::time::Duration;

/// Holds at most: a search that has not ended by then never will.
const HOLDS: usize = 60;

/// A rate that was held.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// Iterations a second asked for.
    pub rate: f64,
    /// Samples a second that succeeded.
    pub achieved: f64,
    /// Share of samples that failed, 0 to 1.
    pub errors: f64,
    /// Iterations dropped.
    pub dropped: u64,
    /// Response times at the promised percentiles.
    pub times: Vec<Duration>,
    /// Whether it was the last one, which confirms the rate found.
    pub confirms: bool,
    /// How it was judged.
    pub verdict: Verdict,
}

/// How a rate was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise was kept.
    Kept,
    /// Too many errors.
    Errors,
    /// Too slow.
    Slow,
    /// The server fell behind: iterations were dropped.
    Behind,
    /// Nothing was answered.
    Silent,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Kept => "kept",
            Self::Errors => "too many errors",
            Self::Slow => "too slow",
            Self::Behind => "fell behind",
            Self::Silent => "no answer",
        })
    }
}

impl std::fmt::Display for Hold {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.0}/s: {}", self.rate, self.verdict)
    }
}

/// What is tried next: pure, so that it can be tested without a server.
pub(super) struct Search {
    what: FindMax,
    /// Highest rate that kept the promise, lowest that broke it.
    kept: f64,
    broken: f64,
    current: f64,
    confirming: bool,
    holds: usize,
    done: bool,
}

impl Search {
    pub(super) fn new(what: FindMax) -> Self {
        let current = what.start.max(1.0);
        Self {
            what,
            kept: 0.0,
            broken: f64::INFINITY,
            current,
            confirming: false,
            holds: 0,
            done: false,
        }
    }

    /// The next hold; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Executor> {
        if self.done || self.holds >= HOLDS {
            return None;
        }
        self.holds += 1;
        let duration = if self.confirming { self.what.confirm } else { self.what.hold };
        Some(Executor::ArrivalRate {
            start: self.current,
            stages: hold(self.current, duration),
            quantum: self.what.quantum,
            max_in_flight: self.what.max_in_flight,
            backlog: 0,
        })
    }

    /// Takes what the hold gave.
    pub(super) fn take(&mut self, part: &Interval) -> Hold {
        let all = part.all(&[]);
        let (samples, failed) = (all.samples(), all.failed());
        let errors = failed as f64 / samples.max(1) as f64;
        let at = |percentile: f64| all.response().value_at_quantile(percentile / 100.0);
        let times: Vec<Duration> =
            self.what.limits.iter().map(|(p, _)| Duration::from_nanos(at(*p))).collect();
        let slow = self.what.limits.iter().zip(&times).any(|((_, limit), time)| time > limit);
        let verdict = if samples == 0 {
            Verdict::Silent
        } else if errors > self.what.errors {
            Verdict::Errors
        } else if slow {
            Verdict::Slow
        } else if part.dropped > 0 {
            Verdict::Behind
        } else {
            Verdict::Kept
        };
        let length = all.last_end.saturating_sub(all.first_start) as f64 / 1e9;
        let hold = Hold {
            rate: self.current,
            achieved: (samples - failed) as f64 / length.max(1e-9),
            errors,
            dropped: part.dropped,
            times,
            confirms: self.confirming,
            verdict,
        };
        self.judge(verdict == Verdict::Kept);
        hold
    }

    fn judge(&mut self, kept: bool) {
        if self.confirming {
            // What held for a short time need not hold for a long one: less is asked for.
            self.done = kept || self.current < 1.0;
            self.current *= 1.0 - (2.0 * self.what.precision).max(0.05);
            return;
        }
        if kept {
            self.kept = self.current;
        } else {
            self.broken = self.current;
        }
        if self.broken < 1.0 {
            self.done = true;
        } else if self.broken.is_infinite() {
            self.current = self.kept * 2.0;
        } else if self.kept == 0.0 {
            self.current = self.broken / 2.0;
        } else if self.broken - self.kept <= self.broken * self.what.precision {
            self.confirming = true;
            self.current = self.kept;
        } else {
            self.current = self.kept.midpoint(self.broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Label;
    use crate::record::Tally;
    use crate::sample::ErrorKind;

    /// Searches a server that answers up to `knee` a second without an error; gives all holds.
    fn search(start: f64, knee: impl Fn(bool) -> f64) -> Vec<Hold> {
        let mut search = Search::new(FindMax {
            start,
            errors: 0.0,
            limits: vec![(99.0, Duration::from_millis(500))],
            precision: 0.02,
            hold: Duration::from_secs(1),
            confirm: Duration::from_secs(60),
            quantum: Duration::from_millis(1),
            max_in_flight: 100,
        });
        let mut holds = Vec::new();
        while let Some(Executor::ArrivalRate { start, stages, .. }) = search.next() {
            let mut part = Interval::new(0, 1, true);
            let tally: &mut Tally = &mut part.labels[Label(0).0 as usize];
            let confirms = stages[0].duration == Duration::from_secs(60);
            tally.ok = 1000;
            if start > knee(confirms) {
                tally.errors[ErrorKind::Http503.index()] = 1;
            }
            holds.push(search.take(&part));
        }
        holds
    }

    #[test]
    fn the_knee_is_found_and_confirmed() {
        for (start, knee) in [(100.0, 5_000.0), (8_000.0, 777.0), (1_000.0, 1_000.0)] {
            let holds = search(start, |_| knee);
            let last = holds.last().unwrap();
            assert!(last.confirms && last.verdict == Verdict::Kept, "{last:?}");
            assert!(last.rate <= knee && last.rate >= knee * 0.97, "{} for {knee}", last.rate);
            assert!(holds.len() < 25, "{}", holds.len());
        }
    }

    #[test]
    fn what_does_not_last_is_given_up() {
        let holds = search(100.0, |confirms| if confirms { 700.0 } else { 1_000.0 });
        let last = holds.last().unwrap();
        assert!(
            last.verdict == Verdict::Kept && last.rate <= 700.0 && last.rate > 550.0,
            "{last:?}"
        );
    }

    #[test]
    fn a_server_that_never_answers_ends_the_search() {
        let holds = search(64.0, |_| 0.0);
        assert!(holds.len() <= 10 && holds.iter().all(|hold| hold.verdict != Verdict::Kept));
    }
}
