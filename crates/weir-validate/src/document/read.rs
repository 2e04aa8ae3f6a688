//! Parses a text into a [`Document`], in one pass.

use super::{DEPTH, Data, Document, Span, Unread, VALUES, mark, number};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::fmt;

/// Approximate length of an index in a path, in bytes.
const INDEX: usize = 8;
/// Explanation for a text with more values than a document can hold.
const MANY: &str = "the body exceeds the budget of the validation: too many values";

impl<'t> Document<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// Fault and location, without quoting the text.
    pub(crate) fn parse(bytes: &'t [u8]) -> Result<Self, Unread> {
        let mut document = Self::default();
        match document.read(bytes) {
            Ok(()) => Ok(document),
            Err(_) if document.entries.len() >= VALUES => Err(Unread::OverBudget(MANY)),
            Err(why) => Err(Unread::Malformed(why)),
        }
    }

    /// From a value without duplicate members. `None`: over budget.
    pub(crate) fn of(value: &'t Value) -> Option<Self> {
        let mut document = Self::default();
        document.seed().deserialize(value).ok()?;
        Some(document)
    }

    fn seed(&mut self) -> Seed<'_, 't> {
        Seed { document: self, name: Span::default(), mark: 0, depth: DEPTH, path: 0 }
    }

    fn read(&mut self, bytes: &'t [u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
            format!("not JSON at line {line} column {column}: invalid UTF-8")
        })?;
        self.text = text;
        // Each value except the first follows one of these bytes. A list that has to grow would
        // temporarily take twice the memory.
        let before = |b: &&u8| matches!(**b, b',' | b'[' | b'{');
        let most = bytes.iter().filter(before).count() + 1;
        self.entries = Vec::with_capacity(most.min(VALUES));
        let mut reader = serde_json::Deserializer::from_str(text);
        self.seed().deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Data => error.to_string(),
                _ => format!("not JSON at line {} column {}", error.line(), error.column()),
            };
            what.chars().take(200).collect::<String>()
        })
    }
}

/// Parses one value into the list.
struct Seed<'d, 't> {
    document: &'d mut Document<'t>,
    name: Span,
    mark: u32,
    depth: usize,
    /// Approximate length of the path to the value, in bytes.
    path: usize,
}

impl<'t> Seed<'_, 't> {
    fn push<E: Error>(self, data: Data) -> Result<(), E> {
        self.room()?;
        self.document.push(self.name, self.mark, data);
        Ok(())
    }

    /// Whether one more value fits.
    fn room<E: Error>(&self) -> Result<(), E> {
        if self.document.entries.len() < VALUES { Ok(()) } else { Err(E::custom(MANY)) }
    }

    /// Remaining levels below this one.
    fn below<E: Error>(&self) -> Result<usize, E> {
        self.room()?;
        let deep = || E::custom(format_args!("nested deeper than {DEPTH} levels"));
        self.depth.checked_sub(1).ok_or_else(deep)
    }
}

impl<'t> DeserializeSeed<'t> for Seed<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Seed<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(Data::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(Data::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(Data::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.push(Data::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.push(Number::from_f64(value).map_or(Data::Null, Data::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let text = self.document.span(text);
        self.push(Data::String(text))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.below::<A::Error>()?;
        let Self { document, name, mark, path, .. } = self;
        let at = document.open(name, mark);
        let path = path + INDEX;
        document.longest_path = document.longest_path.max(path);
        let mut count = 0;
        while let Some(()) = items.next_element_seed(Seed {
            document: &mut *document,
            name: Span::default(),
            mark: 0,
            depth,
            path,
        })? {
            count += 1;
        }
        document.close(at, Data::Array(number(count)));
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<(), A::Error> {
        let depth = self.below::<A::Error>()?;
        let Self { document, name, mark, path, .. } = self;
        let at = document.open(name, mark);
        let mut count = 0;
        while let Some((name, mark)) = members.next_key_seed(Name(&mut *document))? {
            let path = path + 1 + name.length as usize;
            document.longest_path = document.longest_path.max(path);
            let seed = Seed { document: &mut *document, name, mark, depth, path };
            members.next_value_seed(seed)?;
            count += 1;
        }
        if document.close_object(at, count) {
            return Ok(());
        }
        Err(Error::custom("duplicate member in the object that ends"))
    }
}

/// Parses the name of a member; returns its hash, too.
struct Name<'d, 't>(&'d mut Document<'t>);

impl<'t> DeserializeSeed<'t> for Name<'_, 't> {
    type Value = (Span, u32);

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(Span, u32), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'t> for Name<'_, 't> {
    type Value = (Span, u32);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<(Span, u32), E> {
        Ok((self.0.span(name), mark(name)))
    }
}
