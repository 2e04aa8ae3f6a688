//! Documents of other kinds, such as the Lab's scenarios: read with the place of every piece,
//! checked against a description of their keys, with findings like the configuration's.

use crate::draft::{self, Node};
use crate::finding::{Diagnostics, Findings};
use crate::source_map::SourceMap;
use std::path::Path;

/// A document as it is written, and what was found about it so far.
#[derive(Debug)]
pub struct Document {
    /// Its mapping; `None` if the text is no YAML, which a finding says.
    pub root: Option<Node>,
    /// What was found.
    pub report: Diagnostics,
    texts: SourceMap,
}

impl Document {
    /// Reads a text; `path` stands for it in findings. Nothing in it is substituted.
    pub fn read(path: &Path, text: &str) -> Self {
        let mut report = Diagnostics::default();
        let (root, texts) = draft::read_plain(path, text, &mut report);
        Self { root, report, texts }
    }

    /// Sets a value over what is written: a path such as `load.0.vus`, and YAML. What is wrong with
    /// it is a finding.
    pub fn set(&mut self, path: &str, value: &str) {
        if let Some(root) = &mut self.root {
            let texts = std::mem::take(&mut self.texts);
            self.texts = draft::set_plain(root, texts, (path, value), &mut self.report);
        }
    }

    /// All that was found, in the order of lines; what stands at secrets is blotted out.
    pub fn findings(mut self) -> Findings {
        Findings {
            list: self.report.finish(&self.texts),
            files: self.texts.iter().map(|text| text.path.clone()).collect(),
            texts: self.texts.redact(self.report.secrets()).redact_unread(self.report.unread()),
        }
    }
}

/// Puts a value where a path such as `load.0.vus` points, over what is there.
///
/// # Errors
/// It points nowhere, in words.
pub fn put(root: &mut Node, path: &str, value: Node) -> Result<(), String> {
    draft::put(root, path, value)
}
