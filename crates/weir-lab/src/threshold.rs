//! Thresholds of a run, such as `p99<500ms for echo`.
//!
//! ```text
//! METRIC OPERATOR VALUE [for LABEL]
//! ```
//!
//! Metrics: `error-rate` (`1%` or `0.01`), `errors`, `rps`, `samples`, `mean`, `min`,
//! `max` and `p50` to `p99.99` (response time; `service-p99` for service time). Operators: `<`,
//! `<=`, `>`, `>=`, `=`. Times have a unit: `us`, `ms`, `s` or `m`.

use crate::figures::{LabelFigures, Times};
use crate::validity::Violation;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A threshold.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// As written.
    pub text: String,
    /// Label; `None` for all samples.
    pub label: Option<String>,
    metric: Metric,
    operator: Operator,
    /// Milliseconds for times, a share for error rates.
    value: f64,
}

/// Result of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The threshold as written.
    pub threshold: String,
    /// The case.
    pub cell: String,
    /// Whether the measured value meets the threshold.
    #[serde(rename = "kept")]
    pub met: bool,
    /// The measured value as text.
    pub found: String,
    /// Whether the threshold is about error counts, which are valid even in an invalid measurement.
    pub about_errors: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Metric {
    ErrorRate,
    Errors,
    Rate,
    Samples,
    /// A figure of [`Times`] by its name.
    Time {
        service: bool,
        name: String,
    },
}

type Operator = fn(&f64, &f64) -> bool;

/// The signs of the operators, longer ones first.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", f64::le),
    (">=", f64::ge),
    ("==", f64::eq),
    ("<", f64::lt),
    (">", f64::gt),
    ("=", f64::eq),
];

/// Why a threshold is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No operator.
    #[error("a threshold needs one of <, <=, >, >=, =, as in p99<500ms")]
    Operator,
    /// Unknown metric.
    #[error(
        "{0:?} is not a metric; metrics are error-rate, errors, rps, samples, mean, min, max, {list}; times may \
         have the prefix service-",
        list = Times::PERCENTILES.map(|(name, _)| name).join(", ")
    )]
    Metric(String),
    /// Invalid value of the metric.
    #[error("{0:?} is not a {1}")]
    Value(String, &'static str),
}

impl Threshold {
    /// Reads a threshold.
    ///
    /// # Errors
    /// The text is not a threshold.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let text = text.trim();
        let at = text.find(['<', '>', '=']).ok_or(ThresholdError::Operator)?;
        let (metric, rest) = text.split_at(at);
        let (operator, rest) = OPERATORS
            .iter()
            .find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)))
            .ok_or(ThresholdError::Operator)?;
        let (value, label) = match rest.split_once(" for ") {
            Some((value, label)) => (value, Some(label.trim().to_owned())),
            None => (rest, None),
        };
        let metric = metric.trim();
        let metric =
            Metric::parse(metric).ok_or_else(|| ThresholdError::Metric(metric.to_owned()))?;
        let value = metric.value(value.trim())?;
        Ok(Self { text: text.to_owned(), label, metric, operator, value })
    }

    /// Checks the threshold with the `labels` of a case, of which the first one is the total. A
    /// label without samples does not meet it, nor does a time that another generator does not report.
    #[must_use]
    pub fn check(&self, cell: &str, labels: &[LabelFigures]) -> ThresholdResult {
        let figures = self.figures(labels).filter(|figures| figures.samples > 0);
        let found = figures.and_then(|figures| self.metric.of(figures));
        let missing = if figures.is_some() { "not measured" } else { "no sample" };
        ThresholdResult {
            threshold: self.text.clone(),
            cell: cell.to_owned(),
            met: found.is_some_and(|found| (self.operator)(&found, &self.value)),
            found: found.map_or_else(|| missing.to_owned(), |found| self.metric.show(found)),
            about_errors: matches!(self.metric, Metric::ErrorRate | Metric::Errors),
        }
    }
}

impl Threshold {
    /// Whether the condition is true for the `labels` of a second, of which the first one is the total,
    /// and the measured value as text. `None` without samples; counts and rates are 0 then.
    pub(crate) fn holds(&self, labels: &[LabelFigures]) -> Option<(bool, String)> {
        let counts = matches!(self.metric, Metric::Errors | Metric::Samples | Metric::Rate);
        let found = self.metric.of(self.figures(labels)?).or(counts.then_some(0.0))?;
        Some(((self.operator)(&found, &self.value), self.metric.show(found)))
    }

    /// The violation of a percentile with fewer samples than one is expected above it: the largest
    /// sample stands for it then.
    #[must_use]
    pub fn too_few_samples(&self, labels: &[LabelFigures]) -> Option<Violation> {
        let Metric::Time { name, .. } = &self.metric else { return None };
        let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
        // A rounding error is no sample.
        let needed = (100.0 / (100.0 - percentile) - 1e-6).ceil() as u64;
        let samples = self.figures(labels)?.samples;
        let threshold = self.text.clone();
        (samples < needed).then_some(Violation::TooFewSamples { threshold, samples, needed })
    }

