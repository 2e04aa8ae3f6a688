//! The JSON Schema (draft 2020-12) of documents, from the description of their keys.

use crate::shape::{Group, Key, Kind, Names, Shape};
use serde_json::{Map, Value, json};

/// The JSON Schema of documents of a shape; `others` are shapes of related documents, which have
/// definitions of their own. Every mapping rejects unknown keys.
pub fn schema(shape: &'static Shape, title: &str, others: &[&'static Shape]) -> Value {
    let mut definitions = Definitions::new();
    let mut schema = object(shape, &mut definitions);
    for other in others {
        let object = object(other, &mut definitions);
        definitions.insert(definition(other), object);
    }
    let mut document = Map::new();
    document.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    document.insert("title".to_owned(), json!(title));
    if let Some(members) = schema.as_object_mut() {
        document.append(members);
    }
    document.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(document)
}

/// Shapes by the name of their definition.
type Definitions = Map<String, Value>;

/// `an API key auth` as `api-key-auth`.
fn definition(shape: &Shape) -> String {
    let name = shape.name.trim_start_matches("an ").trim_start_matches("a ");
    name.trim_start_matches("the ").to_lowercase().replace(' ', "-")
}

fn reference(shape: &'static Shape, definitions: &mut Definitions) -> Value {
    let name = definition(shape);
    if !definitions.contains_key(&name) {
        // Inserted first, so that the recursion ends for a shape within itself.
        definitions.insert(name.clone(), Value::Null);
        let schema = object(shape, definitions);
        definitions.insert(name.clone(), schema);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn object(shape: &'static Shape, definitions: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for key in shape.keys {
        properties.insert(key.name.to_owned(), property(key, definitions));
    }
    let mut schema = json!({
        "type": "object",
        "description": shape.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    let required: Vec<&str> = shape.keys.iter().filter(|k| k.required).map(|k| k.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let groups: Vec<Value> = shape.groups.iter().map(group).collect();
    if !groups.is_empty() {
        schema["allOf"] = json!(groups);
    }
    schema
}

/// Exactly one of the keys, or at most one.
fn group(group: &Group) -> Value {
    let mut one: Vec<Value> = group.keys.iter().map(|k| json!({ "required": [k] })).collect();
    if !group.required {
        one.push(json!({ "not": { "anyOf": one } }));
    }
    json!({ "oneOf": one })
}

fn property(key: &'static Key, definitions: &mut Definitions) -> Value {
    let mut schema = kind(&key.kind, definitions);
    schema["description"] = json!(key.doc);
    schema
}

/// A schema cannot know the values of `${env:NAME}` and `file:`.
const SUBSTITUTED: &str = r"\$\{env:|^file:";

fn kind(kind_: &'static Kind, definitions: &mut Definitions) -> Value {
    match kind_ {
        Kind::Text | Kind::Secret => json!({ "type": "string" }),
        Kind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer(min, max) => match *max {
            u64::MAX => json!({ "type": "integer", "minimum": min }),
            max => json!({ "type": "integer", "minimum": min, "maximum": max }),
        },
        Kind::Format(format) => match format.pattern {
            Some(pattern) => {
                json!({ "type": "string", "pattern": format!("{pattern}|{SUBSTITUTED}") })
            }
            None => json!({ "type": "string" }),
        },
        Kind::Enum(words) => json!({ "enum": words }),
        Kind::Json => json!({}),
        Kind::List(item) => {
            json!({ "type": "array", "items": kind(item, definitions), "minItems": 1 })
        }
        Kind::OneOrMany(item) => {
            let item = kind(item, definitions);
            json!({ "anyOf": [item, { "type": "array", "items": item, "minItems": 1 }] })
        }
        Kind::Table(names, value) => {
            let value = kind(value, definitions);
            let mut schema = json!({ "type": "object", "additionalProperties": value });
            if *names != Names::Parameter
                && let Some(pattern) = names.format().pattern
            {
                schema["propertyNames"] = json!({ "pattern": pattern });
            }
            schema
        }
        Kind::Object(shape) => reference(shape, definitions),
        Kind::Either(kinds) => {
            let kinds: Vec<Value> = kinds.iter().map(|k| kind(k, definitions)).collect();
            json!({ "anyOf": kinds })
        }
    }
}
