//! Locations in OpenAPI documents, and targets of references (RFC 6901 pointers).

use super::Description;
use weir_document::draft::{Described, Member, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::source_map::SourceMap;

/// Maximum length of a chain of references.
const HOPS: usize = 32;

/// A node and its location.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'d> {
    /// The node.
    pub(crate) node: &'d Node,
    /// Index of the document.
    pub(crate) document: usize,
    /// Path in the document.
    pub(crate) pointer: String,
}

impl<'d> Cursor<'d> {
    fn below(&self, node: &'d Node, key: &str) -> Self {
        let mut pointer = String::with_capacity(self.pointer.len() + key.len() + 1);
        pointer.push_str(&self.pointer);
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        Self { node, document: self.document, pointer }
    }

    /// The value of a member.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.node.get(key).map(|node| self.below(node, key))
    }

    /// The text of a member.
    pub(crate) fn text(&self, key: &str) -> Option<&'d str> {
        self.node.get(key)?.text()
    }

    /// Whether a member is `true`.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.node.get(key).is_some_and(is_true)
    }

    /// The members, each with its value; empty if the node is not a mapping.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'d Member, Self)> {
        let members = self.node.members().unwrap_or_default();
        members.iter().map(|member| (member, self.below(&member.value, &member.key)))
    }

    /// The items; empty if the node is not a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.node.items().unwrap_or_default();
        items.iter().enumerate().map(|(i, item)| self.below(item, &i.to_string()))
    }
}

/// Whether the node is `true`.
pub(crate) fn is_true(node: &Node) -> bool {
    node.scalar().is_some_and(|s| s.plain && matches!(s.text.as_str(), "true" | "True" | "TRUE"))
}

impl<'d> Description<'d> {
    /// The root of the OpenAPI document.
    pub(crate) fn top(&self) -> Cursor<'d> {
        self.top_of(self.root)
    }

    fn top_of(&self, document: usize) -> Cursor<'d> {
        Cursor { node: &self.documents[document].root, document, pointer: String::new() }
    }

    /// Index of the document that a reference in the document `from` names.
    pub(super) fn document_at(&self, from: usize, file: &str) -> Option<usize> {
        let path = self.texts.resolve(self.documents[from].root.at.file, file);
        let path = weir_document::draft::canonical(&path);
        self.documents.iter().position(|document| document.path == path)
    }

    /// The location itself, or the final target of its `$ref`. `None` with a finding.
    pub(crate) fn follow(&self, at: &Cursor<'d>, report: &mut Diagnostics) -> Option<Cursor<'d>> {
        let mut here = at.clone();
        for _ in 0..HOPS {
            let Some(reference) = here.node.get("$ref").filter(|r| r.text().is_some()) else {
                return Some(here);
            };
            here = self.target(&here, reference, report)?;
        }
        report.error(codes::UNRESOLVED_REF, at.node.at, "the reference is circular");
        None
    }

    /// The target of a reference at `here`. `None` with a finding.
    pub(crate) fn target(
        &self,
        here: &Cursor<'d>,
        reference: &Node,
        report: &mut Diagnostics,
    ) -> Option<Cursor<'d>> {
        let text = reference.text()?;
        match self.locate(here.document, text) {
            Ok(target) => Some(target),
            Err(why) => {
                let message = format!("`{text}` does not resolve: {why}");
                report.error(codes::UNRESOLVED_REF, reference.at, message);
                None
            }
        }
    }

    fn locate(&self, from: usize, reference: &str) -> Result<Cursor<'d>, String> {
        let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = if file.is_empty() {
            from
        } else if file.contains("://") || file.starts_with("urn:") {
            return Err(
                "references to the network are not followed; save the document locally".to_owned()
            );
        } else {
            self.document_at(from, file).ok_or_else(|| format!("`{file}` was not read"))?
        };
        let fragment = weir_expr::url_encoding::percent_decode(fragment);
        let mut here = self.top_of(document);
        if fragment.is_empty() {
            return Ok(here);
        }
        let Some(steps) = fragment.strip_prefix('/') else {
            return Err(
                "only references by JSON pointer are supported (`#/components/…`)".to_owned()
            );
        };
        for step in steps.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = here.node.child(&step);
            let next = next.ok_or_else(|| format!("`{step}` does not exist"))?;
            here = here.below(next, &step);
        }
        Ok(here)
    }
}

/// Documents and their texts.
pub(crate) type Documents<'d> = (&'d [Described], &'d SourceMap);
