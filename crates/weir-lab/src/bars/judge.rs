//! Whether bars hold.

use super::{Bar, Bound, Metric, ScenarioBar, Unit};
use crate::results::{BarOutcome, BarResult, RoundFigures};
use crate::stats::{Interval, contrast, mean_interval, median};

/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// A server that was idle for a larger share did not determine its throughput.
const MAX_IDLE: f64 = 0.10;

/// The figures of subject and reference in the same round.
#[derive(Clone, Copy, Debug)]
pub struct RoundPair<'r> {
    /// The contender that has to meet the bar.
    pub subject: &'r RoundFigures,
    /// The other contender; the same one for an absolute bar.
    pub reference: &'r RoundFigures,
}

/// Judges a bar on the rounds of a load.
#[must_use]
pub fn judge(scenario_bar: &ScenarioBar, load: &str, rounds: &[RoundPair<'_>]) -> BarResult {
    let bar = &scenario_bar.bar;
    let mut result = BarResult {
        bar: bar.text.clone(),
        title: scenario_bar.title.clone(),
        overview: scenario_bar.overview.clone(),
        reason: scenario_bar.reason.clone(),
        factor: bar.factor(),
        at_least: bar.is_at_least(),
        load: load.to_owned(),
        unit: unit(bar).to_owned(),
        ..BarResult::default()
    };
    let pairs: Option<Vec<(f64, f64)>> = rounds
        .iter()
        .map(|pair| Some((bar.figure(pair.subject)?, bar.figure(pair.reference)?)))
        .collect();
    let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else {
        let why = if rounds.is_empty() {
            "there is no valid round with this figure"
        } else {
            "this figure is not measured in every round: the generator of a contender may not report it"
        };
        result.notes.push(why.to_owned());
        return result;
    };
    let (subjects, references): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    result.rounds = pairs.len();
    result.subject = bar.metric.show(median(&subjects));
    if bar.reference().is_some() {
        result.reference = bar.metric.show(median(&references));
    }
    let values: Vec<f64> = pairs
        .iter()
        .map(|(subject, reference)| match bar.bound {
            Bound::Ratio { .. } | Bound::Within { .. } => subject / reference,
            Bound::Difference { .. } => subject - reference,
            Bound::Absolute { .. } => *subject,
        })
        .collect();
    if values.iter().any(|value| !value.is_finite()) {
        result.notes.push("a figure of a round is zero".to_owned());
        return result;
    }
    result.value = Some(median(&values));
    let fold = |first: fn(f64, f64) -> f64, start| values.iter().copied().fold(start, first);
    result.range = Some(Interval {
        low: fold(f64::min, f64::INFINITY),
        high: fold(f64::max, f64::NEG_INFINITY),
    });
    result.interval = match bar.bound {
        // Differences between servers are factors.
        Bound::Ratio { .. } | Bound::Within { .. } => {
            contrast(&[(&values, 1.0)], CONFIDENCE).map(|ratio| ratio.interval)
        }
        Bound::Difference { .. } | Bound::Absolute { .. } => mean_interval(&values, CONFIDENCE),
    };
    result.outcome = result.interval.map(|found| outcome(&bar.bound, found)).unwrap_or_default();
    if bar.metric == Metric::Rate {
        result.notes.extend(idle(&bar.subject, rounds.iter().map(|pair| pair.subject)));
        if let Some(reference) = bar.reference() {
            result.notes.extend(idle(reference, rounds.iter().map(|pair| pair.reference)));
        }
    }
    result
}

fn outcome(bound: &Bound, found: Interval) -> BarOutcome {
    let (low, high) = match *bound {
        Bound::Ratio { at_least, factor: limit, .. }
        | Bound::Difference { at_least, amount: limit, .. }
        | Bound::Absolute { at_least, amount: limit } => {
            if at_least {
                (limit, f64::INFINITY)
            } else {
                (f64::NEG_INFINITY, limit)
            }
        }
        Bound::Within { share, .. } => (1.0 / (1.0 + share), 1.0 + share),
    };
    if low <= found.low && found.high <= high {
        BarOutcome::Met
    } else if found.high < low || high < found.low {
        BarOutcome::Missed
    } else {
        BarOutcome::Inconclusive
    }
}

/// A note about a contender whose throughput something else limited.
fn idle<'r>(name: &str, rounds: impl Iterator<Item = &'r RoundFigures>) -> Option<String> {
    let shares: Option<Vec<f64>> = rounds.map(|round| round.resources.as_ref()?.idle).collect();
    let idle = median(&shares.filter(|shares| !shares.is_empty())?);
    (idle > MAX_IDLE).then(|| {
        format!(
            "{name} was idle for {:.0} % of the time: its rate was limited elsewhere",
            100.0 * idle
        )
    })
}

