//! Mock responses: examples of an OpenAPI document, or values generated from its schemas.

use super::operation::{is_json, statuses};
use super::{Cursor, Description, Operation, Schemas};
use crate::config::{Reply, ReplyBody, Representation};
use crate::validation::Statuses;
use serde_json::{Map, Value};
use weir_document::finding::{Diagnostics, codes};

/// Maximum nesting of a generated value, including references.
const MAX_DEPTH: usize = 12;
/// Maximum number of schemas of a generated value.
const MAX_SCHEMAS: usize = 1_000;

/// Selection of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExampleSelection<'t> {
    /// Its status; by default the first successful one.
    pub(crate) status: Option<u16>,
    /// Name of an example; by default the first one.
    pub(crate) example: Option<&'t str>,
}

impl<'d> Description<'d> {
    /// The example response of an operation. `None` with a finding at `spot`.
    pub(crate) fn mock(
        &self,
        operation: &Operation<'d>,
        selection: ExampleSelection<'_>,
        schemas: &Schemas<'d>,
        span: weir_document::source_map::Span,
        report: &mut Diagnostics,
    ) -> Option<Reply> {
        let Some((status, response)) = self.selected_response(operation, selection, report) else {
            let message = format!("`{}` does not describe this response", operation.name);
            report
                .error(codes::NO_EXAMPLE, span, message)
                .related(operation.span, "described here");
            return None;
        };
        let mut representations = Vec::new();
        let content = response.get("content");
        let contents = content.iter().flat_map(Cursor::members);
        let mut named = selection.example.is_none();
        for (member, at) in contents {
            let content_type = member.key.trim();
            if content_type.contains('*') {
                continue;
            }
            let Some((value, found)) = self.example(&at, selection, schemas, report) else {
                continue;
            };
            named |= found;
            let json = is_json(&content_type.to_ascii_lowercase());
            let body = match value {
                Value::String(text) if !json => text.into_bytes(),
                value => value.to_string().into_bytes(),
            };
            representations.push(Representation { content_type: content_type.to_owned(), body });
        }
        if !named
            || (content.is_some_and(|c| c.members().next().is_some()) && representations.is_empty())
        {
            let message = format!("`{}` has no example of this response", operation.name);
            report
                .error(codes::NO_EXAMPLE, span, message)
                .related(response.node.at, "the response");
            return None;
        }
        let body = match representations.len() {
            0 => ReplyBody::Empty,
            _ => ReplyBody::Negotiated(representations),
        };
        Some(Reply { status, headers: Vec::new(), body })
    }

    fn selected_response(
        &self,
        operation: &Operation<'d>,
        selection: ExampleSelection<'_>,
        report: &mut Diagnostics,
    ) -> Option<(u16, Cursor<'d>)> {
        let responses = operation.at.get("responses")?;
        let mut candidates: Vec<_> = responses
            .members()
            .filter_map(|(member, at)| Some((statuses(&member.key)?, at)))
            .collect();
        candidates.sort_by_key(|(status, _)| *status);
        let successful = |status: u16| (200..300).contains(&status);
        let found = candidates.into_iter().find_map(|(statuses, at)| {
            let status = match (statuses, selection.status) {
                (Statuses::One(one), Some(selection)) => (one == selection).then_some(one),
                (Statuses::One(one), None) => successful(one).then_some(one),
                (Statuses::Class(class), Some(selection)) => {
                    (class == selection / 100).then_some(selection)
                }
                (Statuses::Class(class), None) => (class == 2).then_some(200),
                (Statuses::Others, selection) => Some(selection.unwrap_or(200)),
            };
            Some((status?, at))
        })?;
        // Replies have final statuses only.
        let (status, at) = found;
        (200..600).contains(&status).then_some((status, self.follow(&at, report)?))
    }

