//! What goes in and out of the protocol: orders, rounds, and what became of them.

use crate::stats::{Interval, Spread};
use crate::validity::Flaw;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much a round does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// A number of requests, however long they take.
    Iterations(u64),
    /// Some seconds, however many requests that is.
    Seconds(f64),
}

impl Extent {
    /// `factor` times as much, at least one request more where more is asked for.
    #[must_use]
    pub(super) fn times(self, factor: f64) -> Self {
        match self {
            Self::Iterations(n) => {
                let scaled = (n as f64 * factor).ceil() as u64;
                Self::Iterations(if factor > 1.0 {
                    scaled.max(n.saturating_add(1))
                } else {
                    scaled.max(1)
                })
            }
            Self::Seconds(seconds) => Self::Seconds(seconds * factor),
        }
    }
}

/// What a round is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Finding out how long a round has to be.
    Calibrating,
    /// Waiting until the server no longer changes.
    Stabilising,
    /// Recording what will be reported.
    Recording,
}

/// The next round to run. The server has to be idle (drained) before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// From 1; numbers are not used twice.
    pub number: usize,
    /// How much.
    pub extent: Extent,
    /// What for.
    pub stage: Stage,
}

/// How an ordered round went.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// From the first request to the end of the last answer.
    pub took: Duration,
    /// Requests answered as expected, a second.
    pub throughput: f64,
    /// Why it does not count, if it does not.
    pub flaws: Vec<Flaw>,
}

/// What a round was good for in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It found out how long rounds have to be.
    Calibration,
    /// The server warmed up, or the tests did not hold yet.
    WarmUp,
    /// It has a flaw and was not looked at.
    Flawed,
    /// It is one of those reported.
    Recorded,
}

/// A round in the protocol's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1.
    pub number: usize,
    /// How much it did.
    pub extent: Extent,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Requests a second.
    pub throughput: f64,
    /// What it was good for.
    pub used: Use,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<Flaw>,
}

/// How the protocol ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The recorded rounds are a steady state's.
    Stable,
    /// It never became steady: there is no headline number.
    Unstable,
    /// Too many rounds had flaws.
    Invalid,
}

/// What the rounds amount to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub result: Ending,
    /// Why, in words.
    pub because: String,
    /// The last round of those that decided that the server is steady.
    pub decided_at: Option<usize>,
    /// Throughput of the recorded rounds; `None` unless stable.
    pub throughput: Option<Spread>,
    /// 95 % t interval of its mean.
    pub interval: Option<Interval>,
    /// What a reader should know: rounds shorter or noisier than the rules want.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}
