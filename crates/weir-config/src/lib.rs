//! Configuration: text to a Config, or all errors.
//!
//! ```text
//! files → draft (nodes with locations) → check (against the description of all keys)
//!       → resolve (names, files, keys, expressions) → Loaded → compile (by others) → Config
//! ```
//!
//! Every stage adds its findings and continues, so that all of them are reported at once.

mod algorithm;
pub mod config;
mod formats;
mod openapi;
mod path_pattern;
mod reference;
mod resolve;
mod restart;
pub mod secret_file;
pub mod validation;
pub mod versions;

use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_document::draft::{self, Draft, Node, Surroundings, VersionFolder};
use weir_document::finding::{self, Diagnostics, Findings};
use weir_document::source_map::SourceMap;
use weir_document::{check, schema};

pub use algorithm::{Algorithm, KeyFamily};
pub use config::*;
pub use openapi::{
    CallCredential, CompileSchemas, ExampleBody, ExampleCall, ExampleCalls, ImportHandler,
    Imported, example_calls, import_openapi,
};
pub use path_pattern::{PathPattern, Segment};
pub use reference::{findings as findings_reference, reference};

/// What to load: a file or a folder with `weir.yaml`, and the overrides of the command line.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// File or folder.
    pub path: PathBuf,
    /// `--set path=value`, in order; the value is YAML.
    pub overrides: Vec<(String, String)>,
    /// The version whose sections are added, with `fleet.config.source: fleet`.
    pub version: VersionChoice,
}

/// Which version of a fleet's configuration is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionChoice {
    /// The one in force, tried or not.
    #[default]
    Current,
    /// The last good one: a process that ended while it tried another one starts with it.
    Good,
    /// None: the own file alone.
    None,
    /// The one in this folder.
    Folder(PathBuf),
}

/// A configuration as plain data, and the findings up to now. Compilation adds further ones.
#[derive(Debug)]
pub struct Loaded {
    /// `None` if a part cannot be resolved, which a finding reports.
    pub config: Option<Config>,
    /// Sources to be compiled.
    pub uncompiled: Uncompiled,
    /// Findings by their locations.
    pub report: Diagnostics,
    texts: SourceMap,
    files: Vec<PathBuf>,
}

/// Loads and resolves a configuration.
pub fn load(source: &Source) -> Loaded {
    let version = |root: &Node, texts: &SourceMap| versions::folder(root, texts, &source.version);
    load_draft(&source.path, None, &source.overrides, Surroundings::Process, &version)
}

/// Loads a text without reading any file or the environment: `include:`, `file:` and
/// `${env:NAME}` are findings. `name` stands for its path.
pub fn load_text(name: &str, text: &str) -> Loaded {
    load_draft(Path::new(name), Some(text), &[], Surroundings::Nothing, &|_, _| None)
}

fn load_draft(
    path: &Path,
    text: Option<&str>,
    overrides: &[(String, String)],
    surroundings: Surroundings,
    version: VersionFolder<'_>,
) -> Loaded {
    let mut report = Diagnostics::default();
    let ((config, uncompiled), texts, files) =
        match draft::read(path, text, overrides, surroundings, version, &mut report) {
            Ok(draft) => {
                let (config, uncompiled) = validate(&draft, &mut report);
                let uncompiled = Uncompiled { documents: draft.described, ..uncompiled };
                ((config, uncompiled), draft.texts, draft.files)
            }
            Err((texts, files)) => ((None, Uncompiled::default()), texts, files),
        };
    Loaded { config, uncompiled, report, texts, files }
}

impl Loaded {
    /// The configuration with its warnings.
    ///
    /// # Errors
    /// All findings, at least one of them an error.
    pub fn finish(mut self) -> Result<(Config, Findings), Findings> {
        let files = self.files.into_iter().chain(self.report.read_files().iter().cloned());
        let files = files.collect();
        if self.config.is_none() && !self.report.has_errors() {
            // Without a Config there is always a finding; this one is a safeguard against a missing
            // one.
            let message = "this configuration cannot be resolved";
            self.report.error(finding::codes::BAD_VALUE, None, message);
        }
        let findings = self.report.findings(self.texts, files);
        match self.config {
            Some(config) if !self.report.has_errors() => Ok((config, findings)),
            _ => Err(findings),
        }
    }
}

fn validate(draft: &Draft, report: &mut Diagnostics) -> (Option<Config>, Uncompiled) {
    check::check(&draft.root, &resolve::ROOT, report);
    for node in &draft.included {
        check::check(node, &resolve::INCLUDED, report);
    }
    resolve::resolve(draft, report)
}

/// The JSON Schema of the main file, with a definition of included files.
pub fn schema() -> Value {
    schema::schema(&resolve::ROOT, "weir configuration", &[&resolve::INCLUDED])
}
