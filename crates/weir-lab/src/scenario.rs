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

pub use resolve::load_text;
pub use settings::{Backend, Echo, Idle, Observe, Process, Restart, Server, Start, Target};

use crate::bounded_file::{self, FileError};
use crate::measure::Method;
use crate::program::Program;
use crate::protocol::CaseOrder;
use crate::results::{CaseAttributes, Published};
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
