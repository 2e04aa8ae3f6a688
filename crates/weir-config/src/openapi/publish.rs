//! The OpenAPI document as served by an API: one JSON document, with the API's base path as the
//! only server.

use super::Description;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

/// Member with the referenced documents.
const OTHERS: &str = "x-documents";

impl Description<'_> {
    /// The text. `left_out` are methods (lower case) and paths that are not served.
    pub(crate) fn publish(&self, base: &str, left_out: &[(String, &str)]) -> Option<String> {
        let mut needed = BTreeSet::new();
        let mut top = self.document(self.root, &mut needed)?;
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
        let mut others = BTreeMap::new();
        while let Some(index) = needed.pop_first() {
            if let Entry::Vacant(free) = others.entry(index) {
                free.insert(self.document(index, &mut needed)?);
            }
        }
        if !others.is_empty() {
            let named = others.into_iter().map(|(index, other)| (index.to_string(), other));
            members.insert(OTHERS.to_owned(), Value::Object(named.collect()));
        }
        serde_json::to_string(&top).ok()
    }

    /// A document as JSON, with references rewritten to their targets in the served document. Adds
    /// the other documents that it refers to.
    fn document(&self, index: usize, needed: &mut BTreeSet<usize>) -> Option<Value> {
        let mut value = serde_json::to_value(&self.documents[index].root).ok()?;
        self.rewrite(index, &mut value, needed);
        Some(value)
    }

    fn rewrite(&self, index: usize, value: &mut Value, needed: &mut BTreeSet<usize>) {
        match value {
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.rewrite(index, item, needed));
            }
            Value::Object(members) => {
                for (key, value) in members {
                    match value {
                        Value::String(reference) if key == "$ref" => {
                            if let Some(new) = self.moved(index, reference, needed) {
                                *reference = new;
                            }
                        }
                        value => self.rewrite(index, value, needed),
                    }
                }
            }
            _ => {}
        }
    }

    /// A reference in the served document.
    fn moved(&self, from: usize, text: &str, needed: &mut BTreeSet<usize>) -> Option<String> {
        let (file, fragment) = text.split_once('#').unwrap_or((text, ""));
        let target = if file.is_empty() { from } else { self.document_at(from, file)? };
        if target == self.root {
            return Some(format!("#{fragment}"));
        }
        needed.insert(target);
        Some(format!("#/{OTHERS}/{target}{fragment}"))
    }
}
