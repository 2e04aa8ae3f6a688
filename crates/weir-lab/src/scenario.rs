//! Scenario files: requests, target, load and measurement.
//!
//! ```text
//! YAML with places → cells (matrix × cases, `${name}` filled in) → check → one program a cell
//! ```
//!
//! All errors are reported at once, with line and remedy, as in weir's configuration. `${…}` is
//! replaced only in scenario files; `$${` is a literal `${`.

mod body;
mod cells;
mod checks;
mod fields;
mod keys;
mod load;
mod overrides;
mod published;
mod request;
mod resolve;
mod settings;
mod texts;

use crate::bounded_file::{self, FileError};
use crate::measure::Method;
use crate::program::Program;
use crate::protocol::CaseOrder;
use crate::results::{CaseAttributes, Published};
use crate::threshold::Threshold;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_document::finding::Findings;

/// A scenario, validated.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The server under test.
    pub target: Target,
    /// How the server is started; `None` for a running server.
    pub server: Option<Server>,
    /// Order of the rounds of the cases.
    pub order: CaseOrder,
    /// Measurement method of a cell.
    pub method: Method,
    /// Idle condition between rounds.
    pub idle: Idle,
    /// Observed subjects.
    pub observe: Observe,
    /// Thresholds.
    pub thresholds: Vec<Threshold>,
    /// Files that are required before a server starts: key sets of tokens.
    pub files: Vec<(PathBuf, String)>,
    /// Cells, one for each combination of matrix and cases.
    pub cells: Vec<Cell>,
}

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Base URL such as `http://127.0.0.1:8080`, without a trailing slash.
    pub base: String,
    /// HTTP/2.
    pub http2: bool,
    /// Do not verify the certificate.
    pub insecure: bool,
    /// Connect timeout.
    pub connect_timeout: Duration,
    /// Timeout to the end of a response.
    pub timeout: Duration,
}

/// A combination of values of matrix and cases.
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
    /// The backend.
    pub backend: Option<Backend>,
    /// Published figures.
    pub published: Vec<Published>,
    /// Attributes for the columns of published tables.
    pub attributes: CaseAttributes,
    /// The program.
    pub program: Program,
}

impl Cell {
    /// Name such as `users=100 payload=1KiB tracker=true`; empty for a single cell.
    pub fn name(&self) -> String {
        named(self.values.iter().chain(&self.case))
    }
}

/// `users=100 payload=1KiB`.
fn named<'a>(values: impl Iterator<Item = &'a (String, String)>) -> String {
    values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// How the server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Program or configuration.
    pub start: Start,
    /// `--set` of weir, for every case.
    pub sets: Vec<(String, String)>,
    /// Working directory.
    pub folder: PathBuf,
    /// Additional environment.
    pub env: Vec<(String, String)>,
    /// Path with a 2xx response once the server is ready; without, its port is open.
    pub ready: Option<String>,
    /// Time to become ready.
    pub ready_timeout: Duration,
    /// When the server is restarted.
    pub restart: Restart,
}

/// Program or configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// This weir with a configuration.
    Weir(PathBuf),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// When a server is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Restart {
    /// For each case.
    #[default]
    Case,
    /// For each cell.
    Cell,
    /// Never.
    Never,
}

/// The backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// weir's echo backend.
    Echo {
        /// Its port; 0 chooses a free one.
        port: u16,
        /// Delay of each response.
        delay: Duration,
    },
    /// A program and its arguments.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// URL with a 2xx response once the backend is ready.
        ready: Option<String>,
    },
}

/// Idle condition between rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Until weir's queues are empty: the journal is indexed and counted, and no event waits.
    Drained,
    /// Until these gauges are 0.
    Zero(Vec<String>),
    /// A time.
    Time(Duration),
}

/// Observed subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Interval.
    pub every: Duration,
    /// Processes.
    pub processes: Vec<Process>,
    /// URL of the Prometheus metrics of the server.
    pub metrics: Option<String>,
    /// Names of metrics.
    pub gauges: Vec<String>,
    /// Unified GC log of a JVM.
    pub gc_log: Option<PathBuf>,
}

/// An observed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The server started by the Lab.
    Server,
    /// The backend started by the Lab.
    Backend,
    /// Any other process.
    Pid(u32),
}

/// Extent of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Short rounds of a reduced matrix.
    Quick,
    /// The file without changes.
    #[default]
    Usual,
    /// The complete run.
    Full,
}

/// Overrides of a scenario file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Extent of the run.
    pub level: Level,
    /// Base URL of another, running server with its backend: `server`, `backend` and `cases` of the
    /// file are ignored.
    pub target: Option<String>,
    /// Paths and values, as YAML, which override everything else.
    pub sets: Vec<(String, String)>,
}

/// Reads a scenario. Relative files are resolved against its folder.
///
/// # Errors
/// All findings, at least one of them an error. On success the findings are warnings.
pub fn load(path: &Path, over: &Overrides) -> Result<(Scenario, Findings), Findings> {
    let read = bounded_file::read(path, FILE_BYTES)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| FileError::new(path, error)));
    match read {
        Ok(text) => load_text(path, &text, over),
        Err(error) => {
            let mut document = weir_document::document::Document::read(path, "");
            let code = weir_document::finding::codes::BAD_FILE;
            document.report.error_nowhere(code, error.to_string());
            Err(document.findings())
        }
    }
}

/// Largest scenario.
const FILE_BYTES: u64 = 16 << 20;

/// Reads a scenario from a text. `path` is used in findings, and relative files are resolved
/// against its folder.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    path: &Path,
    text: &str,
    over: &Overrides,
) -> Result<(Scenario, Findings), Findings> {
    resolve::resolve(path, text, over)
}

/// The JSON Schema of scenario files.
pub fn schema() -> Value {
    let mut schema = weir_document::schema::schema(&keys::ROOT, "weir lab scenario", &[]);
    cells::allow_placeholders(&mut schema);
    schema
}

#[cfg(test)]
mod tests;
