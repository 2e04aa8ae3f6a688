//! Schemas of a description, converted to self-contained schemas of JSON Schema 2020-12.
//!
//! Each schema that is used is copied with all schemas it refers to; references become `#/$defs/N`.
//! The dialect of OpenAPI 3.0 (a draft of JSON Schema with changes, OAS 3.0.3 section "Schema
//! Object") is translated. `required` members that are `readOnly` may be missing in requests, and
//! those that are `writeOnly` in responses, as OAS 3.0 specifies; weir applies the same rule to
//! 3.1.

use super::{Cursor, Description, Version};
use crate::validation::{
    Pointer, SCHEMA_LISTS, SCHEMA_MEMBERS, SCHEMA_TABLES, SchemaId, SchemaSource, Shape,
};
use serde_json::{Map, Value};
use std::collections::HashMap;
use weir_document::draft::{Data, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::source_map::Span;

/// Maximum number of schemas that a schema may refer to, directly or indirectly.
const CLOSURE: usize = 5_000;

/// Direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// To the handler.
    Request,
    /// To the client.
    Response,
}

/// The schemas of a description, each stored once.
pub(crate) struct Schemas<'d> {
    description: Description<'d>,
    known: HashMap<(Direction, usize, String), Option<SchemaId>>,
}

impl<'d> Schemas<'d> {
    pub(crate) fn new(description: Description<'d>) -> Self {
        Self { description, known: HashMap::new() }
    }

