//! Scenario files: what is sent to which server, by how many users, and how it is measured.
//!
//! ```text
//! YAML with places → cells (matrix × cases, `${name}` filled in) → check → one program a cell
//! ```
//!
//! Everything that is wrong is found at once, with line and remedy, as in weir's configuration.
//! `${…}` is filled in in scenario files and nowhere else; `$${` is a `${` that is meant.

mod body;
mod cells;
mod checks;
mod fields;
mod keys;
mod load;
mod over;
mod published;
mod request;
mod resolve;
mod settings;
mod texts;

use crate::measure::Method;
use crate::program::Program;
use crate::protocol::Arrangement;
use crate::results::{Published, Traits};
use crate::threshold::Threshold;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_config::finding::Findings;

/// A scenario, validated.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The server under test.
    pub target: Target,
    /// How it is started; `None` if it is there already.
    pub server: Option<Server>,
    /// How rounds of the cases follow each other.
    pub order: Arrangement,
    /// How a cell is measured.
    pub method: Method,
    /// What is waited for between rounds.
    pub idle: Idle,
    /// What is watched.
    pub observe: Observe,
    /// Promises.
    pub thresholds: Vec<Threshold>,
    /// Files that have to be there before a server starts: key sets of tokens.
    pub files: Vec<(PathBuf, String)>,
    /// Cells, one for each combination of matrix and cases.
    pub cells: Vec<Cell>,
}

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `http://127.0.0.1:8080`, without a slash at the end.
    pub base: String,
    /// HTTP/2.
    pub http2: bool,
    /// Its certificate is not verified.
    pub insecure: bool,
    /// Longest time to open a connection.
    pub connect_timeout: Duration,
    /// Longest time to the end of an answer.
    pub timeout: Duration,
}

/// A combination of values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Values of the matrix, in its order.
    pub values: Vec<(String, String)>,
    /// Levels of the factors, in their order.
    pub case: Vec<(String, String)>,
    /// `--set` of the server.
    pub sets: Vec<(String, String)>,
    /// Environment of the server's command.
    pub env: Vec<(String, String)>,
    /// Arguments added to the server's command.
    pub args: Vec<String>,
    /// What is behind the server.
    pub backend: Option<Backend>,
    /// What others measured.
    pub published: Vec<Published>,
    /// What published tables have columns for.
    pub traits: Traits,
    /// What its users do.
    pub program: Program,
}

impl Cell {
    /// `users=100 payload=1KiB tracker=true`; empty if there is only one.
    pub fn name(&self) -> String {
        named(self.values.iter().chain(&self.case))
    }
}

/// `users=100 payload=1KiB`.
fn named<'a>(values: impl Iterator<Item = &'a (String, String)>) -> String {
    values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// How a server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What is started.
    pub start: Start,
    /// `--set` of weir, for every case.
    pub sets: Vec<(String, String)>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Its environment, beside the Lab's own.
    pub env: Vec<(String, String)>,
    /// Path that answers 2xx once it is ready; without, its port is open.
    pub ready: Option<String>,
    /// How long that may take.
    pub patience: Duration,
    /// When it is started anew.
    pub restart: Restart,
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// This weir with a configuration.
    Weir(PathBuf),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// When a server is started anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// For each case.
    #[default]
    Case,
    /// For each cell.
    Cell,
    /// Not at all.
    Never,
}

/// What is behind the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// weir's echo backend.
    Echo {
        /// Where it listens; 0 is any free one.
        port: u16,
        /// How long it waits before each answer.
        delay: Duration,
    },
    /// A program and its arguments.
    Command {
        /// They.
        command: Vec<String>,
        /// URL that answers 2xx once it is ready.
        ready: Option<String>,
    },
}

/// What is waited for between rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Until weir's queues are empty: journal indexed and counted, no event waiting.
    Drained,
    /// Until these gauges are 0.
    Zero(Vec<String>),
    /// A time.
    Time(Duration),
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observe {
    /// How often.
    pub every: Duration,
    /// Processes.
    pub processes: Vec<Process>,
    /// URL of the server's Prometheus metrics.
    pub metrics: Option<String>,
    /// Names of metrics.
    pub gauges: Vec<String>,
    /// Unified GC log of a JVM.
    pub gc_log: Option<PathBuf>,
}

/// A process that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The server that the Lab started.
    Server,
    /// The backend that the Lab started.
    Backend,
    /// Any other.
    Pid(u32),
}

/// How much effort a run is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Short rounds of a reduced matrix: to see that things work.
    Quick,
    /// As the file says.
    #[default]
    Usual,
    /// The whole.
    Full,
}

/// What is set over a scenario file.
#[derive(Clone, Debug, Default)]
pub struct Over {
    /// How much effort.
    pub level: Level,
    /// Base URL of another server, which is there already, with what is behind it: `server`,
    /// `backend` and `cases` of the file are left out.
    pub target: Option<String>,
    /// Paths and values, as YAML, over everything else.
    pub sets: Vec<(String, String)>,
}

/// Reads a scenario. Files that it names are looked for beside it.
///
/// # Errors
/// Every finding at once, at least one of them an error. On success the findings are warnings.
pub fn load(path: &Path, over: &Over) -> Result<(Scenario, Findings), Findings> {
    match read(path) {
        Ok(text) => load_text(path, &text, over),
        Err(error) => {
            let mut document = weir_config::document::Document::read(path, "");
            let message = format!("`{}` cannot be read: {error}", path.display());
            document.report.error_nowhere(weir_config::finding::codes::BAD_FILE, message);
            Err(document.findings())
        }
    }
}

/// Largest scenario.
const FILE_BYTES: u64 = 16 << 20;

fn read(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES {
        return Err(std::io::Error::other("it is no file, or larger than 16 MiB"));
    }
    std::fs::read_to_string(path)
}

/// Reads a scenario from a text; `path` stands for it in findings, and files that it names are
/// looked for beside that.
///
/// # Errors
/// As [`load`].
pub fn load_text(path: &Path, text: &str, over: &Over) -> Result<(Scenario, Findings), Findings> {
    resolve::resolve(path, text, over)
}

/// The JSON Schema of scenario files.
pub fn schema() -> Value {
    let mut schema = weir_config::document::schema(&keys::ROOT, "weir lab scenario");
    cells::loosen(&mut schema);
    schema
}

#[cfg(test)]
mod tests;
