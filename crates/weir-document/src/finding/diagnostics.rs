//! Collects the findings of a configuration.

use super::{Fault, Finding, Findings, RelatedLocation, Secrets, Severity, codes};
use crate::source_map::{FileId, SourceMap, Span};
use std::path::{Path, PathBuf};

/// Maximum number of findings that are listed one by one.
const MAX_FINDINGS: usize = 500;

/// Collects findings by their location in a text.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Warnings that are reported only if there is no error.
    if_valid: Vec<Diagnostic>,
    /// Number of findings beyond [`MAX_FINDINGS`].
    dropped: usize,
    /// Whether any finding is an error.
    has_errors: bool,
    /// Locations of secrets, which excerpts do not show.
    secrets: Vec<Span>,
    /// Texts that could not be parsed completely: the locations of their secrets are unknown.
    unread: Vec<FileId>,
    /// Other files that were read or tested for existence.
    read: Vec<PathBuf>,
    /// Files whose content is the value at a location.
    files: Vec<(Span, PathBuf)>,
    /// Locations of secrets that files have.
    of_files: Vec<Span>,
    /// Locations of secrets that stand in a text.
    literal: Vec<Span>,
}

/// A finding under construction.
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

    /// Sets the remedy.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the remedy, if known.
    pub fn maybe_help(&mut self, help: Option<String>) -> &mut Self {
        self.help = help.or(self.help.take());
        self
    }

    /// Adds a related location.
    pub fn related(&mut self, at: Span, label: impl Into<String>) -> &mut Self {
        self.related.push((at, label.into()));
        self
    }
}

impl Diagnostics {
    /// Records another file that is read.
    pub fn reads(&mut self, path: &Path) {
        if !self.read.iter().any(|known| known == path) {
            self.read.push(path.to_owned());
        }
    }

    /// Other files that were read or tested for existence.
    pub fn read_files(&self) -> &[PathBuf] {
        &self.read
    }

    /// Adds an error; `None` is an error without a location.
    pub fn error(
        &mut self,
        code: &'static str,
        at: impl Into<Option<Span>>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.note(code, Severity::Error, at.into(), message.into())
    }

    /// Adds the error of a string or file.
    pub fn fault(&mut self, at: impl Into<Option<Span>>, fault: Fault) -> &mut Diagnostic {
        self.error(fault.code, at, fault.message).maybe_help(fault.help)
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.note(code, Severity::Warning, Some(at), message.into())
    }

    /// Adds a warning that is reported only without errors: an error may be its cause.
    pub fn warning_if_valid(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let warning = Diagnostic::new(code, Severity::Warning, Some(at), message.into());
        self.if_valid.push_mut(warning)
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

    fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        if self.list.len() > MAX_FINDINGS {
            // The element after the last listed one is replaced by each further finding.
            self.dropped += 1;
            self.list.pop();
        }
        self.list.push_mut(diagnostic)
    }

    /// Whether there is any error so far.
    pub fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Whether further findings are only counted: suggestions for them are not computed.
    pub fn is_full(&self) -> bool {
        self.list.len() > MAX_FINDINGS
    }

    /// The candidate nearest to a name, as a question, if the distance is small enough for a
    /// misspelling.
    pub fn suggestion<'a>(
        &self,
        name: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let near = if self.is_full() { None } else { super::nearest(name, candidates) };
        near.map(|near| format!("did you mean `{near}`?"))
    }

    /// Records that the value at a location is the content of a file.
    pub(crate) fn value_of_file(&mut self, at: Span, path: &Path) {
        self.files.push((at, path.to_owned()));
    }

    /// Records that the value at a location is a secret, which a file has.
    pub(crate) fn secret_of_file(&mut self, at: Span) {
        self.of_files.push(at);
    }

    /// Records a secret that stands in a text.
    pub(crate) fn literal_secret(&mut self, at: Span) {
        if !self.literal.contains(&at) {
            self.literal.push(at);
        }
    }

    /// Redacts the location in every excerpt.
    pub fn redact(&mut self, at: Span) {
        self.secrets.push(at);
    }

    /// Redacts everything in this text that may be a secret.
    pub fn redact_unread(&mut self, text: FileId) {
        self.unread.push(text);
    }

    /// The findings in the order of files and lines, and their texts with secrets redacted; `files`
    /// are all files that were read.
    pub fn findings(&mut self, texts: SourceMap, files: Vec<PathBuf>) -> Findings {
        let list = self.finish(&texts);
        let is_secret =
            |(at, path): &(Span, PathBuf)| self.of_files.contains(at).then(|| path.clone());
        let of_files = self.files.iter().filter_map(is_secret).collect();
        let literal = |at: &Span| {
            let message = "a secret stands in a version of the configuration";
            let mut one = Diagnostic::new(
                codes::LITERAL_SECRET,
                Severity::Error,
                Some(*at),
                message.to_owned(),
            );
            one.help("write `\"file:NAME\"` or `\"${env:NAME}\"`: each node has its own");
            finding(&one, &texts)
        };
        let literal = self.literal.iter().map(literal).collect();
        let secrets = Box::new(Secrets { files: of_files, literal });
        let texts = texts.redact(&self.secrets, &self.unread);
        Findings { list, files, texts, secrets }
    }

    /// The findings in the order of files and lines.
    pub fn finish(&mut self, texts: &SourceMap) -> Vec<Finding> {
        let if_valid = std::mem::take(&mut self.if_valid);
        if !self.has_errors {
            for warning in if_valid {
                self.push(warning);
            }
        }
        let mut sorted: Vec<&Diagnostic> = self.list.iter().take(MAX_FINDINGS).collect();
        sorted.sort_by_key(|n| n.at.map_or((0, 0, 0), |at| (at.file.0, at.line, at.column)));
        let mut findings: Vec<Finding> = sorted.into_iter().map(|n| finding(n, texts)).collect();
        findings.dedup();
        if self.dropped > 0 || self.list.len() > MAX_FINDINGS {
            findings.push(Finding {
                message: format!("{} more findings are not listed", self.dropped + 1),
                ..Finding::new(super::codes::TOO_MANY, Severity::Error)
            });
        }
        findings
    }
}

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 600;

/// Messages quote the configuration; quoted text must not contain line breaks or terminal escapes.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(MAX_MESSAGE) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if text.chars().nth(MAX_MESSAGE).is_some() {
        out.push('…');
    }
    out
}

fn finding(diagnostic: &Diagnostic, texts: &SourceMap) -> Finding {
    let related = diagnostic.related.iter().map(|(at, label)| {
        let (file, line, column, width) = texts.place(*at);
        RelatedLocation { file, line, column, width, label: shown(label) }
    });
    let (file, line, column, width) = diagnostic.at.map(|at| texts.place(at)).unwrap_or_default();
    Finding {
        file,
        line,
        column,
        width,
        message: shown(&diagnostic.message),
        help: diagnostic.help.as_deref().map(shown),
        related: related.collect(),
        ..Finding::new(diagnostic.code, diagnostic.severity)
    }
}
