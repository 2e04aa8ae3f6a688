//! Reported figures of a label: counts, rates and times.

use crate::record::Tally;
use crate::sample::ErrorKind;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures of times, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub deviation: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 98th percentile.
    pub p98: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
}

/// A point of a percentile spectrum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// From 0 to 100.
    pub percent: f64,
    /// Milliseconds.
    pub ms: f64,
}

/// Figures of the samples of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelFigures {
    /// The label; `TOTAL` for all samples together.
    pub label: String,
    /// Completed samples.
    pub samples: u64,
    /// Successful samples.
    pub ok: u64,
    /// Samples with a status declared as expected.
    pub expected: u64,
    /// Failed samples by kind; every kind is present.
    pub errors: BTreeMap<String, u64>,
    /// Samples per second.
    pub throughput: f64,
    /// From the actual send to the end.
    pub service: Times,
    /// From the intended send to the end; equals the service times in a closed model.
    pub response: Times,
    /// Mean time to the first byte, in milliseconds.
    pub latency: f64,
    /// Connections opened.
    pub connects: u64,
    /// Mean time to open a connection, in milliseconds.
    pub connect: f64,
    /// Bytes received, heads included.
    pub received: u64,
    /// Bytes sent, heads included.
    pub sent: u64,
    /// Bytes of bodies on the wire.
    pub body: u64,
    /// Bytes of bodies, decoded.
    pub decoded: u64,
    /// Percentile spectrum of service times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_spectrum: Vec<Point>,
    /// Percentile spectrum of response times; empty in a closed model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_spectrum: Vec<Point>,
    /// Response times by range, as (n, count): from 10^(n/20) to 10^((n+1)/20) microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_histogram: Vec<(usize, u64)>,
}

/// Milliseconds of nanoseconds.
fn ms(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

impl Times {
    /// Percentiles that are reported, by their names.
    pub const PERCENTILES: [(&'static str, f64); 8] = [
        ("p50", 50.0),
        ("p75", 75.0),
        ("p90", 90.0),
        ("p95", 95.0),
        ("p98", 98.0),
        ("p99", 99.0),
        ("p99.9", 99.9),
        ("p99.99", 99.99),
    ];

    /// Figures of a histogram of nanoseconds; zeros if it is empty.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |percent| ms(histogram.value_at_percentile(percent) as f64);
        Self {
            mean: ms(histogram.mean()),
            deviation: ms(histogram.stdev()),
            min: ms(histogram.min() as f64),
            p50: at(50.0),
            p75: at(75.0),
            p90: at(90.0),
            p95: at(95.0),
            p98: at(98.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
            max: ms(histogram.max() as f64),
        }
    }

    /// A figure by its name: `mean`, `min`, `max`, or one of [`Self::PERCENTILES`].
    #[must_use]
    pub fn named(&self, name: &str) -> Option<f64> {
        match name {
            "mean" => Some(self.mean),
            "min" => Some(self.min),
            "max" => Some(self.max),
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                let at = Self::PERCENTILES.iter().position(|(_, known)| *known == percent)?;
                Some(self.percentiles()[at])
            }
        }
    }

    /// All of [`Self::PERCENTILES`], in order.
    #[must_use]
    pub fn percentiles(&self) -> [f64; 8] {
        let Self { p50, p75, p90, p95, p98, p99, p99_9, p99_99, .. } = *self;
        [p50, p75, p90, p95, p98, p99, p99_9, p99_99]
    }

    /// The percentiles by name, for JSON.
    #[must_use]
    pub fn named_percentiles(&self) -> serde_json::Map<String, serde_json::Value> {
        let names = Self::PERCENTILES.iter().map(|(name, _)| (*name).to_owned());
        names.zip(self.percentiles().map(serde_json::Value::from)).collect()
    }
}

impl LabelFigures {
    /// Figures of `tally` over `window` seconds.
    #[must_use]
    pub fn new(label: &str, tally: &Tally, window: f64) -> Self {
        let samples = tally.samples();
        let mean = |sum: u128, count: u64| ms(sum as f64 / count.max(1) as f64);
        let mut service = Times::from_histogram(&tally.service);
        if samples > 0 {
            // The sums are exact; the histogram is not.
            service.mean = mean(tally.service_sum, samples);
        }
        let response =
            tally.response.as_ref().map_or_else(|| service.clone(), Times::from_histogram);
        Self {
            label: label.to_owned(),
            samples,
            ok: tally.ok,
            expected: tally.expected,
            errors: ErrorKind::ALL
                .iter()
                .map(|kind| (kind.name().to_owned(), tally.errors[kind.index()]))
                .collect(),
            throughput: if window > 0.0 { samples as f64 / window } else { 0.0 },
            latency: mean(tally.latency_sum, samples),
            connects: tally.connects,
            connect: mean(tally.connect_sum, tally.connects),
            received: tally.received,
            sent: tally.sent,
            body: tally.body,
            decoded: tally.decoded,
            service_spectrum: spectrum(&tally.service),
            response_spectrum: tally.response.as_ref().map(spectrum).unwrap_or_default(),
            response_histogram: ranges(tally.response(), RANGES_PER_DECADE),
            service,
            response,
        }
    }

    /// `time`, one of its times in milliseconds; `None` without samples, and if another generator, which has no
    /// histogram, does not report it.
    #[must_use]
    pub fn reported(&self, time: f64) -> Option<f64> {
        let is_known = time > 0.0 || !self.response_histogram.is_empty();
        (self.samples > 0 && is_known).then_some(time)
    }

    /// A response time in milliseconds, as [`Self::reported`].
    #[must_use]
    pub fn response_time(&self, of: fn(&Times) -> f64) -> Option<f64> {
        self.reported(of(&self.response))
    }

    /// Samples that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Share of the samples that failed.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        self.failed() as f64 / self.samples.max(1) as f64
    }

    /// The most frequent kind of failure.
    #[must_use]
    pub fn first_error(&self) -> Option<&str> {
        let largest = self.errors.iter().max_by_key(|(_, count)| **count)?;
        (*largest.1 > 0).then_some(largest.0.as_str())
    }
}

