//! A step of a search, as in `summary.json`.

use serde::{Deserialize, Serialize};

/// A step with a constant load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadStep {
    /// The load: `rate` or `users`.
    #[serde(flatten)]
    pub load: SearchedLoad,
    /// Successful samples per second.
    pub achieved: f64,
    /// Share of requests that failed or were interrupted, 0 to 1.
    pub errors: f64,
    /// Dropped iterations.
    pub dropped: u64,
    /// Number of the search, from 1: a search is repeated for its interval.
    #[serde(default = "first")]
    pub search: usize,
    /// The longer step that confirms the found load.
    pub confirms: bool,
    /// The objective was met.
    #[serde(rename = "kept")]
    pub met: bool,
    /// The verdict.
    pub verdict: StepVerdict,
}

fn first() -> usize {
    1
}

/// The load of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchedLoad {
    /// Offered iterations per second.
    Rate(f64),
    /// Users.
    Users(u32),
}

impl SearchedLoad {
    /// The load as a number.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Rate(rate) => rate,
            Self::Users(users) => users.into(),
        }
    }

    /// What is counted, in the plural.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate(_) => "iterations/s",
            Self::Users(_) => "users",
        }
    }

    /// Another amount of the same load.
    #[must_use]
    pub(super) fn with(self, value: f64) -> Self {
        match self {
            Self::Rate(_) => Self::Rate(value),
            Self::Users(_) => Self::Users(value as u32),
        }
    }
}

impl std::fmt::Display for SearchedLoad {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rate(rate) => write!(out, "{rate:.0}/s"),
            Self::Users(1) => out.write_str("1 user"),
            Self::Users(users) => write!(out, "{users} users"),
        }
    }
}

/// Verdict on a load.
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

impl std::fmt::Display for LoadStep {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.load, self.verdict)
    }
}
