//! Sum of the seconds of a round or a run.

use crate::figures::LabelFigures;
use crate::program::Label;
use crate::record::{Interval, Tally};
use crate::validity::Evidence;
use std::time::Duration;

/// Figures of several seconds.
#[derive(Clone, Debug)]
pub struct Total {
    sum: Interval,
    /// Labels that are excluded from the total.
    left_out: Vec<Label>,
    /// Seconds from the first request to the last response, of all added rounds.
    window: f64,
    /// Sum of the shares of the busiest loop in each second.
    busiest: f64,
    seconds: u64,
}

impl Total {
    /// An empty sum for this number of labels. With `open`, response times are recorded separately.
    #[must_use]
    pub fn new(labels: usize, open: bool) -> Self {
        let sum = Interval::new(0, labels, open);
        Self { sum, left_out: Vec::new(), window: 0.0, busiest: 0.0, seconds: 0 }
    }

    /// Excludes labels from the total: transactions, whose requests have labels of their own.
    #[must_use]
    pub fn without(mut self, transactions: &[Label]) -> Self {
        self.left_out = transactions.to_vec();
        self
    }

    /// Adds a second of a round.
    pub fn add(&mut self, second: &Interval) {
        self.add_interval(second);
        self.busiest += second.busiest_loop;
        self.seconds += 1;
    }

    fn add_interval(&mut self, interval: &Interval) {
        self.sum.add(interval, false);
    }

    /// Ends a round whose measured time starts `from` nanoseconds after its start (0, or the end of
    /// the cut). The window starts there, or at the first request, and ends with the last response.
    pub fn end_round(&mut self, from: u64) {
        let first = self.sum.labels.iter().map(|tally| tally.first_start).min();
        let last = self.sum.labels.iter().map(|tally| tally.last_end).max();
        if let (Some(first), Some(last)) = (first, last) {
            self.window += last.saturating_sub(first.max(from)) as f64 / 1e9;
        }
        for tally in &mut self.sum.labels {
            (tally.first_start, tally.last_end) = (u64::MAX, 0);
        }
    }

    /// Adds another round.
    pub fn merge(&mut self, other: &Self) {
        self.add_interval(&other.sum);
        self.window += other.window;
        self.busiest += other.busiest;
        self.seconds += other.seconds;
    }

    /// Sums of the seconds: offered and dropped iterations, send lag, first failed samples.
    #[must_use]
    pub fn sum(&self) -> &Interval {
        &self.sum
    }

    /// CPU time of the generator, in seconds.
    #[must_use]
    pub fn generator_cpu(&self) -> f64 {
        self.sum.generator_cpu as f64 / 1e9
    }

    /// Seconds from the first request to the last response of each round, added up.
    #[must_use]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Requests per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        LabelFigures::new("", &self.all(), self.window).throughput
    }

    /// The total without excluded labels.
    #[must_use]
    pub fn all(&self) -> Tally {
        self.sum.all(&self.left_out)
    }

    /// Figures of all samples, then of every label with samples. `names` are the labels of the
    /// program.
    #[must_use]
    pub fn figures(&self, names: &[String]) -> Vec<LabelFigures> {
        let mut figures = vec![LabelFigures::new("TOTAL", &self.all(), self.window)];
        for (name, tally) in names.iter().zip(&self.sum.labels) {
            if tally.samples() > 0 {
                figures.push(LabelFigures::new(name, tally, self.window));
            }
        }
        figures
    }

    /// CPU of the busiest loop of the generator, as a share of a core.
    #[must_use]
    pub fn busiest_loop(&self) -> f64 {
        self.busiest / self.seconds.max(1) as f64
    }

    /// Evidence of the load itself. The caller adds observed figures of the server, the steal of
    /// the host and the queues. `rate` is the rate of an open model.
    #[must_use]
    pub fn evidence(&self, rate: Option<f64>, quantum: Duration) -> Evidence {
        let all = LabelFigures::new("", &self.all(), self.window);
        let milliseconds = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        Evidence {
            requests: all.samples,
            errors: all.failed(),
            first_error: all.first_error().map(str::to_owned),
            window: Duration::from_secs_f64(self.window),
            throughput: all.throughput,
            offered: rate,
            dropped: self.sum.dropped,
            interrupted: self.sum.interrupted,
            send_lag: Duration::from_nanos(
                self.sum
                    .send_lag
                    .as_ref()
                    .map_or(0, |lag| lag.value_at_percentile(percent(lag.len()))),
            ),
            quantum,
            p99: milliseconds(all.response.p99),
            generator: self.busiest_loop(),
            stalled: Duration::from_nanos(self.sum.stalled),
            waited: Duration::from_nanos(self.sum.waited),
            waits: self.sum.waits,
            mean: milliseconds(all.response.mean),
            clock_step: Duration::from_nanos(self.sum.clock_step),
            ..Evidence::default()
        }
    }
}