/// Ranges of [`LabelFigures::response_histogram`] in each decade.
const RANGES_PER_DECADE: f64 = 20.0;

/// Counts of times by logarithmic range, without empty ranges: range n starts at
/// 10^(n/`per_decade`) microseconds. Shorter times are in range 0.
pub(crate) fn ranges(histogram: &Histogram<u64>, per_decade: f64) -> Vec<(usize, u64)> {
    let mut counts: Vec<(usize, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let microseconds = (value.value_iterated_to() as f64 / 1e3).max(1.0);
        let range = (per_decade * microseconds.log10()) as usize;
        let count = value.count_since_last_iteration();
        match counts.last_mut() {
            Some(last) if last.0 == range => last.1 += count,
            _ => counts.push((range, count)),
        }
    }
    counts
}

/// Points of a percentile spectrum: five for each halving of the remaining share, as in
/// HdrHistogram's output, up to the last sample.
fn spectrum(histogram: &Histogram<u64>) -> Vec<Point> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let mut points: Vec<Point> = Vec::new();
    for value in histogram.iter_quantiles(5) {
        let percent = 100.0 * value.quantile_iterated_to();
        let at = ms(value.value_iterated_to() as f64);
        match points.last_mut() {
            // Of points with the same value only the last one is kept.
            Some(last) if last.ms == at => last.percent = percent,
            _ => points.push(Point { percent, ms: at }),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand samples of 1 ms to 1000 ms.
    fn tally() -> Tally {
        let mut tally = Tally::new(false);
        for millisecond in 1..=1000_u64 {
            let time = millisecond * 1_000_000;
            tally.service.record(time).expect("in range");
            tally.service_sum += u128::from(time);
            tally.ok += 1;
        }
        tally.ok -= 3;
        tally.errors[ErrorKind::Timeout.index()] = 2;
        tally.errors[ErrorKind::Refused.index()] = 1;
        tally
    }

    #[test]
    fn figures_are_in_milliseconds_and_seconds() {
        let figures = LabelFigures::new("echo", &tally(), 10.0);
        assert_eq!((figures.samples, figures.failed(), figures.throughput), (1000, 3, 100.0));
        assert_eq!(figures.service.mean, 500.5);
        assert!((figures.service.p99 - 990.0).abs() < 1.0, "{:?}", figures.service);
        assert_eq!(figures.response, figures.service, "a closed model");
        assert_eq!(figures.first_error(), Some("timeout"));
        assert_eq!(figures.errors.len(), ErrorKind::ALL.len(), "zeros are there");
    }

    #[test]
    fn a_spectrum_rises_to_the_last_sample() {
        let points = LabelFigures::new("", &tally(), 1.0).service_spectrum;
        assert!(points.len() > 20 && points.len() < 200, "{}", points.len());
        assert!(points.windows(2).all(|p| p[0].percent < p[1].percent && p[0].ms < p[1].ms));
        assert!((points.last().expect("some").ms - 1000.0).abs() < 1.0);
        assert_eq!(spectrum(&crate::record::histogram()), Vec::new());
    }

    #[test]
    fn names_survive_json() {
        let figures = LabelFigures::new("echo", &tally(), 10.0);
        let json = serde_json::to_value(&figures).expect("plain");
        assert!(json["service"]["p99.9"].is_number());
        assert_eq!(serde_json::from_value::<LabelFigures>(json).expect("the same"), figures);
    }
}
