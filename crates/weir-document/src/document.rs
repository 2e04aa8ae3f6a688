//! Other documents than the configuration, such as the Lab's scenarios: read with the location of
//! every node, validated against a description of their keys, with the same kind of findings.

use crate::draft::{Node, Reader};
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
        let mut reader = Reader::plain(SourceMap::default(), &mut report);
        let root = reader.parse_plain(path, text);
        Self { root, texts: reader.into_texts(), report }
    }

    /// Sets a value over the written one: a path such as `load.0.vus`, and YAML. Errors are
    /// findings.
    pub fn set(&mut self, path: &str, value: &str) {
        if let Some(root) = &mut self.root {
            let mut reader = Reader::plain(std::mem::take(&mut self.texts), &mut self.report);
            reader.set(root, path, value);
            self.texts = reader.into_texts();
        }
    }

    /// All findings in the order of lines, with secrets redacted.
    pub fn findings(mut self) -> Findings {
        let files = self.texts.iter().map(|text| text.path.clone()).collect();
        self.report.findings(self.texts, files)
    }
}
