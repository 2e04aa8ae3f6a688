//! Findings: what is wrong with a configuration, where, and what would be right.

pub mod codes;
mod diagnostics;
mod render;

pub use diagnostics::{Diagnostic, Diagnostics};

use crate::source_map::SourceMap;
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is not used.
    Error,
    /// The configuration is used; the user should know.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable code (`unknown-key`); [`codes::ALL`] lists them.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// File, as found from the path the user gave; `--set path` for an override.
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// 1-based line; 0 when the finding has no line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Characters it takes on its line.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, when that is known.
    pub help: Option<String>,
    /// Other places that have to do with it.
    pub related: Vec<Place>,
}

/// Another place that has to do with a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// File.
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Characters it takes on its line.
    pub width: usize,
    /// What it has to do with it.
    pub label: String,
}

/// A path that is no UTF-8 must not keep the finding from being reported.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl Finding {
    /// A finding without a place, for the caller to fill in.
    pub fn new(code: &'static str, severity: Severity) -> Self {
        Self {
            code,
            severity,
            file: PathBuf::new(),
            line: 0,
            column: 0,
            width: 0,
            message: String::new(),
            help: None,
            related: Vec::new(),
        }
    }
}

/// All that was found; one error is enough to refuse a configuration.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order of files and lines.
    pub list: Vec<Finding>,
    /// Every file that was read, or looked for, on the way: what to watch for a better version.
    pub files: Vec<PathBuf>,
    /// The texts findings stand in, secrets blotted out.
    pub texts: SourceMap,
}

impl Findings {
    /// Any error among them?
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|f| f.severity == Severity::Error)
    }

    /// The texts that were read, with secrets blotted out: files and `--set` values.
    pub fn sources(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.texts.iter().map(|text| (text.path.as_path(), &*text.text))
    }

    /// As text with source excerpts, the way a compiler prints them.
    pub fn render(&self, color: bool) -> String {
        render::render(self, color)
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Code of the finding.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Fault {
    /// A value that is not accepted.
    pub fn value(message: impl Into<String>) -> Self {
        Self { code: codes::BAD_VALUE, message: message.into(), help: None }
    }

    /// With another code.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Says what would be right.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Names as messages list them: `a`, `b`, `c`.
pub fn words(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// Longest name that another is suggested for, in bytes: the comparison takes the product of both
/// lengths.
const SUGGESTED: usize = 200;

/// The candidate nearest to `name`, if one is near enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > SUGGESTED {
        return None;
    }
    let lower = name.to_lowercase();
    let length = lower.chars().count();
    candidates
        .filter_map(|c| {
            let most = (c.chars().count().min(lower.len()) / 3).max(1);
            let candidate = c.to_lowercase();
            // The distance is no less than the difference of the lengths.
            let is_comparable = candidate.chars().count().abs_diff(length) <= most;
            let distance =
                is_comparable.then(|| strsim::damerau_levenshtein(&lower, &candidate))?;
            (distance <= most).then_some((distance, c))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}