    /// Adds the schema at a location to `sources`, once. `None` with a finding, the first time.
    pub(crate) fn add(
        &mut self,
        at: &Cursor<'d>,
        direction: Direction,
        sources: &mut Vec<SchemaSource>,
        report: &mut Diagnostics,
    ) -> Option<SchemaId> {
        let at = self.plain(at, report)?;
        let key = (direction, at.document, at.pointer.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let mut copy = Copy::new(&self.description, direction, report);
        let value = copy.whole(&at);
        let Copy { failed, places, patterns, .. } = copy;
        // Of a schema with a finding only the patterns are compiled, for their findings.
        let value = if failed { Value::Bool(true) } else { value };
        let (shape, root) = (Shape::of(&value), at.into());
        let definitions = places.into_iter().map(Pointer::from).collect();
        sources.push(SchemaSource { value, shape, patterns, root, definitions });
        let id = (!failed).then_some(SchemaId(sources.len() - 1));
        self.known.insert(key, id);
        id
    }

    /// The target of a schema that consists of a reference only, so that the target is compiled
    /// once.
    fn plain(&self, at: &Cursor<'d>, report: &mut Diagnostics) -> Option<Cursor<'d>> {
        let alone = |node: &Node| node.members().is_some_and(|m| m.len() == 1);
        if at.text("$ref").is_some() && (alone(at.node) || self.description.version == Version::V30)
        {
            return self.description.follow(at, report);
        }
        Some(at.clone())
    }

    /// The schema at a location as a self-contained value, for examples.
    pub(crate) fn value(
        &self,
        at: &Cursor<'d>,
        direction: Direction,
        report: &mut Diagnostics,
    ) -> Option<Value> {
        let mut copy = Copy::new(&self.description, direction, report);
        copy.keep_examples = true;
        let value = copy.whole(at);
        (!copy.failed).then_some(value)
    }
}

impl From<Cursor<'_>> for Pointer {
    fn from(at: Cursor<'_>) -> Self {
        Self { document: at.document, pointer: at.pointer }
    }
}

/// Members that do not affect whether a value is valid.
const SILENT: [&str; 14] = [
    "description",
    "title",
    "externalDocs",
    "xml",
    "deprecated",
    "discriminator",
    "$comment",
    "$schema",
    "$anchor",
    "$defs",
    "definitions",
    "readOnly",
    "writeOnly",
    "nullable",
];
const EXAMPLES: [&str; 3] = ["example", "examples", "default"];
/// Members for one direction only.
const DIRECTED: [&str; 2] = ["readOnly", "writeOnly"];
/// Members that change the meaning of references.
const REFUSED: [&str; 4] = ["$id", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"];

/// A copy under construction.
struct Copy<'c, 'd> {
    description: &'c Description<'d>,
    direction: Direction,
    report: &'c mut Diagnostics,
    /// Locations of the `$defs`, by number.
    places: Vec<Cursor<'d>>,
    index: HashMap<(usize, String), usize>,
    keep_examples: bool,
    /// Patterns and their locations.
    patterns: Vec<(Span, String)>,
    failed: bool,
}

impl<'c, 'd> Copy<'c, 'd> {
    fn new(
        description: &'c Description<'d>,
        direction: Direction,
        report: &'c mut Diagnostics,
    ) -> Self {
        Self {
            description,
            direction,
            report,
            places: Vec::new(),
            index: HashMap::new(),
            keep_examples: false,
            patterns: Vec::new(),
            failed: false,
        }
    }

    /// The schema and all schemas it refers to.
    fn whole(&mut self, at: &Cursor<'d>) -> Value {
        let mut value = self.schema(at);
        let mut defs = Map::new();
        // Copying a schema may add further ones.
        let mut next = 0;
        while let Some(place) = self.places.get(next).cloned() {
            defs.insert(next.to_string(), self.schema(&place));
            next += 1;
        }
        if let (Value::Object(members), false) = (&mut value, defs.is_empty()) {
            members.insert("$defs".to_owned(), Value::Object(defs));
        }
        value
    }

    fn fault(&mut self, node: &Node, message: String) {
        self.report.error(codes::BAD_SCHEMA, node.at, message);
        self.failed = true;
    }

    fn schema(&mut self, at: &Cursor<'d>) -> Value {
        if at.node.members().is_none() {
            return match self.raw(at.node) {
                Value::Bool(always) => Value::Bool(always),
                _ => {
                    let found = at.node.describe();
                    self.fault(at.node, format!("a schema must be a mapping, not {found}"));
                    Value::Bool(false)
                }
            };
        }
        let mut out = Map::new();
        if let Some(reference) = at.node.get("$ref").filter(|r| r.text().is_some()) {
            out.insert("$ref".to_owned(), self.reference(at, reference));
            if self.description.version == Version::V30 {
                // Siblings of a reference are ignored there.
                return Value::Object(out);
            }
        }
        for (member, below) in at.members() {
            let key = member.key.as_str();
            if REFUSED.contains(&key) {
                let message =
                    format!("`{key}` is not supported: use a JSON pointer (`#/components/…`)");
                self.fault(&member.value, message);
            }
            match (key, &member.value.data) {
                ("pattern", _) => {
                    let pattern = member.value.text().map(ToOwned::to_owned);
                    self.patterns.extend(pattern.map(|pattern| (member.value.at, pattern)));
                }
                ("patternProperties", Data::Map(patterns)) => {
                    self.patterns.extend(patterns.iter().map(|m| (m.at, m.key.clone())));
                }
                _ => {}
            }
            let value = match key {
                "$ref" => continue,
                _ if (EXAMPLES.contains(&key) || DIRECTED.contains(&key)) && self.keep_examples => {
                    self.raw(below.node)
                }
                _ if EXAMPLES.contains(&key) || SILENT.contains(&key) || key.starts_with("x-") => {
                    continue;
                }
                _ if SCHEMA_MEMBERS.contains(&key) => self.schema(&below),
                _ if SCHEMA_LISTS.contains(&key) && below.node.items().is_some() => {
                    below.items().map(|item| self.schema(&item)).collect()
                }
                _ if SCHEMA_TABLES.contains(&key) && below.node.members().is_some() => {
                    let named = below.members().map(|(m, at)| (m.key.clone(), self.schema(&at)));
                    Value::Object(named.collect())
                }
                _ => self.raw(below.node),
            };
            out.insert(key.to_owned(), value);
        }
        self.forgive(at, &mut out);
        if self.description.version == Version::V30 {
            translate(at, &mut out);
        }
        Value::Object(out)
    }

    fn reference(&mut self, at: &Cursor<'d>, reference: &Node) -> Value {
        let Some(target) = self.description.target(at, reference, self.report) else {
            self.failed = true;
            return Value::Null;
        };
        let key = (target.document, target.pointer.clone());
        let next = self.places.len();
        if next >= CLOSURE && !self.index.contains_key(&key) {
            if !self.failed {
                let message = format!("the schema refers to more than {CLOSURE} others");
                self.fault(reference, message);
            }
            return Value::Null;
        }
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.places.push(target);
        }
        Value::String(format!("#/$defs/{number}"))
    }

    fn raw(&mut self, node: &Node) -> Value {
        serde_json::to_value(node).unwrap_or_else(|_| {
            self.fault(node, "not a JSON value".to_owned());
            Value::Null
        })
    }

    /// Removes from `required` the members of the other direction.
    fn forgive(&mut self, at: &Cursor<'d>, out: &mut Map<String, Value>) {
        let Some(Value::Array(required)) = out.get_mut("required") else { return };
        let Some(properties) = at.get("properties") else { return };
        let mark = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        required.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name));
            let marked = property.is_some_and(|property| {
                let mut silent = Diagnostics::default();
                let meant = self.description.follow(&property, &mut silent);
                property.is_set(mark) || meant.is_some_and(|p| p.is_set(mark))
            });
            !marked
        });
    }
}

/// From the dialect of OpenAPI 3.0.
fn translate(at: &Cursor<'_>, out: &mut Map<String, Value>) {
    if at.is_set("nullable")
        && let Some(Value::String(kind)) = out.get("type")
    {
        let kinds = vec![Value::String(kind.clone()), Value::String("null".to_owned())];
        out.insert("type".to_owned(), Value::Array(kinds));
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(&Value::Bool(is_exclusive)) = out.get(flag) else { continue };
        let value = if is_exclusive { out.remove(limit) } else { None };
        match value {
            Some(value) => out.insert(flag.to_owned(), value),
            None => out.remove(flag),
        };
    }
}
