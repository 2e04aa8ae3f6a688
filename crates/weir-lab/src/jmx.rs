//! JMeter test plans (`.jmx`), translated into a [`Program`].
//!
//! ```text
//! XML → tree (elements, properties, lines) → texts and variables → thread groups → steps
//! ```
//!
//! All unsupported elements are reported at once, with element and line. A plan that would require
//! guessing is rejected: an accepted plan does what JMeter 5.6 does. With `lenient`, elements of
//! unknown kinds are skipped and reported.

mod assertions;
mod condition;
mod control;
mod controllers;
mod expand;
mod extractors;
mod functions;
mod http;
mod http_body;
mod keystore;
mod plugins;
mod samplers;
mod schedule;
mod scope;
mod script_text;
mod scripts;
mod text;
mod threads;
mod timers;
mod translate;
mod tree;
mod variables;

pub use keystore::KeystoreProperties;

use crate::bounded_file::{self, FileError};
use crate::program::{Installation, Program};
use std::fmt;
use std::path::{Path, PathBuf};

/// Largest plan.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Options of reading a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-Jname=value`; the last value of a name counts.
    pub properties: Vec<(String, String)>,
    /// `-Djavax.net.ssl.keyStore=file` and the like.
    pub keystore: KeystoreProperties,
    /// Skip unsupported elements and functions.
    pub lenient: bool,
    /// JMeter, whose classes run scripts and further functions.
    pub jmeter: Option<Installation>,
}

/// A translated plan.
#[derive(Debug)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// Skipped elements.
    pub skipped: Vec<Problem>,
    /// Result files of its listeners.
    pub results: Vec<PathBuf>,
}

/// An invalid or unsupported element of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the element, from 1.
    pub line: u64,
    /// The element: ``HTTPSamplerProxy `login` ``; empty for the plan itself.
    pub element: String,
    /// The problem.
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

/// Why a plan is rejected.
#[derive(Debug, thiserror::Error)]
pub enum JmxError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A system property that the Lab does not have.
    #[error("{0}")]
    SystemProperty(String),
    /// All problems of the plan.
    #[error("{}", list(.0))]
    Problems(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads and translates a plan. Relative files are resolved against its folder.
///
/// # Errors
/// See [`JmxError`].
pub fn load(path: &Path, options: &Options) -> Result<Plan, JmxError> {
    let text = bounded_file::read_text(path, MAX_FILE_BYTES)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    load_named(&text, path.parent().unwrap_or(Path::new("")), &name, options)
}

/// Translates a plan. Relative files are resolved against `folder`.
///
/// # Errors
/// All problems of the plan.
pub fn load_text(text: &str, folder: &Path, options: &Options) -> Result<Plan, JmxError> {
    load_named(text, folder, "", options)
}

fn load_named(text: &str, folder: &Path, name: &str, options: &Options) -> Result<Plan, JmxError> {
    let roots = tree::read(text).map_err(|problem| JmxError::Problems(vec![problem]))?;
    translate::translate(&roots, (folder, name), options)
}

#[cfg(test)]
mod tests;
