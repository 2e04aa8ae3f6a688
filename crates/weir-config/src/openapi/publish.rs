//! The OpenAPI document as served by an API: one JSON document, with the API's base path as the
//! only server.

use super::Description;
use serde_json::{Map, Value, json};
use weir_document::draft::Described;

/// Member with the referenced documents.
const OTHERS: &str = "x-documents";

impl Description<'_> {
    /// The text. `left_out` are methods (lower case) and paths that are not served.
    pub(crate) fn publish(&self, base: &str, left_out: &[(String, &str)]) -> Option<String> {
        let mut top = self.document(self.root)?;
        let members = top.as_object_mut()?;
        members.insert("servers".to_owned(), json!([{ "url": base }]));
        if let Some(Value::Object(paths)) = members.get_mut("paths") {
            for (method, path) in left_out {
                if let Some(Value::Object(item)) = paths.get_mut(*path) {
                    item.shift_remove(method);
                }
            }
            let bare = |item: &Value| item.as_object().is_some_and(Map::is_empty);
            paths.retain(|_, item| !bare(item));
            for item in paths.values_mut().filter_map(Value::as_object_mut) {
                item.shift_remove("servers");
            }
        }
        let mut others = Map::new();
        for index in (0..self.documents.len()).filter(|index| *index != self.root) {
            if self.refers_to(index) {
                others.insert(index.to_string(), self.document(index)?);
            }
        }
        if !others.is_empty() {
            members.insert(OTHERS.to_owned(), Value::Object(others));
        }
        serde_json::to_string(&top).ok()
    }

    /// A document as JSON, with references rewritten to their targets in the served document.
    fn document(&self, index: usize) -> Option<Value> {
        let json = self.documents[index].root.to_json().ok()?;
        let mut value = serde_json::from_str(&json).ok()?;
        self.rewrite(index, &mut value);
        Some(value)
    }

    fn rewrite(&self, index: usize, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite(index, item)),
            Value::Object(members) => {
                for (key, value) in members {
                    match value {
                        Value::String(reference) if key == "$ref" => {
                            if let Some(new) = self.moved(index, reference) {
                                *reference = new;
                            }
                        }
                        value => self.rewrite(index, value),
                    }
                }
            }
            _ => {}
        }
    }

    /// A reference in the served document.
    fn moved(&self, from: usize, reference: &str) -> Option<String> {
        let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let target = if file.is_empty() { from } else { self.find(from, file)? };
        Some(match target {
            root if root == self.root => format!("#{fragment}"),
            other => format!("#/{OTHERS}/{other}{fragment}"),
        })
    }

    fn find(&self, from: usize, file: &str) -> Option<usize> {
        let path = self.texts.resolve(self.documents[from].root.at.file, file);
        let path = weir_document::draft::canonical(&path);
        self.documents.iter().position(|Described { path: known, .. }| *known == path)
    }

    /// Whether this document is needed, directly or through others.
    fn refers_to(&self, target: usize) -> bool {
        let mut seen = vec![self.root];
        let mut next = 0;
        while let Some(&index) = seen.get(next) {
            next += 1;
            let mut files = Vec::new();
            collect(&self.documents[index].root, &mut files);
            for file in files {
                match self.find(index, &file) {
                    Some(found) if !seen.contains(&found) => seen.push(found),
                    _ => {}
                }
            }
        }
        seen.contains(&target)
    }
}

/// The files of references below a node.
fn collect(node: &weir_document::draft::Node, files: &mut Vec<String>) {
    if let Some(reference) = node.get("$ref").and_then(|r| r.text()) {
        let file = reference.split('#').next().unwrap_or_default();
        if !file.is_empty() && !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
    }
    for member in node.members().unwrap_or_default() {
        collect(&member.value, files);
    }
    for item in node.items().unwrap_or_default() {
        collect(item, files);
    }
}
