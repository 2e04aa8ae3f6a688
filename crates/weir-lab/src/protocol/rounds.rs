//! Input and output of the protocol: planned rounds, measured rounds, and their outcome.

use crate::stats::{Interval, Spread};
use crate::validity::Violation;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Size of a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundSize {
    /// A number of requests, however long they take.
    Iterations(u64),
    /// A number of seconds.
    Seconds(f64),
}

impl RoundSize {
    /// The size multiplied by `factor`, at least one request more when growing.
    #[must_use]
    pub(super) fn times(self, factor: f64) -> Self {
        match self {
            Self::Iterations(n) => {
                let least = if factor > 1.0 { n.saturating_add(1) } else { 1 };
                Self::Iterations(least.max((n as f64 * factor).ceil() as u64))
            }
            Self::Seconds(seconds) => Self::Seconds(seconds * factor),
        }
    }
}

/// Stage of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Calibration of the length of a round.
    Calibrating,
    /// Rounds until a steady state.
    Stabilising,
    /// Recorded rounds.
    Recording,
}

/// The next round to run. The server has to be idle (drained) before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedRound {
    /// Unique number, from 1.
    pub number: usize,
    /// Size.
    pub size: RoundSize,
    /// Stage.
    pub stage: Stage,
}

/// Result of a planned round.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRound {
    /// Time from the first request to the end of the last response.
    pub duration: Duration,
    /// Successful requests per second.
    pub throughput: f64,
    /// Why the round is invalid; empty if valid.
    pub violations: Vec<Violation>,
}

/// Use of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundUse {
    /// Calibration of the length.
    Calibration,
    /// Warm-up, or before a steady state.
    WarmUp,
    /// Invalid and ignored.
    #[serde(rename = "flawed")]
    Invalid,
    /// Valid, but not used: the round of another case was invalid, or other programs disturbed it.
    Discarded,
    /// Recorded.
    Recorded,
}

/// A round in the protocol's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedRound {
    /// Its number, from 1.
    pub number: usize,
    /// Size.
    #[serde(rename = "extent")]
    pub size: RoundSize,
    /// Duration in seconds.
    pub seconds: f64,
    /// Requests per second.
    pub throughput: f64,
    /// Use.
    pub used: RoundUse,
    /// Why the round is invalid.
    #[serde(default, rename = "flaws", skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// Result of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolResult {
    /// The recorded rounds are in a steady state.
    Stable,
    /// No steady state, and no headline figure.
    Unstable,
    /// Too many invalid rounds.
    Invalid,
}

/// Outcome of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The result.
    pub result: ProtocolResult,
    /// Reason as text.
    #[serde(rename = "because")]
    pub reason: String,
    /// The last round before the recorded ones.
    pub decided_at: Option<usize>,
    /// Throughput of the recorded rounds; `None` unless stable.
    pub throughput: Option<Spread>,
    /// 95 % t interval of its mean.
    pub interval: Option<Interval>,
    /// Remarks for the reader: rounds shorter or noisier than required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}