/// The percentile of so many send lags that is judged: the 99th, or the one above which a single request is. Of fewer
/// than a hundred, the 99th is the largest: one late request would be a late generator.
fn percent(count: u64) -> f64 {
    (100.0 * (1.0 - 1.0 / count.max(1) as f64)).min(99.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::histogram;

    /// A second with `ok` samples of `ms` milliseconds of label 0 of two.
    pub(crate) fn second(at: u64, ok: u64, ms: u64) -> Interval {
        let mut tally = Tally::new(true);
        (tally.ok, tally.started) = (ok, ok);
        let time = ms * 1_000_000;
        tally.service.record_n(time, ok).expect("in range");
        tally.response.as_mut().expect("open").record_n(2 * time, ok).expect("in range");
        tally.service_sum = u128::from(time) * u128::from(ok);
        (tally.received, tally.sent) = (100 * ok, 50 * ok);
        tally.first_start = at * 1_000_000_000;
        tally.last_end = (at + 1) * 1_000_000_000;
        let mut lag = histogram();
        lag.record_n(500_000, ok).expect("in range");
        Interval {
            second: at,
            labels: vec![tally, Tally::new(true)],
            offered: ok,
            send_lag: Some(lag),
            busiest_loop: 0.25,
            generator_cpu: 250_000_000,
            ..Interval::default()
        }
    }

    #[test]
    fn rounds_add_up() {
        let round = |ok| {
            let mut round = Total::new(2, true);
            (0..4).for_each(|at| round.add(&second(at, ok, 3)));
            round.end_round(0);
            round
        };
        let mut total = Total::new(2, true);
        total.merge(&round(100));
        total.merge(&round(200));
        assert_eq!(total.window(), 8.0);
        let figures = total.figures(&["echo".to_owned(), "unused".to_owned()]);
        let labels: Vec<&str> = figures.iter().map(|figures| figures.label.as_str()).collect();
        assert_eq!(labels, ["TOTAL", "echo"]);
        assert_eq!((figures[0].samples, figures[0].throughput), (1200, 150.0));
        assert_eq!(figures[1].service.mean, 3.0);
        assert!((figures[1].response.p50 - 6.0).abs() < 0.01);
    }

    #[test]
    fn a_warm_up_cut_off_is_not_part_of_the_window() {
        let mut total = Total::new(2, true);
        (2..10).for_each(|at| total.add(&second(at, 100, 3)));
        total.end_round(2_500_000_000);
        assert_eq!(total.window(), 7.5);
    }

    #[test]
    fn evidence_has_the_sums() {
        let mut total = Total::new(2, true);
        (0..4).for_each(|at| total.add(&second(at, 100, 3)));
        total.end_round(0);
        let evidence = total.evidence(Some(100.0), Duration::from_millis(1));
        assert_eq!((evidence.requests, evidence.errors, evidence.throughput), (400, 0, 100.0));
        assert_eq!(evidence.generator, 0.25);
        let lag = evidence.send_lag.as_secs_f64();
        assert!((lag - 0.0005).abs() < 1e-6, "{lag}");
        let violations = crate::validity::violations(&evidence, 0.0);
        assert_eq!(violations, Vec::new());
    }

    #[test]
    fn one_late_request_of_a_few_is_no_late_generator() {
        assert_eq!((percent(1_000), percent(100), percent(50)), (99.0, 99.0, 98.0));
        let lag = |late: u64| {
            let mut lag = histogram();
            lag.record_n(100_000, 50 - late).expect("in range");
            lag.record_n(4_000_000, late).expect("in range");
            lag.value_at_percentile(percent(lag.len()))
        };
        assert!(lag(1) < 1_000_000 && lag(2) > 1_000_000);
    }
}