fn unit(bar: &Bar) -> &'static str {
    match (&bar.bound, bar.metric.unit()) {
        (Bound::Ratio { .. } | Bound::Within { .. }, _) => "",
        (_, Unit::Micros) => "µs",
        (_, Unit::Millis) => "ms",
        (_, Unit::PerSecond) => "/s",
        (_, Unit::Bytes) => "bytes",
        (_, Unit::FewBytes) => "bytes a request",
        (_, Unit::Count) => "count",
        (_, Unit::Percent) => "%",
        (_, Unit::PerRequest) => "",
    }
}

/// A response time, unless it is one of those that another generator does not report.
fn reported(milliseconds: f64) -> Option<f64> {
    (milliseconds > 0.0).then_some(milliseconds)
}

impl Metric {
    /// The figure of a round, if measured.
    #[must_use]
    pub fn of(self, round: &RoundFigures) -> Option<f64> {
        let resources = round.resources.as_ref();
        match self {
            Self::Cpu => resources?.cpu_us,
            Self::GeneratorCpu => Some(resources?.generator_cpu_us),
            Self::Rate => Some(round.throughput),
            Self::Mean => reported(round.response.mean),
            Self::P50 => reported(round.response.p50),
            Self::P99 => reported(round.response.p99),
            Self::P99_9 => reported(round.response.p99_9),
            Self::Memory => resources?.memory.map(|bytes| bytes as f64),
            Self::AnonymousMemory => resources?.anonymous_memory.map(|bytes| bytes as f64),
            Self::Disk => resources?.disk,
            Self::Descriptors => resources?.descriptors.map(|count| count as f64),
            Self::GeneratorMemory => resources?.generator_memory.map(|bytes| bytes as f64),
            Self::Start => resources?.start_ms,
            Self::ThreadCpu => resources?.thread_cpu_us,
            Self::DrainedCpu => Some(resources?.drained.as_ref()?.cpu_us),
            Self::DrainedRate => Some(resources?.drained.as_ref()?.throughput),
            Self::DrainTime => Some(resources?.drained.as_ref()?.ms),
            Self::Errors => Some(100.0 * round.errors),
            Self::Counter => None,
        }
    }

