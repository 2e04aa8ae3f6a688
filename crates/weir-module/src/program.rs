//! A script with its imports, ready to be compiled by any engine.

use std::time::Duration;

/// A script with its imports.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Program {
    /// Name and function of each module; the first is the script.
    pub modules: Vec<(String, String)>,
    /// Exports of the script: `default` and names of methods, sorted.
    pub exports: Vec<String>,
    /// Whether the script may read the principal: the word occurs in its modules.
    pub reads_principal: bool,
    /// Its settings.
    pub settings: Settings,
}

/// Settings of a program.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Module state is kept between calls, separately in each engine.
    pub shared: bool,
    /// JSON text of `request.config`.
    pub config: String,
    /// Limit of a call's uninterrupted CPU time.
    pub cpu: Duration,
    /// Indentation of JSON; 0 is compact.
    pub indent: u8,
}

impl std::fmt::Debug for Settings {
    /// Without `config`, which may contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shared, cpu, indent, .. } = self;
        let mut settings = f.debug_struct("Settings");
        settings.field("shared", shared).field("cpu", cpu).field("indent", indent);
        settings.finish_non_exhaustive()
    }
}

/// Why a program cannot be loaded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", location(module, *line))]
pub struct LoadError {
    /// Name of the module.
    pub module: String,
    /// 1-based line, 0 if unknown.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

/// `module:line`, or `module` if the line is unknown.
fn location(module: &str, line: usize) -> String {
    if line == 0 { module.to_owned() } else { format!("{module}:{line}") }
}

impl LoadError {
    /// An error at a line, or at 0 if the line is unknown.
    pub fn new(module: &str, line: usize, message: impl Into<String>) -> Self {
        Self { module: module.to_owned(), line, message: message.into() }
    }
}

impl Program {
    /// Index of the export for a method: of that name, for HEAD `GET`, otherwise `default`.
    pub fn export_for(&self, method: &str) -> Option<usize> {
        let find = |name: &str| self.exports.iter().position(|export| export == name);
        find(method)
            .or_else(|| if method == "HEAD" { find("GET") } else { None })
            .or_else(|| find("default"))
    }

    /// Name of the script.
    pub fn name(&self) -> &str {
        &self.modules[0].0
    }
}
