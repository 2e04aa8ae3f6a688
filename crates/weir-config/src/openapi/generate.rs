//! Values generated from schemas: examples, or the simplest values that the keywords allow.

use super::Direction;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

/// Maximum nesting of a generated value, including references.
const MAX_DEPTH: usize = 12;
/// Maximum number of schemas of a generated value.
const MAX_SCHEMAS: usize = 1_000;

/// Maximum length of a text that is generated for a pattern.
const MAX_PATTERN_TEXT: usize = 1_000;

/// Generates values for schemas of a self-contained one.
pub(super) struct Generator<'s> {
    root: &'s Value,
    /// Keyword of properties that are left out.
    omit: &'static str,
    /// Number of schemas that may still be visited.
    left: usize,
}

impl<'s> Generator<'s> {
    /// A value for a self-contained schema, in this direction.
    pub(super) fn generate(schema: &'s Value, direction: Direction) -> Option<Value> {
        let omit = match direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        Self { root: schema, omit, left: MAX_SCHEMAS }.value(schema, MAX_DEPTH)
    }

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
            "integer" => (amount(number, 1.0)?.ceil() as i64).into(),
            "number" => amount(number, 0.0)?.into(),
            "boolean" => true.into(),
            "string" => {
                let written = |key: &str| members.get(key).and_then(Value::as_str);
                match written("pattern").map(matching) {
                    Some(text) => text?.into(),
                    None => text(written("format"), number("minLength"), number("maxLength")),
                }
            }
            _ => Value::Null,
        })
    }

    /// An object with every member that can be generated; `None` if a required one cannot.
    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut object = Map::new();
        let required = schema.get("required").and_then(Value::as_array);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            if self.is_omitted(member) {
                continue;
            }
            if let Some(value) = self.value(member, depth) {
                object.insert(name.clone(), value);
            } else if required.is_some_and(|r| r.iter().any(|known| known == name)) {
                return None;
            }
        }
        Some(Value::Object(object))
    }

    /// Whether a property is one of the other direction.
    fn is_omitted(&self, member: &Value) -> bool {
        let target = member.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?));
        let is_set = |schema: &Value| schema.get(self.omit) == Some(&Value::Bool(true));
        is_set(member) || target.is_some_and(is_set)
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

/// The smallest number that the keywords allow, from 0 on unless negative ones are all that is allowed;
/// `step` is the distance from an excluded limit.
fn amount(number: impl Fn(&str) -> Option<f64>, step: f64) -> Option<f64> {
    let beyond = if step > 0.0 { step } else { 0.5 };
    let above = number("exclusiveMinimum").map(|limit| limit + beyond);
    let below = number("exclusiveMaximum").map(|limit| limit - beyond);
    let least = [number("minimum"), above].into_iter().flatten().reduce(f64::max);
    let most = [number("maximum"), below].into_iter().flatten().reduce(f64::min);
    let value = least.unwrap_or_else(|| most.map_or(0.0, |most| most.min(0.0)));
    let multiple = number("multipleOf").filter(|multiple| *multiple > 0.0);
    let value = multiple.map_or(value, |multiple| (value / multiple).ceil() * multiple);
    most.is_none_or(|most| value <= most).then_some(value)
}

/// A short text that matches a pattern; `None` for patterns with look-around.
fn matching(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let hir = regex_syntax::parse(pattern).ok()?;
    append(&hir, &mut text)?;
    Some(text)
}

fn append(hir: &Hir, text: &mut String) -> Option<()> {
    if text.len() > MAX_PATTERN_TEXT {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            // A letter or digit, if the class has one.
            let has = |one: char| class.iter().any(|r| r.start() <= one && one <= r.end());
            let plain = ['a', 'A', '1', '0'].into_iter().find(|plain| has(*plain));
            text.push(plain.or_else(|| class.iter().next().map(|range| range.start()))?);
        }
        HirKind::Class(Class::Bytes(class)) => {
            text.push(char::from(class.iter().next()?.start()));
        }
        HirKind::Repetition(repetition) => {
            let times = match (repetition.min, repetition.max) {
                (0, Some(0)) => 0,
                (least, _) => least.max(1),
            };
            for _ in 0..times {
                append(&repetition.sub, text)?;
            }
        }
        HirKind::Capture(capture) => append(&capture.sub, text)?,
        HirKind::Concat(parts) => {
            for part in parts {
                append(part, text)?;
            }
        }
        HirKind::Alternation(choices) => append(choices.first()?, text)?,
    }
    Some(())
}

fn text(format: Option<&str>, least: Option<f64>, most: Option<f64>) -> Value {
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
        Some("duration") => "PT1H",
        Some("byte") => "dGV4dA==",
        _ => "text",
    };
    let least = least.unwrap_or(0.0).clamp(0.0, 1000.0) as usize;
    let most = most.map_or(usize::MAX, |most| most.max(0.0) as usize);
    let text = if text.len() >= least { text.to_owned() } else { "text".repeat(least.div_ceil(4)) };
    text.chars().take(most).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(schema: &Value) -> Option<Value> {
        Generator::generate(schema, Direction::Request)
    }

    #[test]
    fn keywords_are_observed() {
        for (schema, value) in [
            (json!({"type": "integer"}), json!(0)),
            (json!({"type": "integer", "minimum": 3, "multipleOf": 5}), json!(5)),
            (json!({"type": "integer", "exclusiveMinimum": 3}), json!(4)),
            (json!({"type": "integer", "maximum": -2}), json!(-2)),
            (json!({"type": "string", "pattern": "^[a-z0-9-]{2,16}$"}), json!("aa")),
            (json!({"type": "string", "pattern": "^(ab|cd)\\d+$"}), json!("ab1")),
            (json!({"type": "string", "format": "date"}), json!("2026-01-01")),
            (json!({"type": "string", "maxLength": 2}), json!("te")),
            (json!({"type": "string", "minLength": 5}), json!("texttext")),
            (json!({"enum": ["open", "sent"]}), json!("open")),
        ] {
            assert_eq!(request(&schema), Some(value), "{schema}");
        }
    }

    #[test]
    fn impossible_values_are_left_out() {
        let none = [
            json!({"type": "integer", "minimum": 3, "maximum": 2}),
            json!({"type": "string", "pattern": "(?=look)ahead"}),
            json!({"type": "string", "pattern": "x{100}{100}"}),
        ];
        for schema in none {
            assert_eq!(request(&schema), None, "{schema}");
        }
    }

    #[test]
    fn properties_of_the_other_direction_are_left_out() {
        let schema = json!({"type": "object", "properties": {
            "id": {"type": "integer", "readOnly": true},
            "secret": {"type": "string", "writeOnly": true},
        }});
        assert_eq!(request(&schema), Some(json!({"secret": "text"})));
        assert_eq!(Generator::generate(&schema, Direction::Response), Some(json!({"id": 0})));
    }
}
