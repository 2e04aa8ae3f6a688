//! JSON as it is validated: parsed whole, no deeper than [`DEPTH`], and refused if a member stands
//! twice in an object, since whoever reads it next might take the other one.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Deepest nesting of a body.
pub const DEPTH: usize = 64;

/// Parses a body.
///
/// # Errors
/// What is wrong with it and where, without a word of what stands there.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { depth: DEPTH }.deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    value.map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("no JSON at line {} column {}", error.line(), error.column()),
        };
        what.chars().take(200).collect()
    })
}

struct Seed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.below::<A::Error>()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed { depth })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.below::<A::Error>()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Seed { depth })?;
            if map.insert(name, value).is_some() {
                return Err(Error::custom("a member stands twice in one object"));
            }
        }
        Ok(Value::Object(map))
    }
}

impl Seed {
    fn below<E: Error>(&self) -> Result<usize, E> {
        let deep = || E::custom(format_args!("nested deeper than {DEPTH} levels"));
        self.depth.checked_sub(1).ok_or_else(deep)
    }
}
