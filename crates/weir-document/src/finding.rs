//! Findings: errors and warnings of a configuration, with locations and remedies.

pub mod codes;
mod diagnostics;
mod render;

pub use diagnostics::{Diagnostic, Diagnostics};

use crate::source_map::SourceMap;
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is rejected.
    #[default]
    Error,
    /// The configuration is used; the user is informed.
    Warning,
}

/// An error or a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable code (`unknown-key`); [`codes::ALL`] lists them.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// File, as found from the path the user gave; `--set path` for an override.
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// 1-based line; 0 when the finding has no line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Number of characters on the line.
    pub width: usize,
    /// The problem.
    pub message: String,
    /// The remedy, if known.
    pub help: Option<String>,
    /// Related locations.
    pub related: Vec<RelatedLocation>,
}

/// A location related to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelatedLocation {
    /// File.
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Number of characters on the line.
    pub width: usize,
    /// The relation to the finding.
    pub label: String,
}

/// A path that is not UTF-8 must not prevent the report.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl Finding {
    /// A finding without a location, to be completed by the caller.
    pub fn new(code: &'static str, severity: Severity) -> Self {
        Self { code, severity, ..Self::default() }
    }
}

/// All findings; one error rejects the configuration.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order of files and lines.
    pub list: Vec<Finding>,
    /// Every file that was read or tested for existence, to be watched for changes.
    pub files: Vec<PathBuf>,
    /// The texts of the findings, with secrets redacted.
    pub texts: SourceMap,
    /// Where secrets are from.
    pub secrets: Box<Secrets>,
}

/// Where the secrets of a configuration are from.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Files that `file:` names as their values.
    pub files: Vec<PathBuf>,
    /// Secrets that stand in the texts themselves. They are findings only for a version of a fleet.
    pub literal: Vec<Finding>,
}

impl Findings {
    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|f| f.severity == Severity::Error)
    }

    /// The texts that were read, with secrets redacted: files and `--set` values.
    pub fn sources(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.texts.iter().map(|text| (text.path.as_path(), &*text.text))
    }

    /// The findings with source excerpts, in the style of a compiler.
    pub fn render(&self, color: bool) -> String {
        render::render(self, color)
    }
}

/// Why a string is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Code of the finding.
    pub code: &'static str,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Fault {
    /// A value that is not accepted.
    pub fn value(message: impl Into<String>) -> Self {
        Self { code: codes::BAD_VALUE, message: message.into(), help: None }
    }

    /// Sets another code.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Names as a list for messages: `a`, `b`, `c`.
pub fn words(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// Maximum length of a name with a suggestion, in bytes: the comparison takes time proportional to
/// the product of both lengths.
const MAX_SUGGESTED: usize = 200;

/// The candidate nearest to `name`, if the distance is small enough for a misspelling.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_SUGGESTED {
        return None;
    }
    let lower = name.to_lowercase();
    let length = lower.chars().count();
    candidates
        .filter_map(|c| {
            let max_distance = (c.chars().count().min(lower.len()) / 3).max(1);
            let candidate = c.to_lowercase();
            // The distance is at least the difference of the lengths.
            let is_comparable = candidate.chars().count().abs_diff(length) <= max_distance;
            let distance =
                is_comparable.then(|| strsim::damerau_levenshtein(&lower, &candidate))?;
            (distance <= max_distance).then_some((distance, c))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}
