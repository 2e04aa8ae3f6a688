//! The configuration in the admin API: texts, reloads, findings.
//!
//! The control thread, which watches the files, reloads; a caller waits for the result.

mod history;
mod routes;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;
use weir_config::finding::{self, Findings, Severity};

pub use history::ReloadHistory;
pub(crate) use routes::{ApiInfo, apis};

/// Reloads in the history.
const MAX_RELOADS: usize = 50;
/// Findings of one that are told.
const MOST_FINDINGS: usize = 200;

/// The configuration and its reloads.
pub struct Configuration {
    /// Texts of the configuration in force, and past reloads.
    pub history: Arc<ReloadHistory>,
    /// Takes commands to reload. At most one command waits.
    pub reload: mpsc::Sender<ReloadCommand>,
}

/// Reload the configuration.
#[derive(Debug)]
pub struct ReloadCommand {
    /// Name of the token that asks for it.
    pub by: String,
    /// Takes the result.
    pub done: oneshot::Sender<Reload>,
}

/// What the configuration in force was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationState {
    /// The path that was given.
    pub path: String,
    /// Its texts, secrets blotted out.
    pub files: Vec<ConfigurationFile>,
    /// What was loaded since the start, and is remembered, newest first.
    pub reloads: Vec<Reload>,
}

/// A text that the configuration was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationFile {
    /// Its path, or `--set path`.
    pub path: String,
    /// Its text, with `*` for each character of a secret.
    pub text: String,
}

/// A configuration that was loaded, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reload {
    /// When (RFC 3339, UTC).
    pub time: String,
    /// Who wanted it: `start`, `files` changed, `signal`, or the name of a token.
    pub by: String,
    /// It is in force since then, or was; otherwise the one before stayed.
    pub taken: bool,
    /// What was found, at most 200.
    pub findings: Vec<FindingInfo>,
    /// Why it could not be used though it is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Something that is wrong with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingInfo {
    /// Stable code.
    pub code: String,
    /// It is an error, not a warning.
    pub error: bool,
    /// Its file.
    pub file: String,
    /// Line from 1; 0 if it has none.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
    /// Characters that it takes.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The line it stands on, secrets blotted out.
    pub excerpt: String,
}

/// Whether a draft could be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checked {
    /// It has no error.
    pub usable: bool,
    /// What was found.
    pub findings: Vec<FindingInfo>,
}

impl ConfigurationFile {
    /// The texts that were read.
    #[must_use]
    pub fn all(found: &Findings) -> Vec<Self> {
        found
            .sources()
            .map(|(path, text)| Self { path: path.display().to_string(), text: text.to_owned() })
            .collect()
    }
}

impl FindingInfo {
    /// What was found, each with the line it stands on.
    #[must_use]
    pub fn all(found: &Findings) -> Vec<Self> {
        found.list.iter().take(MOST_FINDINGS).map(|finding| Self::of(finding, found)).collect()
    }

    fn of(finding: &finding::Finding, found: &Findings) -> Self {
        let text = found.sources().find(|(path, _)| *path == finding.file).map(|(_, text)| text);
        let line = finding.line.checked_sub(1);
        let excerpt = text.zip(line).and_then(|(text, line)| text.lines().nth(line));
        Self {
            code: finding.code.to_owned(),
            error: finding.severity == Severity::Error,
            file: finding.file.display().to_string(),
            line: finding.line,
            column: finding.column,
            width: finding.width,
            message: finding.message.clone(),
            help: finding.help.clone(),
            excerpt: excerpt.unwrap_or_default().chars().take(400).collect(),
        }
    }
}
