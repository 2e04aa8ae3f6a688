//! Conditions that end a run early, such as `error-rate>5% for 10s`.
//!
//! ```text
//! THRESHOLD for DURATION      p99>2s for 30s, p99>2s for echo for 30s
//! ```
//!
//! A condition is met once it was true in every second of its duration. Seconds without samples are
//! neither: the time before counts on, except for `rps`, `samples` and `errors`, which are 0 then.

use crate::figures::LabelFigures;
use crate::program::{Label, Labels};
use crate::record::Interval;
use crate::threshold::{Threshold, ThresholdError};
use std::time::Duration;
use weir_document::units;

/// The beginning of the reason of a run that a condition has ended.
pub(crate) const STOPPED: &str = "the run was stopped: ";

/// A condition that ends a run.
#[derive(Clone, Debug)]
pub struct StopCondition {
    /// As written.
    pub text: String,
    condition: Threshold,
    seconds: u64,
}

/// Why a condition is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No duration at the end.
    #[error("a condition ends with its duration in whole seconds, as in `error-rate>5% for 10s`")]
    Duration,
    /// The part before it.
    #[error(transparent)]
    Condition(#[from] ThresholdError),
}

impl StopCondition {
    /// Reads a condition.
    ///
    /// # Errors
    /// The text is not a condition.
    pub fn parse(text: &str) -> Result<Self, StopError> {
        let (condition, duration) = text.rsplit_once(" for ").ok_or(StopError::Duration)?;
        let duration = units::duration(duration.trim()).map_err(|_| StopError::Duration)?;
        if duration < Duration::from_secs(1) || duration.subsec_nanos() > 0 {
            return Err(StopError::Duration);
        }
        let condition = Threshold::parse(condition)?;
        Ok(Self { text: text.trim().to_owned(), condition, seconds: duration.as_secs() })
    }

    /// The label that it is about; `None` for all samples.
    pub(crate) fn label(&self) -> Option<&str> {
        self.condition.label.as_deref()
    }
}

/// Watches the conditions of a case.
#[derive(Debug)]
pub(crate) struct StopWatch {
    /// Each with the number of seconds since which it is true.
    conditions: Vec<(StopCondition, u64)>,
}

impl StopWatch {
    pub(crate) fn new(conditions: &[StopCondition]) -> Self {
        Self { conditions: conditions.iter().map(|condition| (condition.clone(), 0)).collect() }
    }

    /// A new round starts.
    pub(crate) fn reset(&mut self) {
        self.conditions.iter_mut().for_each(|(_, since)| *since = 0);
    }

    /// Adds a second. Returns why the run ends, if so.
    pub(crate) fn second(
        &mut self,
        second: &Interval,
        labels: &Labels,
        left_out: &[Label],
    ) -> Option<String> {
        // The counts of a part of a second are no rates.
        if self.conditions.is_empty() || second.is_partial {
            return None;
        }
        let mut figures = vec![LabelFigures::new("TOTAL", &second.all(left_out), 1.0)];
        let names = labels.names();
        let of_labels = names.iter().zip(&second.labels);
        figures.extend(of_labels.map(|(name, tally)| LabelFigures::new(name, tally, 1.0)));
        for (condition, since) in &mut self.conditions {
            match condition.condition.holds(&figures) {
                Some((true, found)) => {
                    *since += 1;
                    if *since >= condition.seconds {
                        return Some(format!(
                            "{STOPPED}{} (in the last second: {found})",
                            condition.text
                        ));
                    }
                }
                Some((false, _)) => *since = 0,
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::record::Tally;
    use crate::sample::ErrorKind;

    fn second(ok: u64, failed: u64, millis: u64) -> Interval {
        let mut tally = Tally::new(false);
        tally.ok = ok;
        tally.errors[ErrorKind::Http500.index()] = failed;
        tally.service.record_n(millis * 1_000_000, ok + failed).expect("in range");
        Interval { labels: vec![tally], ..Interval::default() }
    }

    /// The number of seconds after which the condition ends the run.
    fn stops(condition: &str, seconds: &[Interval]) -> Option<usize> {
        let mut program = Program::default();
        program.label("echo");
        let labels = program.labels;
        let mut watch = StopWatch::new(&[StopCondition::parse(condition).expect("a condition")]);
        let stops = |second: &Interval| watch.second(second, &labels, &[]).is_some();
        seconds.iter().position(stops).map(|at| at + 1)
    }

    #[test]
    fn a_condition_must_be_true_for_its_whole_duration() {
        let (good, bad) = (second(100, 1, 3), second(90, 10, 3));
        let course = [&bad, &bad, &good, &bad, &bad, &bad, &bad].map(Clone::clone);
        assert_eq!(stops("error-rate>5% for 3s", &course), Some(6));
        assert_eq!(stops("error-rate>5% for 1s", &course), Some(1));
        assert_eq!(stops("error-rate>5% for echo for 3s", &course), Some(6));
        assert_eq!(stops("error-rate>5% for other for 3s", &course), None);
        assert_eq!(stops("error-rate>5% for 5s", &course), None);
        assert_eq!(stops("p99>2ms for 7s", &course), Some(7));
    }

    #[test]
    fn seconds_without_samples_do_not_reset_a_condition_and_are_no_rate() {
        let (slow, none) = (second(2, 0, 3_000), second(0, 0, 0));
        let course = [&slow, &none, &none, &slow, &none, &slow].map(Clone::clone);
        assert_eq!(stops("p99>2s for 3s", &course), Some(6));
        assert_eq!(stops("rps<1 for 2s", &course), Some(3));
        assert_eq!(stops("samples<=2 for 6s", &course), Some(6));
    }

    #[test]
    fn a_part_of_a_second_is_no_second() {
        let full = second(100, 0, 3);
        let rest = Interval { is_partial: true, ..second(2, 0, 3) };
        assert_eq!(stops("rps<50 for 1s", &[full.clone(), full, rest]), None);
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        let words = |text| StopCondition::parse(text).expect_err("none").to_string();
        for text in ["error-rate>5%", "p99>2s for echo", "p99>2s for 0s", "p99>2s for 1500ms"] {
            assert!(words(text).contains("ends with its duration"), "{text}: {}", words(text));
        }
        assert!(words("p98.7>2s for 3s").contains("not a metric"));
    }
}