    /// The figures that the threshold is about.
    fn figures<'f>(&self, labels: &'f [LabelFigures]) -> Option<&'f LabelFigures> {
        match &self.label {
            None => labels.first(),
            Some(label) => labels.iter().skip(1).find(|figures| figures.label == *label),
        }
    }
}

impl Metric {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "error-rate" => Self::ErrorRate,
            "errors" => Self::Errors,
            "rps" => Self::Rate,
            "samples" => Self::Samples,
            _ => {
                let (service, name) = match name.strip_prefix("service-") {
                    Some(name) => (true, name),
                    None => (false, name),
                };
                Times::default().named(name)?;
                Self::Time { service, name: name.to_owned() }
            }
        })
    }

    fn value(&self, text: &str) -> Result<f64, ThresholdError> {
        let number = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
        };
        let (value, expected) = match self {
            Self::ErrorRate => {
                let percent = text.strip_suffix('%');
                (percent.map_or_else(|| number(text), |text| Some(number(text)? / 100.0)), "share")
            }
            Self::Errors | Self::Samples | Self::Rate => (number(text), "number"),
            Self::Time { .. } => {
                let units = [("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)];
                let unit = units.iter().find_map(|(unit, factor)| {
                    number(text.strip_suffix(unit)?).map(|value| value * factor)
                });
                (unit, "time with a unit, such as 500ms")
            }
        };
        value.ok_or_else(|| ThresholdError::Value(text.to_owned(), expected))
    }

    fn of(&self, figures: &LabelFigures) -> Option<f64> {
        (figures.samples > 0).then_some(())?;
        Some(match self {
            Self::ErrorRate => figures.error_share(),
            Self::Errors => figures.failed() as f64,
            Self::Samples => figures.samples as f64,
            Self::Rate => figures.throughput,
            Self::Time { service, name } => {
                let times = if *service { &figures.service } else { &figures.response };
                figures.reported(times.named(name)?)?
            }
        })
    }

    fn show(&self, value: f64) -> String {
        match self {
            Self::ErrorRate => format!("{:.3} %", 100.0 * value),
            Self::Errors | Self::Samples => format!("{value}"),
            Self::Rate => format!("{value:.1}/s"),
            Self::Time { .. } => format!("{value:.2} ms"),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Vec<LabelFigures> {
        let times = |p99| Times { mean: 3.0, p99, max: 40.0, ..Times::default() };
        let figures = |label: &str, ok, errors: u64, p99| LabelFigures {
            label: label.to_owned(),
            samples: ok + errors,
            ok,
            errors: [("http_500".to_owned(), errors)].into(),
            throughput: 1200.0,
            response: times(p99),
            service: times(p99 / 2.0),
            ..LabelFigures::default()
        };
        vec![figures("TOTAL", 198, 2, 20.0), figures("echo", 99, 1, 30.0)]
    }

    fn met(text: &str) -> bool {
        Threshold::parse(text).expect("a threshold").check("", &labels()).met
    }

    #[test]
    fn met_and_missed_thresholds() {
        assert!(met("error-rate<=1%") && !met("error-rate<=0") && met("error-rate < 0.011"));
        assert!(met("p99<25ms") && !met("p99<25ms for echo") && met("service-p99<=15ms for echo"));
        assert!(met("rps>=1000") && !met("rps>1.2e3") && met("max<0.05s") && met("errors=2"));
        assert!(met("mean<3001us"));
    }

    #[test]
    fn a_label_without_samples_misses_its_threshold() {
        let absent = Threshold::parse("errors<=5 for nobody").expect("a threshold");
        let absent = absent.check("case", &labels());
        assert_eq!((absent.met, absent.found.as_str()), (false, "no sample"));
    }

    #[test]
    fn an_unreported_time_misses_its_threshold() {
        let mut labels = labels();
        labels[0].response.p99_9 = 0.0;
        let found = |labels: &[LabelFigures]| {
            let threshold = Threshold::parse("p99.9<5ms").expect("a threshold");
            let result = threshold.check("case", labels);
            (result.met, result.found)
        };
        assert_eq!(found(&labels), (false, "not measured".to_owned()));
        labels[0].response_histogram = vec![(0, 200)];
        assert_eq!(found(&labels), (true, "0.00 ms".to_owned()), "measured by the Lab");
    }

    #[test]
    fn invalid_thresholds_are_rejected() {
        let words = |text| Threshold::parse(text).expect_err("none").to_string();
        assert!(words("p99 500ms").contains("needs one of"));
        assert!(words("p97<5ms").contains("not a metric"));
        assert!(words("p99<500").contains("unit"));
        assert!(words("rps>fast").contains("not a number"));
        assert!(words("error-rate<-1").contains("not a share"));
    }
}
