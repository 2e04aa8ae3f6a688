//! The configuration in the admin API: texts, reloads, findings.
//!
//! The control thread, which watches the files, reloads; a caller waits for the result.

mod history;
mod past;
mod routes;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;
use weir_document::finding::{self, Findings, Severity};
use weir_store::configurations::Configurations;

pub use history::ReloadHistory;
pub use past::{
    ConfigurationHistory, FileChange, PastConfiguration, PastConfigurationDetails, ValueChange,
    kept,
};
pub use routes::{ApiInfo, PolicyInfo, RouteInfo, apis};

/// Reloads in the history.
const MAX_RELOADS: usize = 50;
/// Findings shown per reload.
const MAX_FINDINGS: usize = 200;

/// The configuration and its reloads.
pub struct Configuration {
    /// Texts of the configuration in force, and past reloads.
    pub history: Arc<ReloadHistory>,
    /// Where it is loaded from.
    pub source: weir_config::Source,
    /// Configurations that were in force, if they are kept.
    pub kept: Option<Arc<Configurations>>,
    /// Takes commands to reload. At most one command waits.
    pub reload: mpsc::Sender<ReloadCommand>,
}

/// Reload the configuration.
#[derive(Debug)]
pub struct ReloadCommand {
    /// Name of the token of the request.
    pub by: String,
    /// Takes the result.
    pub done: oneshot::Sender<Reload>,
}

/// The sources of the configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationState {
    /// The path given at the start.
    pub path: String,
    /// Its texts, with redacted secrets.
    pub files: Vec<ConfigurationFile>,
    /// The last reloads since the start, newest first.
    pub reloads: Vec<Reload>,
    /// Settings that only a restart changes, and their values for people.
    #[serde(default)]
    pub fixed: BTreeMap<String, String>,
}

/// A source text of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationFile {
    /// Its path, or `--set path`.
    pub path: String,
    /// The text; each character of a secret is replaced by `*`.
    pub text: String,
}

/// A load of the configuration, and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reload {
    /// Time (RFC 3339, UTC).
    pub time: String,
    /// Trigger: `start`, `files` (changed files), `signal`, or the name of a token.
    pub by: String,
    /// The configuration was put in force; otherwise the previous one stayed in force.
    pub taken: bool,
    /// Findings, at most 200.
    pub findings: Vec<FindingInfo>,
    /// Why a valid configuration could not be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A finding in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingInfo {
    /// Stable code.
    pub code: String,
    /// Severity: true for an error, false for a warning.
    pub error: bool,
    /// File.
    pub file: String,
    /// Line from 1; 0 if unknown.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
    /// Width in characters.
    pub width: usize,
    /// The message.
    pub message: String,
    /// The suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The source line, with redacted secrets.
    pub excerpt: String,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checked {
    /// There are no errors.
    pub usable: bool,
    /// The findings.
    pub findings: Vec<FindingInfo>,
}

/// The result of a push.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Pushed {
    /// Number of the version; absent if it has errors, and was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The findings of this node.
    pub findings: Vec<FindingInfo>,
}

impl ConfigurationFile {
    /// The source texts.
    #[must_use]
    pub fn all(found: &Findings) -> Vec<Self> {
        found
            .sources()
            .map(|(path, text)| Self { path: path.display().to_string(), text: text.to_owned() })
            .collect()
    }
}

impl FindingInfo {
    /// The findings with their source lines.
    #[must_use]
    pub fn all(found: &Findings) -> Vec<Self> {
        found.list.iter().take(MAX_FINDINGS).map(|finding| Self::of(finding, found)).collect()
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
