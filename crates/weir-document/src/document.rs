//! Other documents than the configuration, such as the Lab's scenarios: read with the location of
//! every node, validated against a description of their keys, with the same kind of findings.

use crate::draft::{self, Node};
use crate::finding::{Diagnostics, Findings};
use crate::source_map::SourceMap;
use std::path::Path;

/// A document as written, with its findings so far.
#[derive(Debug)]
pub struct Document {
    /// The top-level mapping; `None` if the text is not YAML, which a finding reports.
    pub root: Option<Node>,
    /// The findings.
    pub report: Diagnostics,
    texts: SourceMap,
}

impl Document {
    /// Reads a text; `path` represents the text in findings. Nothing is substituted.
    pub fn read(path: &Path, text: &str) -> Self {
        let mut report = Diagnostics::default();
        let (root, texts) = draft::read_plain(path, text, &mut report);
        Self { root, report, texts }
    }

    /// Sets a value over the written one: a path such as `load.0.vus`, and YAML. Errors are
    /// findings.
    pub fn set(&mut self, path: &str, value: &str) {
        if let Some(root) = &mut self.root {
            let texts = std::mem::take(&mut self.texts);
            self.texts = draft::set_plain(root, texts, (path, value), &mut self.report);
        }
    }

    /// All findings in the order of lines, with secrets redacted.
    pub fn findings(mut self) -> Findings {
        Findings {
            list: self.report.finish(&self.texts),
            files: self.texts.iter().map(|text| text.path.clone()).collect(),
            texts: self.texts.redact(self.report.secrets()).redact_unread(self.report.unread()),
        }
    }
}

/// Puts a value at a path such as `load.0.vus`, in place of the present one.
///
/// # Errors
/// The path does not exist; the message has the reason.
pub fn put(root: &mut Node, path: &str, value: Node) -> Result<(), String> {
    draft::put(root, path, value)
}
