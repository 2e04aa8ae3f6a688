//! OpenAPI documents: read without substitution, together with the documents that they refer to.
//! Nothing is fetched: the resolution reports references to the network as unresolvable.

use super::node::{Data, Node};
use super::reader::{Reader, Surroundings, canonical};
use crate::finding::codes;
use std::path::{Path, PathBuf};

/// One document.
#[derive(Debug)]
pub struct Described {
    /// The canonical path of the file, the same for all references to it.
    pub path: PathBuf,
    /// The content of the document.
    pub root: Node,
}

/// Members whose values are data: a `$ref` in them is not a reference.
const DATA: [&str; 5] = ["example", "examples", "default", "enum", "const"];
/// Members whose own members have names chosen by the author.
const NAMED: [&str; 8] = [
    "properties",
    "patternProperties",
    "schemas",
    "$defs",
    "parameters",
    "responses",
    "callbacks",
    "paths",
];

impl Reader<'_> {
    /// The documents of the APIs of `root` and of included files.
    pub(super) fn descriptions(&mut self, root: &Node) -> Vec<Described> {
        let mut described: Vec<Described> = Vec::new();
        // The texts must not be borrowed from the reader, which reads on meanwhile.
        let named: Vec<Node> = std::iter::once(root)
            .chain(&self.included)
            .filter_map(|node| node.get("apis")?.members())
            .flatten()
            .filter_map(|api| api.value.get("openapi"))
            .map(|node| node.get("file").unwrap_or(node).clone())
            .filter(|node| node.text().is_some_and(|text| !text.is_empty()))
            .collect();
        for node in named {
            if self.surroundings == Surroundings::Nothing {
                self.report.error(codes::BAD_FILE, node.at, "files cannot be read here");
                continue;
            }
            let path = self.texts.resolve(node.at.file, node.text().unwrap_or_default());
            self.describe(&path, &node, &mut described);
        }
        described
    }

    /// Reads the document at `path`, named by `node`, and the documents that it refers to.
    fn describe(&mut self, path: &Path, node: &Node, described: &mut Vec<Described>) {
        let mut open = vec![(path.to_owned(), node.clone())];
        while let Some((path, node)) = open.pop() {
            let key = canonical(&path);
            if described.iter().any(|known| known.path == key) {
                continue;
            }
            let Some(text) = self.read_named(&path, node.at) else { continue };
            let Some(root) = self.parse_plain(&path, &text) else { continue };
            let mut references = Vec::new();
            outside(&root, false, &mut references);
            for reference in references {
                let text = reference.text().unwrap_or_default();
                let file = text.split('#').next().unwrap_or_default();
                let path = self.texts.resolve(root.at.file, file);
                open.push((path, reference.clone()));
            }
            described.push(Described { path: key, root });
        }
    }
}

/// References to other files below `node`; `named` means that its members have chosen names.
fn outside<'n>(node: &'n Node, named: bool, found: &mut Vec<&'n Node>) {
    match &node.data {
        Data::Scalar(_) => {}
        Data::List(items) => items.iter().for_each(|item| outside(item, false, found)),
        Data::Map(members) => {
            for member in members {
                let key = member.key.as_str();
                if !named && (DATA.contains(&key) || key.starts_with("x-")) {
                    continue;
                }
                if key == "$ref" && !named && member.value.text().is_some_and(is_file) {
                    found.push(&member.value);
                }
                outside(&member.value, !named && NAMED.contains(&key), found);
            }
        }
    }
}

/// Neither a location in the same document nor a URL.
fn is_file(reference: &str) -> bool {
    !reference.starts_with('#') && !reference.contains("://") && !reference.starts_with("urn:")
}
