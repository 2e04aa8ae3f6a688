//! The Lab as the console shows it: what was measured, and load that is put on this server itself.
//!
//! The doors are handed in by whoever puts the program together; load is made by a process of its
//! own. They may block.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most requests a second that may be asked for.
pub const MOST_RATE: u32 = 20_000;
/// Longest time that may be asked for, in seconds.
pub const MOST_SECONDS: u32 = 1800;

/// Finds a run by its name.
type Find<T> = dyn Fn(&str) -> Option<T> + Send + Sync;
/// Compares two runs by their names.
type Compare = dyn Fn(&str, &str) -> Result<LabComparison, String> + Send + Sync;

/// Starts a suite, for whom.
type Start = dyn Fn(&LabStart, &str) -> Result<LabProgress, LabRefusal> + Send + Sync;

/// The doors to the Lab.
pub struct Lab {
    /// What can be run, and what was.
    pub state: Box<dyn Fn() -> LabState + Send + Sync>,
    /// The load that is running, or ran last.
    pub progress: Box<dyn Fn() -> Option<LabProgress> + Send + Sync>,
    /// Starts a suite, for whom.
    pub start: Box<Start>,
    /// Ends the load; whether there was one.
    pub stop: Box<dyn Fn() -> bool + Send + Sync>,
    /// A run, case by case.
    pub run: Box<Find<LabRun>>,
    /// The report of a run: HTML.
    pub report: Box<Find<Vec<u8>>>,
    /// Two runs side by side; the error says which cannot be read.
    pub compare: Box<Compare>,
}

/// Why no load is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabRefusal {
    /// There is no such suite or listener, or a cap is too high: what.
    Bad(String),
    /// A load is running already.
    Running,
    /// It cannot be started: why not.
    Failed(String),
}

/// What can be run, and what was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabState {
    /// Suites that are built in.
    pub suites: Vec<LabSuite>,
    /// Base URLs of this server's own listeners.
    pub targets: Vec<String>,
    /// Most requests a second that may be asked for.
    pub most_rate: u32,
    /// Longest time that may be asked for, in seconds.
    pub most_seconds: u32,
    /// Folder with the folders of runs.
    pub folder: String,
    /// Runs whose results are there, the newest first, at most 200.
    pub runs: Vec<LabResult>,
}

/// A suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabSuite {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub about: String,
    /// About how long it takes: quick, usual, full.
    pub lengths: Vec<String>,
    /// What it asks for.
    pub requests: Vec<String>,
    /// Those of them that no route of this server answers.
    pub missing: Vec<String>,
}

/// The result of a run, in a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabResult {
    /// Name of its folder.
    pub run: String,
    /// Name of the suite, scenario or plan.
    pub name: String,
    /// When it started (RFC 3339).
    pub started: String,
    /// When it ended; empty of one that has not, or was broken off.
    pub ended: String,
    /// What was measured.
    pub target: String,
    /// It is a reduced run.
    pub quick: bool,
    /// The verdict; empty without a result.
    pub verdict: String,
    /// Cases.
    pub cases: usize,
    /// Samples of all cases.
    pub samples: u64,
    /// Most requests a second of a case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
}

/// A run, case by case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabRun {
    /// In a line.
    pub result: LabResult,
    /// Why the verdict is what it is.
    pub reasons: Vec<String>,
    /// The command that reproduces it.
    pub command: String,
    /// The machine.
    pub host: String,
    /// Its cases.
    pub cases: Vec<LabCase>,
    /// It has a report.
    pub report: bool,
}

/// A case of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabCase {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// The verdict on it.
    pub verdict: String,
    /// Why.
    pub reasons: Vec<String>,
    /// Requests a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// Samples.
    pub samples: u64,
    /// Share of errors, from 0 to 1.
    pub errors: f64,
    /// Response times in milliseconds: mean, p50, p90, p99.
    pub times_ms: [f64; 4],
}

/// Two runs side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabComparison {
    /// The run before.
    pub before: String,
    /// The run after it.
    pub after: String,
    /// Largest loss that is none, from 0 to 1.
    pub margin: f64,
    /// The verdict.
    pub verdict: String,
    /// Cases that both have.
    pub cases: Vec<LabDifference>,
    /// Cases that only one of them has.
    pub others: Vec<String>,
    /// What else differs, in words.
    pub differences: Vec<String>,
}

/// A case in both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabDifference {
    /// Its name.
    pub name: String,
    /// `better`, `same`, `worse`, `unclear` or `incomparable`.
    pub judgement: String,
    /// Requests a second before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// After over before, with the ends of its 95 % interval; none with too few rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<[f64; 3]>,
    /// Response times in milliseconds.
    pub times: Vec<LabTime>,
    /// Shares of errors before and after.
    pub errors: [f64; 2],
}

/// A response time in both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabTime {
    /// Which: `mean`, `p50`, …
    pub name: String,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
}

/// A suite to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabStart {
    /// Its name.
    pub suite: String,
    /// `quick`, `usual` or `full`.
    pub level: String,
    /// Base URL of one of this server's own listeners.
    pub target: String,
    /// Most requests a second.
    pub rate: u32,
    /// It ends after so many seconds.
    pub seconds: u32,
}

/// A load that is running, or ran last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabProgress {
    /// Name of the folder of its results.
    pub run: String,
    /// What was asked for.
    pub start: LabStart,
    /// Who started it.
    pub by: String,
    /// When (RFC 3339).
    pub since: String,
    /// It is running.
    pub running: bool,
    /// What it is doing.
    pub doing: String,
    /// The last seconds, at most 600.
    pub seconds: Vec<LabSecond>,
    /// The verdict, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Why there is none, though it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A second of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabSecond {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Samples that ended.
    pub samples: u64,
    /// Those that failed.
    pub errors: u64,
    /// Half of them took so many milliseconds at most.
    pub p50_ms: f64,
    /// The same of 99 %.
    pub p99_ms: f64,
}
