//! The Lab in the admin API: results, and load tests on this server.

mod load_test;
pub(crate) mod results;

pub use load_test::Lab;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Highest rate of a load test, in requests per second.
pub(crate) const MAX_RATE: u32 = 20_000;
/// Longest load test, in seconds.
pub(crate) const MAX_SECONDS: u32 = 1800;

/// Why a load test is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabError {
    /// Unknown suite or target, or a value above its maximum; details.
    Bad(String),
    /// A load test is running already.
    Running,
    /// The load test cannot be started; reason.
    Failed(String),
}

/// Suites, targets and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabState {
    /// Built-in suites.
    pub suites: Vec<LabSuite>,
    /// Base URLs of this server's own listeners.
    pub targets: Vec<String>,
    /// Highest rate, in requests per second.
    pub most_rate: u32,
    /// Longest duration in seconds.
    pub most_seconds: u32,
    /// Folder with the folders of runs.
    pub folder: String,
    /// Runs with results, newest first, at most 200.
    pub runs: Vec<LabResult>,
}

/// A suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabSuite {
    /// Name.
    pub name: String,
    /// Purpose of the suite.
    pub about: String,
    /// Approximate durations: quick, usual, full.
    pub lengths: Vec<String>,
    /// Its requests.
    pub requests: Vec<String>,
    /// Requests for which this server has no route.
    pub missing: Vec<String>,
}

/// Summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabResult {
    /// Name of its folder.
    pub run: String,
    /// Name of the suite, scenario or plan.
    pub name: String,
    /// Start (RFC 3339).
    pub started: String,
    /// End; empty if the run has not ended or was aborted.
    pub ended: String,
    /// The measured server.
    pub target: String,
    /// The run was reduced.
    pub quick: bool,
    /// The verdict; empty without a result.
    pub verdict: String,
    /// Number of cases.
    pub cases: usize,
    /// Samples of all cases.
    pub samples: u64,
    /// Highest throughput of a case, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
}

/// A run with its cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabRun {
    /// Summary.
    pub result: LabResult,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// The command that reproduces the run.
    pub command: String,
    /// The machine.
    pub host: String,
    /// The cases.
    pub cases: Vec<LabCase>,
    /// A report exists.
    pub report: bool,
}

/// A case of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabCase {
    /// Name; empty if it is the only case.
    pub name: String,
    /// Verdict.
    pub verdict: String,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Throughput in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// Samples.
    pub samples: u64,
    /// Error rate, from 0 to 1.
    pub errors: f64,
    /// Response times in milliseconds: mean, p50, p90, p99.
    pub times_ms: [f64; 4],
}

/// Comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabComparison {
    /// The earlier run.
    pub before: String,
    /// The later run.
    pub after: String,
    /// Regression margin, from 0 to 1.
    pub margin: f64,
    /// Verdict.
    pub verdict: String,
    /// Cases of both runs.
    pub cases: Vec<LabDifference>,
    /// Cases of one run only.
    pub others: Vec<String>,
    /// Other differences.
    pub differences: Vec<String>,
}

/// A case of both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabDifference {
    /// Name.
    pub name: String,
    /// `better`, `same`, `worse`, `unclear` or `incomparable`.
    pub judgement: String,
    /// Earlier throughput in requests per second; absent without a valid figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Later throughput in requests per second; absent without a valid figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// Ratio of later to earlier with its 95 % confidence interval; absent with too few rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<[f64; 3]>,
    /// Response times in milliseconds; empty if a run has no recorded rounds.
    pub times: Vec<LabTime>,
    /// Earlier and later error rate.
    pub errors: [f64; 2],
}

/// A response time of both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabTime {
    /// Name: `mean`, `p50`, …
    pub name: String,
    /// Earlier.
    pub before: f64,
    /// Later.
    pub after: f64,
}

/// A load test to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabStart {
    /// Name of the suite.
    pub suite: String,
    /// Length: `quick`, `usual` or `full`.
    pub level: String,
    /// Base URL of one of this server's own listeners.
    pub target: String,
    /// Maximum rate in requests per second.
    pub rate: u32,
    /// Maximum duration in seconds.
    pub seconds: u32,
}

/// The current or last load test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabProgress {
    /// Folder name of its results.
    pub run: String,
    /// The request that started it.
    pub start: LabStart,
    /// Name of the token that started it.
    pub by: String,
    /// Start (RFC 3339).
    pub since: String,
    /// It is running.
    pub running: bool,
    /// Current step.
    pub doing: String,
    /// The last seconds, at most 600.
    pub seconds: Vec<LabSecond>,
    /// The verdict, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Why an ended test has no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A second of a load test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabSecond {
    /// End of the second, in seconds since 1970.
    pub at: u64,
    /// Completed samples.
    pub samples: u64,
    /// Failed samples.
    pub errors: u64,
    /// Median response time in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the response times in milliseconds.
    pub p99_ms: f64,
}
