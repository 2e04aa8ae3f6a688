//! JMeter's test plans (`.jmx`), translated into a [`Program`].
//!
//! ```text
//! XML → tree (elements, properties, lines) → texts and variables → thread groups → steps
//! ```
//!
//! Everything that cannot be run is said at once, with element and line. What a translation would
//! have to guess is refused as well: a plan that runs does what JMeter 5.6 does with it. With
//! `lenient` elements of unknown kinds are skipped, and said.

mod assertions;
mod control;
mod extractors;
mod functions;
mod http;
mod http_body;
mod scope;
mod text;
mod threads;
mod translate;
mod tree;
mod variables;

use crate::program::Program;
use std::fmt;
use std::path::{Path, PathBuf};

/// Largest plan.
const FILE_BYTES: u64 = 64 << 20;

/// How a plan is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-Jname=value`, the last of a name holds.
    pub properties: Vec<(String, String)>,
    /// Elements and functions that the Lab does not have are skipped.
    pub lenient: bool,
}

/// A plan, translated.
#[derive(Debug)]
pub struct Plan {
    /// What its users do.
    pub program: Program,
    /// What was skipped.
    pub skipped: Vec<Problem>,
    /// Files that its listeners write results to.
    pub results: Vec<PathBuf>,
}

/// Something that is wrong with a plan, or that the Lab does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the element, from 1.
    pub line: u64,
    /// The element: ``HTTPSamplerProxy `login` ``; empty for the plan as a whole.
    pub element: String,
    /// What is wrong.
    pub message: String,
    /// `lenient` skips it.
    pub skippable: bool,
}

impl Problem {
    fn new(line: u64, message: impl Into<String>) -> Self {
        Self { line, element: String::new(), message: message.into(), skippable: false }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.element.is_empty() {
            write!(f, "{}: ", self.element)?;
        }
        f.write_str(&self.message)
    }
}

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JmxError {
    /// The file cannot be read.
    #[error("`{}` cannot be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Everything that is wrong with it.
    #[error("{}", list(.0))]
    Problems(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads and translates a plan. Files that it names are looked for beside it.
///
/// # Errors
/// See [`JmxError`].
pub fn load(path: &Path, options: &Options) -> Result<Plan, JmxError> {
    let fault = |error| JmxError::File { path: path.to_owned(), error };
    let metadata = std::fs::metadata(path).map_err(fault)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES {
        return Err(fault(std::io::Error::other("it is no file, or larger than 64 MiB")));
    }
    let bytes = std::fs::read(path).map_err(fault)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    load_text(&String::from_utf8_lossy(&bytes), folder, options)
}

/// Translates a plan; files that it names are looked for in `folder`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text(text: &str, folder: &Path, options: &Options) -> Result<Plan, JmxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let roots = tree::read(text).map_err(|problem| JmxError::Problems(vec![problem]))?;
    translate::translate(&roots, folder, options)
}

#[cfg(test)]
mod tests;