    /// The example of a media type, and whether it is the named one.
    fn example(
        &self,
        at: &Cursor<'d>,
        selection: ExampleSelection<'_>,
        schemas: &Schemas<'d>,
        report: &mut Diagnostics,
    ) -> Option<(Value, bool)> {
        let json = |at: &Cursor<'d>| serde_json::to_value(at.node).ok();
        if let Some(examples) = at.get("examples") {
            let mut named = examples.members();
            let chosen = match selection.example {
                Some(name) => named.find(|(member, _)| member.key == name),
                None => named.next(),
            };
            if let Some((_, example)) = chosen
                && let Some(value) = self.follow(&example, report)?.get("value")
            {
                return Some((json(&value)?, true));
            }
        }
        if let Some(example) = at.get("example") {
            return Some((json(&example)?, false));
        }
        let schema = schemas.value(&at.get("schema")?, report)?;
        let mut generator = Generator { root: &schema, left: MAX_SCHEMAS };
        Some((generator.value(&schema, MAX_DEPTH)?, false))
    }
}

/// Generates values for schemas of a self-contained one.
struct Generator<'s> {
    root: &'s Value,
    /// Number of schemas that may still be visited.
    left: usize,
}

impl Generator<'_> {
    /// A value for a schema: its example, or the simplest value that its keywords allow.
    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let members = match schema {
            Value::Bool(true) => return Some(Value::Null),
            Value::Object(members) => members,
            _ => return None,
        };
        let depth = depth.checked_sub(1)?;
        let first = |key: &str| members.get(key).and_then(Value::as_array).and_then(|l| l.first());
        let example = members.get("example").or_else(|| first("examples"));
        let example = example.or_else(|| members.get("default")).or_else(|| members.get("const"));
        if let Some(value) = example.or_else(|| first("enum")) {
            return Some(value.clone());
        }
        if let Some(target) = members.get("$ref").and_then(Value::as_str) {
            return self.value(self.root.pointer(target.strip_prefix('#')?)?, depth);
        }
        if let Some(parts) = members.get("allOf").and_then(Value::as_array) {
            return self.all_of(parts, members, depth);
        }
        for choice in ["oneOf", "anyOf"] {
            if let Some(value) = members.get(choice).and_then(Value::as_array) {
                return value.iter().find_map(|schema| self.value(schema, depth));
            }
        }
        let kind = match members.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
            _ if members.contains_key("properties") => "object",
            _ if members.contains_key("items") => "array",
            _ => return Some(Value::Null),
        };
        let number = |key: &str| members.get(key).and_then(Value::as_f64);
        Some(match kind {
            "object" => self.object(members, depth)?,
            "array" => {
                let least = number("minItems").unwrap_or(1.0).max(1.0) as usize;
                let item = members.get("items").and_then(|items| self.value(items, depth));
                Value::Array(item.map_or_else(Vec::new, |item| vec![item; least.min(100)]))
            }
            "integer" => (number("minimum").unwrap_or(0.0).ceil() as i64).into(),
            "number" => number("minimum").unwrap_or(0.0).into(),
            "boolean" => true.into(),
            "string" => text(members.get("format").and_then(Value::as_str), number("minLength")),
            _ => Value::Null,
        })
    }

    /// An object with every member that can be generated; `None` if a required one cannot.
    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut object = Map::new();
        let required = schema.get("required").and_then(Value::as_array);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            if let Some(value) = self.value(member, depth) {
                object.insert(name.clone(), value);
            } else if required.is_some_and(|r| r.iter().any(|known| known == name)) {
                return None;
            }
        }
        Some(Value::Object(object))
    }

    fn all_of(&mut self, parts: &[Value], own: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut merged = self.object(own, depth)?;
        for part in parts {
            match (&mut merged, self.value(part, depth)?) {
                (Value::Object(merged), Value::Object(more)) => merged.extend(more),
                (_, Value::Null) => {}
                (merged, other) => *merged = other,
            }
        }
        Some(merged)
    }
}

fn text(format: Option<&str>, least: Option<f64>) -> Value {
    let text = match format {
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("time") => "00:00:00Z",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("email") => "somebody@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        _ => "text",
    };
    let least = least.unwrap_or(0.0).clamp(0.0, 1000.0) as usize;
    if text.len() >= least { text.into() } else { "text".repeat(least.div_ceil(4)).into() }
}
