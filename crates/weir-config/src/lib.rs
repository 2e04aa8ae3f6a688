//! Configuration: text to a validated Config, or every reason why not; compiled expressions,
//! paths and maps.
//!
//! ```text
//! files → draft (nodes with places) → check (against the description of all keys)
//!       → resolve (names, files, keys, expressions) → Config
//! ```
//!
//! Every stage notes its findings and goes on, so that all of them are reported at once.

pub mod amount;
pub mod body_mask;
pub mod business_keys;
mod check;
pub mod config;
pub mod document;
mod draft;
pub mod expr;
pub mod finding;
mod json_tokens;
pub mod key_set;
pub mod map;
mod openapi;
mod path_pattern;
pub mod price;
pub mod redaction;
mod reference;
mod resolve;
mod restart;
mod schema;
pub mod secret_file;
mod secret_names;
mod shape;
mod source_map;
pub mod units;
mod url_encoding;
pub mod validation;
pub mod xml;

use draft::{Draft, Surroundings};
use finding::{Diagnostics, Findings};
use std::path::{Path, PathBuf};

pub use body_mask::BodyMask;
pub use business_keys::{BusinessKeys, RequestView};
pub use config::*;
pub use openapi::{Answers, Imported, import_openapi};
pub use reference::{findings as findings_reference, reference};
pub use schema::schema;
pub use secret_names::names_credential;

/// What to load: a file or a folder with `weir.yaml`, and what the command line says over it.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// File or folder.
    pub path: PathBuf,
    /// `--set path=value`, in order; the value is YAML.
    pub overrides: Vec<(String, String)>,
}

/// Loads, resolves and validates.
///
/// # Errors
/// Every finding at once, at least one of them an error. On success the findings are warnings.
pub fn load(source: &Source) -> Result<(Config, Findings), Findings> {
    load_draft(&source.path, None, &source.overrides, Surroundings::Process)
}

/// Loads a text without reading any file or the environment: `include:`, `file:` and
/// `${env:NAME}` are findings. `name` stands for its path.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str) -> Result<(Config, Findings), Findings> {
    load_draft(Path::new(name), Some(text), &[], Surroundings::Nothing)
}

fn load_draft(
    path: &Path,
    text: Option<&str>,
    overrides: &[(String, String)],
    surroundings: Surroundings,
) -> Result<(Config, Findings), Findings> {
    let mut report = Diagnostics::default();
    let (config, texts, files) = match draft::read(path, text, overrides, surroundings, &mut report)
    {
        Ok(draft) => (validate(&draft, &mut report), draft.texts, draft.files),
        Err((texts, files)) => (None, texts, files),
    };
    let files = files.into_iter().chain(report.read_files().iter().cloned()).collect();
    if config.is_none() && !report.has_errors() {
        // Every way to no Config has its finding; should one be missing, silence would be worse.
        report.error_nowhere(finding::codes::BAD_VALUE, "this configuration cannot be resolved");
    }
    let findings = Findings {
        list: report.finish(&texts),
        files,
        texts: texts.redact(report.secrets()).redact_unread(report.unread()),
    };
    match config {
        Some(config) if !report.has_errors() => Ok((config, findings)),
        _ => Err(findings),
    }
}

fn validate(draft: &Draft, report: &mut Diagnostics) -> Option<Config> {
    check::check(&draft.root, &resolve::ROOT, report);
    for node in &draft.included {
        check::check(node, &resolve::INCLUDED, report);
    }
    resolve::resolve(draft, report)
}
