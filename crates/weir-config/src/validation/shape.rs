//! The types in a schema, as far as they are needed to parse a text as a value of it.

use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum nesting that is visited, references included.
const DEPTH: usize = 8;
/// Maximum number of schemas that are visited: parameters and forms are small.
const SCHEMAS: usize = 500;

/// A set of types of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// `null`.
    pub const NULL: Self = Self(1);
    /// `true` and `false`.
    pub const BOOLEAN: Self = Self(2);
    /// Numbers, including integers.
    pub const NUMBER: Self = Self(4);
    /// Strings.
    pub const STRING: Self = Self(8);
    /// Arrays.
    pub const ARRAY: Self = Self(16);
    /// Objects.
    pub const OBJECT: Self = Self(32);

    /// Whether the set contains any of the types of `other`.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" | "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self(0),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Types of a value and of its content.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Types of the value; empty if the schema does not specify them.
    pub types: Types,
    /// Shape of the items.
    pub items: Option<Box<Shape>>,
    /// Shapes of named members.
    pub members: BTreeMap<String, Shape>,
}

impl Shape {
    /// The shape of a self-contained schema.
    pub fn of(schema: &Value) -> Self {
        let mut shape = Self::default();
        shape.add(schema, schema, DEPTH, &mut SCHEMAS.clone());
        shape
    }

    fn add(&mut self, schema: &Value, root: &Value, depth: usize, left: &mut usize) {
        let (Some(schema), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else {
            return;
        };
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        match schema.get("type") {
            Some(Value::String(name)) => self.types.add(Types::named(name)),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                names.for_each(|name| self.types.add(Types::named(name)));
            }
            _ => {
                let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
                listed.chain(schema.get("const")).for_each(|v| self.types.add(Types::of(v)));
            }
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = target.strip_prefix('#').and_then(|p| root.pointer(p))
        {
            self.add(target, root, depth, left);
        }
        for list in ["allOf", "anyOf", "oneOf"] {
            let schemas = schema.get(list).and_then(Value::as_array).into_iter().flatten();
            schemas.for_each(|schema| self.add(schema, root, depth, left));
        }
        if let Some(items) = schema.get("items") {
            self.items.get_or_insert_default().add(items, root, depth, left);
        }
        let members = schema.get("properties").and_then(Value::as_object);
        for (name, member) in members.into_iter().flatten() {
            self.members.entry(name.clone()).or_default().add(member, root, depth, left);
        }
    }

    /// Values that a text may represent, the most likely first; never empty.
    pub fn readings(&self, text: &str) -> Vec<Value> {
        let mut readings = Vec::with_capacity(1);
        if self.types.has(Types::NUMBER)
            && let Ok(number) = serde_json::from_str::<serde_json::Number>(text)
        {
            readings.push(Value::Number(number));
        }
        if self.types.has(Types::BOOLEAN) && matches!(text, "true" | "false") {
            readings.push(Value::Bool(text == "true"));
        }
        if self.types.has(Types::NULL) && matches!(text, "" | "null") {
            readings.push(Value::Null);
        }
        if readings.is_empty() || self.types.has(Types::STRING) {
            readings.push(Value::String(text.to_owned()));
        }
        readings
    }

    /// The most likely value.
    pub fn reading(&self, text: &str) -> Value {
        self.readings(text).swap_remove(0)
    }
}