    /// A figure with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self.unit() {
            Unit::Micros => format!("{value:.2} µs"),
            Unit::Millis => format!("{value:.2} ms"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Unit::FewBytes => format!("{value:.0} bytes"),
            Unit::Count => format!("{value:.0}"),
            Unit::Percent => format!("{value:.3} %"),
            Unit::PerRequest => format!("{value:.3}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Resources;

    fn round(number: usize, rate: f64, cpu: f64) -> RoundFigures {
        let resources = Resources { cpu_us: Some(cpu), idle: Some(0.3), ..Resources::default() };
        RoundFigures {
            number,
            throughput: rate,
            resources: Some(resources),
            ..RoundFigures::default()
        }
    }

    /// Judges a bar on rounds with these figures of CPU; rates are their inverse.
    fn judged(text: &str, subject: &[f64], reference: &[f64]) -> BarResult {
        let rounds = |all: &[f64]| -> Vec<RoundFigures> {
            all.iter().enumerate().map(|(at, cpu)| round(at, 1e6 / cpu, *cpu)).collect()
        };
        let (subject, reference) = (rounds(subject), rounds(reference));
        let pairs = subject.iter().zip(&reference);
        let pairs: Vec<_> =
            pairs.map(|(subject, reference)| RoundPair { subject, reference }).collect();
        let title = "a title".to_owned();
        let bar = Bar::parse(text).unwrap();
        let bar = ScenarioBar { bar, title, overview: None, reason: None, only: Vec::new() };
        judge(&bar, "", &pairs)
    }

    /// Rounds whose machine becomes slower: ratios are constant up to 1 %.
    const SLOWER: [f64; 5] = [10.0, 12.1, 14.0, 16.1, 18.0];
    const HALF: [f64; 5] = [5.0, 6.0, 7.05, 8.0, 9.0];

    #[test]
    fn ratios_are_taken_within_a_round() {
        let result = judged("cpu of a <= 0.6 x b", &HALF, &SLOWER);
        assert_eq!(result.outcome, BarOutcome::Met, "{result:?}");
        assert!((result.value.unwrap() - 0.5).abs() < 0.01);
        assert!(result.interval.unwrap().within(0.48, 0.52), "{result:?}");
        let missed = judged("cpu of a <= 0.4 x b", &HALF, &SLOWER);
        assert_eq!(missed.outcome, BarOutcome::Missed);
        assert_eq!((missed.subject.as_str(), missed.reference.as_str()), ("7.05 µs", "14.00 µs"));
        let at = judged("cpu of a <= 0.5 x b", &HALF, &SLOWER);
        assert_eq!(at.outcome, BarOutcome::Inconclusive, "the bound is within {:?}", at.interval);
        let alone = judged("cpu of a <= 0.6 x b", &HALF[..1], &SLOWER[..1]);
        assert_eq!(alone.outcome, BarOutcome::Inconclusive, "one round has no interval");
        assert_eq!(judged("cpu of a <= b", &[], &[]).value, None);
    }

    #[test]
    fn an_unreported_time_does_not_meet_a_bar() {
        let mut figures = round(1, 100.0, 10.0);
        figures.response.p50 = 2.0;
        let judged = |text: &str| {
            let bar = Bar::parse(text).unwrap();
            let title = "a title".to_owned();
            let bar = ScenarioBar { bar, title, overview: None, reason: None, only: Vec::new() };
            judge(&bar, "", &[RoundPair { subject: &figures, reference: &figures }; 3])
        };
        let known = judged("p50 of a <= 5ms");
        assert_eq!(known.outcome, BarOutcome::Met, "{known:?}");
        let unknown = judged("p99 of a <= 5ms");
        assert_eq!(unknown.outcome, BarOutcome::Inconclusive, "{unknown:?}");
        assert!(unknown.notes[0].contains("not measured"), "{unknown:?}");
    }

    #[test]
    fn differences_amounts_and_agreement() {
        assert_eq!(judged("cpu of b <= a + 12us", &SLOWER, &HALF).outcome, BarOutcome::Met);
        assert_eq!(judged("cpu of b <= a + 1us", &SLOWER, &HALF).outcome, BarOutcome::Missed);
        assert_eq!(judged("cpu of a <= 30us", &HALF, &HALF).outcome, BarOutcome::Met);
        assert_eq!(judged("rate of a within 3% of b", &HALF, &HALF).outcome, BarOutcome::Met);
        let rates = judged("rate of a within 3% of b", &HALF, &SLOWER);
        assert_eq!(rates.outcome, BarOutcome::Missed);
        assert!(rates.notes[0].contains("a was idle for 30 %"), "{:?}", rates.notes);
        assert_eq!(judged("memory of a <= b", &HALF, &SLOWER).outcome, BarOutcome::Inconclusive);
    }
}
