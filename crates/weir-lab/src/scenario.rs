//! Scenario files: requests, target, load and measurement.
//!
//! ```text
//! YAML with places → cells (matrix × cases, `${name}` filled in) → check → one program a cell
//! ```
//!
//! All errors are reported at once, with line and remedy, as in weir's configuration. `${…}` is
//! replaced only in scenario files; `$${` is a literal `${`.

mod axes;
mod bars;
mod body;
mod cells;
mod checks;
mod conditions;
mod contenders;
mod feeders;
mod fields;
mod grpc;
mod keys;
mod load;
mod mix;
mod only;
mod overrides;
mod prepare;
mod probes;
mod published;
mod reference;
mod request;
mod resolve;
mod search;
mod settings;
mod side_loads;
mod streams;
mod texts;
mod tls;

pub use contenders::Contender;
pub use load::MeasuredRate;
pub(crate) use load::set_rate;
pub use prepare::Preparation;
pub use reference::reference;
pub use resolve::load_text;
pub use settings::{
    Backend, BackendStart, CpuSource, Echo, Idle, Observe, Restart, Server, Start, Target,
};

use crate::bars::ScenarioBar;
use crate::bounded_file::{self, FileError};
use crate::foreign::ForeignGenerator;
use crate::measure::Method;
use crate::program::{Check, Program};
use crate::protocol::CaseOrder;
use crate::results::{CaseAttributes, Published};
use crate::stop::StopCondition;
use crate::threshold::Threshold;
use serde_json::Value;
use std::path::{Path, PathBuf};
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
    /// Commands that run before the first server starts.
    pub prepare: Vec<Preparation>,
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
    /// Conditions that end the run early.
    pub stop: Vec<StopCondition>,
    /// Files that are required before a server starts: key sets of tokens.
    pub files: Vec<(PathBuf, String)>,
    /// A feeder signs tokens with a key that was generated when the scenario was read.
    pub generates_keys: bool,
    /// Comparisons of contenders.
    pub bars: Vec<ScenarioBar>,
    /// Folder of the file.
    pub folder: PathBuf,
    /// Cells, one for each combination of matrix and cases.
    pub cells: Vec<Cell>,
}

impl Scenario {
    /// How the server of a cell is started; `None` for a running server.
    #[must_use]
    pub fn server_of<'s>(&'s self, cell: &'s Cell) -> Option<&'s Server> {
        cell.contender.as_ref().map(|contender| &contender.server).or(self.server.as_ref())
    }

    /// Why agents cannot generate the load; `None` if they can.
    #[must_use]
    pub fn needs_single_generator(&self) -> Option<&'static str> {
        if self.generates_keys {
            return Some("agents would sign tokens with different keys: set `key` of `jwt`");
        }
        if self.cells.iter().any(|cell| !cell.generator_cores.is_empty()) {
            return Some("`cores` of the generator are those of this machine: omit --agents");
        }
        let paired = matches!(self.method, Method::Paired(_));
        if paired || self.cells.iter().any(|cell| cell.contender.is_some()) {
            return Some("contenders are compared under the load of this machine: omit --agents");
        }
        if self.cells.iter().any(|cell| cell.generator.is_some()) {
            return Some("other load generators run on this machine: omit --agents");
        }
        if self.cells.iter().any(|cell| cell.setup.is_some() || cell.background.is_some()) {
            return Some("`setup` and `background` are loads of this machine: omit --agents");
        }
        let measured = self.cells.iter().any(|cell| cell.rate.is_some());
        measured.then_some("a rate that is a share of a measured one needs a single generator")
    }
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
    /// The contender with its server, if there are contenders.
    pub contender: Option<Contender>,
    /// Another load generator than the Lab.
    pub generator: Option<ForeignGenerator>,
    /// Cores of the generator; all if empty.
    pub generator_cores: Vec<usize>,
    /// The rate, if it is known only during the run.
    pub rate: Option<MeasuredRate>,
    /// Checks of a first response.
    pub verify: Vec<Check>,
    /// Requests that are sent once before the load.
    pub probes: Option<Program>,
    /// The backend.
    pub backend: Option<Backend>,
    /// Published figures.
    pub published: Vec<Published>,
    /// Attributes for the columns of published tables.
    pub attributes: CaseAttributes,
    /// The program.
    pub program: Program,
    /// The load of the server after its start.
    pub setup: Option<Program>,
    /// The load during each round that is not reported.
    pub background: Option<Program>,
}

impl Cell {
    /// Whether the backlog follows from the rate, which is measured before the cell.
    pub(crate) fn has_default_backlog(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.default_backlog)
    }

    /// Name of the contender and levels of the factors, as in bars: `nginx`, `weir/true`.
    #[must_use]
    pub fn contender_name(&self) -> String {
        self.case.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/")
    }

    /// Name of the values of the matrix; empty without.
    #[must_use]
    pub fn load_name(&self) -> String {
        named(self.values.iter())
    }

    /// Name such as `users=100 payload=1KiB tracker=true`; empty for a single cell.
    pub fn name(&self) -> String {
        named(self.values.iter().chain(&self.case))
    }
}

/// `users=100 payload=1KiB`.
fn named<'a>(values: impl Iterator<Item = &'a (String, String)>) -> String {
    values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
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
            document.report.error(code, None, error.to_string());
            Err(document.findings())
        }
    }
}

/// Largest scenario.
const FILE_BYTES: u64 = 16 << 20;

/// The JSON Schema of scenario files.
pub fn schema() -> Value {
    let mut schema = weir_document::schema::schema(&keys::ROOT, "weir lab scenario", &[]);
    cells::allow_placeholders(&mut schema);
    schema
}

#[cfg(test)]
mod tests;
