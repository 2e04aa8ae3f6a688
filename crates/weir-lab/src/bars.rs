//! Bars: comparisons of contenders that have to hold, such as `cpu of weir <= 0.8 x nginx`.
//!
//! ```text
//! METRIC of CONTENDER [for REQUEST] <=|>=  [FACTOR x] CONTENDER | CONTENDER + AMOUNT | AMOUNT
//! METRIC of CONTENDER [for REQUEST] within PERCENT of CONTENDER
//! ```
//!
//! A comparison is made within each round, because a disturbance of the machine affects the
//! contenders of a round alike. The bar is met or missed if the confidence interval over the rounds is
//! on one side of the bound, and inconclusive otherwise.

mod judge;
mod parse;

pub use judge::{RoundPair, judge};
pub use parse::BarError;

use crate::results::RoundFigures;
use serde::{Deserialize, Serialize};

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// As written.
    pub text: String,
    /// The compared figure.
    pub metric: Metric,
    /// Name of the counter of [`Metric::Counter`].
    pub counter: Option<String>,
    /// The contender that has to meet the bar.
    pub subject: String,
    /// Name of the requests whose response times are compared; all without.
    pub label: Option<String>,
    /// The bound.
    pub bound: Bound,
}

/// A bar of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioBar {
    /// The bar.
    pub bar: Bar,
    /// Title in tables.
    pub title: String,
    /// Label in the chart of all scenarios; without, the bar is not in it.
    pub overview: Option<String>,
    /// Why the bar is missed, if this is known.
    pub reason: Option<String>,
    /// Values of the matrix that the bar applies to: all if empty.
    pub only: Vec<(String, Vec<String>)>,
}

impl ScenarioBar {
    /// Whether the bar applies to a cell with these values.
    #[must_use]
    pub fn applies_to(&self, values: &[(String, String)]) -> bool {
        self.only.iter().all(|(name, levels)| {
            values.iter().any(|(known, value)| known == name && levels.contains(value))
        })
    }
}

/// A figure of a round.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::VariantNames,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Metric {
    /// CPU time of the server per request.
    Cpu,
    /// CPU time of the load generator per request.
    GeneratorCpu,
    /// Requests per second.
    Rate,
    /// Mean response time.
    Mean,
    /// Median response time.
    P50,
    /// 99th percentile of the response time.
    P99,
    /// 99.9th percentile of the response time.
    #[serde(rename = "p99.9")]
    #[strum(serialize = "p99.9")]
    P99_9,
    /// Largest resident memory of the server.
    Memory,
    /// Memory of the server without that of files, at the end of the round.
    AnonymousMemory,
    /// Growth of the server's data folder per request.
    Disk,
    /// Largest number of open descriptors of the server: connections, files.
    Descriptors,
    /// Largest resident memory of the load generator.
    GeneratorMemory,
    /// Time from the start of the server until it is ready.
    Start,
    /// CPU time per request of the server's threads with the name in `observe.thread`.
    ThreadCpu,
    /// CPU time of the server per request, until it is idle again.
    DrainedCpu,
    /// Requests per second of the time until the server is idle again.
    DrainedRate,
    /// Time from the end of the load until the server is idle.
    DrainTime,
    /// Share of failed requests, in percent.
    Errors,
    /// A counter of the server for each request, by the name of the bar.
    #[strum(disabled)]
    Counter,
}

/// Unit of the figures of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Micros,
    Millis,
    PerSecond,
    Percent,
    Bytes,
    /// Bytes of a request.
    FewBytes,
    Count,
    /// Of a counter, for each request.
    PerRequest,
}

impl Metric {
    /// Whether each kind of request has its own figure.
    fn is_of_responses(self) -> bool {
        matches!(self, Self::Mean | Self::P50 | Self::P99 | Self::P99_9)
    }

    fn unit(self) -> Unit {
        match self {
            Self::Cpu | Self::GeneratorCpu | Self::ThreadCpu | Self::DrainedCpu => Unit::Micros,
            Self::Rate | Self::DrainedRate => Unit::PerSecond,
            Self::Memory | Self::AnonymousMemory | Self::GeneratorMemory => Unit::Bytes,
            Self::Disk => Unit::FewBytes,
            Self::Descriptors => Unit::Count,
            Self::Errors => Unit::Percent,
            Self::Counter => Unit::PerRequest,
            Self::Mean | Self::P50 | Self::P99 | Self::P99_9 => Unit::Millis,
            Self::Start | Self::DrainTime => Unit::Millis,
        }
    }
}

/// The bound of a bar.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Subject ÷ reference, at most or at least this factor.
    Ratio {
        /// The other contender.
        reference: String,
        /// At least instead of at most.
        at_least: bool,
        /// The factor.
        factor: f64,
    },
    /// Subject − reference, at most or at least this amount.
    Difference {
        /// The other contender.
        reference: String,
        /// At least instead of at most.
        at_least: bool,
        /// In the unit of the metric.
        amount: f64,
    },
    /// The figure itself.
    Absolute {
        /// At least instead of at most.
        at_least: bool,
        /// In the unit of the metric.
        amount: f64,
    },
    /// Subject ÷ reference is 1, up to this share.
    Within {
        /// The other contender.
        reference: String,
        /// The share.
        share: f64,
    },
}

impl Bar {
    /// Whether higher figures are better.
    #[must_use]
    pub fn is_at_least(&self) -> bool {
        match self.bound {
            Bound::Ratio { at_least, .. }
            | Bound::Difference { at_least, .. }
            | Bound::Absolute { at_least, .. } => at_least,
            Bound::Within { .. } => false,
        }
    }

    /// The factor of a ratio.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        match self.bound {
            Bound::Ratio { factor, .. } => Some(factor),
            _ => None,
        }
    }

    /// The compared figure of a round, if measured.
    #[must_use]
    pub fn figure(&self, round: &RoundFigures) -> Option<f64> {
        match (&self.counter, &self.label) {
            (Some(name), _) => round.counters.get(name).copied(),
            (None, Some(label)) => {
                let response = round.labels.get(label)?.clone();
                self.metric.of(&RoundFigures { response, ..RoundFigures::default() })
            }
            (None, None) => self.metric.of(round),
        }
    }

    /// The other contender.
    #[must_use]
    pub fn reference(&self) -> Option<&String> {
        match &self.bound {
            Bound::Ratio { reference, .. }
            | Bound::Difference { reference, .. }
            | Bound::Within { reference, .. } => Some(reference),
            Bound::Absolute { .. } => None,
        }
    }
}
