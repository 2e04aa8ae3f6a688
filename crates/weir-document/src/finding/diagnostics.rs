//! Where findings come together while a configuration is read.

use super::{Finding, Place, Severity};
use crate::source_map::{FileId, SourceMap, Span};
use std::path::{Path, PathBuf};

/// More findings than this are not listed one by one.
const MOST: usize = 500;

/// Collects findings by their place in a text.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Warnings that are reported only if there is no error.
    if_valid: Vec<Diagnostic>,
    /// Findings beyond [`MOST`].
    dropped: usize,
    /// Whether any of all findings is an error.
    has_errors: bool,
    /// Where secrets stand, so that no excerpt shows them.
    secrets: Vec<Span>,
    /// SourceMap that could not be read to their end: where secrets stand in them is not known.
    unread: Vec<FileId>,
    /// Files that are no texts of the configuration and were read, or looked for.
    read: Vec<PathBuf>,
}

/// A finding on its way.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    code: &'static str,
    severity: Severity,
    at: Option<Span>,
    message: String,
    help: Option<String>,
    related: Vec<(Span, String)>,
}

impl Diagnostic {
    fn new(code: &'static str, severity: Severity, at: Option<Span>, message: String) -> Self {
        Self { code, severity, at, message, help: None, related: Vec::new() }
    }

    /// Says what would be right.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Says what would be right, if that is known.
    pub fn maybe_help(&mut self, help: Option<String>) -> &mut Self {
        self.help = help.or(self.help.take());
        self
    }

    /// Names another place that has to do with it.
    pub fn related(&mut self, at: Span, label: impl Into<String>) -> &mut Self {
        self.related.push((at, label.into()));
        self
    }
}

impl Diagnostics {
    /// Notes a file that is no text of the configuration and is read.
    pub fn reads(&mut self, path: &Path) {
        if !self.read.iter().any(|known| known == path) {
            self.read.push(path.to_owned());
        }
    }

    /// Files that are no texts of the configuration and were read, or looked for.
    pub fn read_files(&self) -> &[PathBuf] {
        &self.read
    }

    /// Notes an error.
    pub fn error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.note(code, Severity::Error, Some(at), message.into())
    }

    /// Notes a warning.
    pub fn warning(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.note(code, Severity::Warning, Some(at), message.into())
    }

    /// Notes a warning that is reported only if there is no error in the end: an error may be its
    /// cause.
    pub fn warning_if_valid(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let warning = Diagnostic::new(code, Severity::Warning, Some(at), message.into());
        self.if_valid.push(warning);
        let last = self.if_valid.len() - 1;
        &mut self.if_valid[last]
    }

    /// Notes an error that stands nowhere in a text.
    pub fn error_nowhere(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.note(code, Severity::Error, None, message.into())
    }

    fn note(
        &mut self,
        code: &'static str,
        severity: Severity,
        at: Option<Span>,
        message: String,
    ) -> &mut Diagnostic {
        self.has_errors |= severity == Severity::Error;
        self.push(Diagnostic::new(code, severity, at, message))
    }

    fn push(&mut self, noted: Diagnostic) -> &mut Diagnostic {
        if self.list.len() > MOST {
            // The slot behind the last one listed takes whatever else comes.
            self.dropped += 1;
            self.list[MOST] = noted;
        } else {
            self.list.push(noted);
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Any error so far?
    pub fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Whether further findings are counted only: what would be suggested need not be looked for.
    pub fn is_full(&self) -> bool {
        self.list.len() > MOST
    }

    /// The candidate nearest to a name, as a question, if one is near enough to be meant.
    pub fn suggestion<'a>(
        &self,
        name: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let near = if self.is_full() { None } else { super::nearest(name, candidates) };
        near.map(|near| format!("did you mean `{near}`?"))
    }

    /// Masks what stands there in every excerpt.
    pub fn redact(&mut self, at: Span) {
        self.secrets.push(at);
    }

    /// Masks everything in this text that may be a secret.
    pub fn redact_unread(&mut self, text: FileId) {
        self.unread.push(text);
    }

    /// SourceMap in which secrets may stand anywhere.
    pub fn unread(&self) -> &[FileId] {
        &self.unread
    }

    /// Where secrets stand.
    pub fn secrets(&self) -> &[Span] {
        &self.secrets
    }

    /// The findings in the order of files and lines.
    pub fn finish(&mut self, texts: &SourceMap) -> Vec<Finding> {
        let if_valid = std::mem::take(&mut self.if_valid);
        if !self.has_errors {
            for warning in if_valid {
                self.push(warning);
            }
        }
        let mut sorted: Vec<&Diagnostic> = self.list.iter().take(MOST).collect();
        sorted.sort_by_key(|n| n.at.map_or((0, 0, 0), |at| (at.file.0, at.line, at.column)));
        let mut findings: Vec<Finding> = sorted.into_iter().map(|n| finding(n, texts)).collect();
        findings.dedup();
        if self.dropped > 0 || self.list.len() > MOST {
            findings.push(Finding {
                message: format!("{} more findings are not listed", self.dropped + 1),
                ..Finding::new(super::codes::TOO_MANY, Severity::Error)
            });
        }
        findings
    }
}

/// Longest message, in characters.
const LONGEST: usize = 600;

/// Messages quote what is written, which must neither break lines nor steer the terminal.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(LONGEST) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

fn finding(noted: &Diagnostic, texts: &SourceMap) -> Finding {
    let mut finding = Finding {
        message: shown(&noted.message),
        help: noted.help.as_deref().map(shown),
        ..Finding::new(noted.code, noted.severity)
    };
    if let Some(at) = noted.at {
        finding.file = texts.path(at.file).to_owned();
        finding.line = at.line as usize;
        finding.column = at.column as usize;
        finding.width = at.width as usize;
    }
    finding.related = noted
        .related
        .iter()
        .map(|(at, label)| Place {
            file: texts.path(at.file).to_owned(),
            line: at.line as usize,
            column: at.column as usize,
            width: at.width as usize,
            label: shown(label),
        })
        .collect();
    finding
}
