//! One pass over a body that takes byte ranges and builds nothing else.
//!
//! Who gets them is a [`Sink`]: maps and business keys want one value for each path ([`Slots`]),
//! masks every range, also those that a duplicate name hides ([`Ranges`]).

use super::path::Step;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// What is wanted of a value: the value itself, members or items of it.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Slots that take the whole value.
    take: Vec<usize>,
    /// Slots anywhere from here on down: a later duplicate name empties them.
    below: Vec<usize>,
    names: Vec<(String, Wanted)>,
    indexes: Vec<(usize, Wanted)>,
}

impl Wanted {
    /// Asks for the value at `path` to be put into `slot`.
    pub(crate) fn add(&mut self, path: &[Step], slot: usize) {
        self.below.push(slot);
        match path {
            [] => self.take.push(slot),
            [Step::Name(name), rest @ ..] => {
                let at = self.names.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                    self.names.push((name.clone(), Self::default()));
                    self.names.len() - 1
                });
                self.names[at].1.add(rest, slot);
            }
            [Step::Index(index), rest @ ..] => {
                let at = self.indexes.iter().position(|(i, _)| i == index).unwrap_or_else(|| {
                    self.indexes.push((*index, Self::default()));
                    self.indexes.len() - 1
                });
                self.indexes[at].1.add(rest, slot);
            }
        }
    }

    fn has_children(&self) -> bool {
        !self.names.is_empty() || !self.indexes.is_empty()
    }
}

/// Values found, as they stand in the body.
pub(crate) struct Slots<'b>(Vec<Option<&'b str>>);

impl<'b> Slots<'b> {
    pub(crate) fn new(length: usize) -> Self {
        Self(vec![None; length])
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&'b str> {
        self.0.get(slot).copied().flatten()
    }

    fn fill(&mut self, slots: &[usize], value: Option<&'b str>) {
        for slot in slots {
            self.0[*slot] = value;
        }
    }
}

/// Who gets what a pass finds.
pub(crate) trait Sink<'b> {
    /// A value was found for these slots.
    fn found(&mut self, slots: &[usize], value: &'b str);

    /// A name begins, below which are these slots; what an earlier one of the same name held does
    /// not count.
    fn begin(&mut self, below: &[usize]);
}

impl<'b> Sink<'b> for Slots<'b> {
    fn found(&mut self, slots: &[usize], value: &'b str) {
        self.fill(slots, Some(value));
    }

    fn begin(&mut self, below: &[usize]) {
        self.fill(below, None);
    }
}

/// Every range found, in the order of their beginnings; one may lie within the one before it.
pub(crate) struct Ranges<'b> {
    text: &'b str,
    found: Vec<Range<usize>>,
}

impl<'b> Ranges<'b> {
    pub(crate) fn new(text: &'b str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(crate) fn into_ranges(self) -> Vec<Range<usize>> {
        self.found
    }
}

impl<'b> Sink<'b> for Ranges<'b> {
    fn found(&mut self, _: &[usize], value: &'b str) {
        let start = value.as_ptr().addr() - self.text.as_ptr().addr();
        self.found.push(start..start + value.len());
    }

    fn begin(&mut self, _: &[usize]) {}
}

/// Reads `text`, which must be one JSON value and nothing else, into `sink`.
pub(crate) fn read<'b>(
    text: &'b str,
    wanted: &Wanted,
    sink: &mut impl Sink<'b>,
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Walk { wanted, sink }.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Reads one value.
struct Walk<'w, 's, S> {
    wanted: &'w Wanted,
    sink: &'s mut S,
}

impl<'de, S: Sink<'de>> DeserializeSeed<'de> for Walk<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.wanted.take.is_empty() && self.wanted.has_children() {
            return deserializer.deserialize_any(self);
        }
        if self.wanted.take.is_empty() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?;
        self.sink.found(&self.wanted.take, raw.get());
        if self.wanted.has_children() {
            // The value itself and parts of it: its parts are read from the range once more.
            let mut inner = serde_json::Deserializer::from_str(raw.get());
            inner.deserialize_any(self).map_err(D::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de, S: Sink<'de>> Visitor<'de> for Walk<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let names = &self.wanted.names;
        while let Some(found) = map.next_key_seed(Find(names))? {
            match found {
                Some(index) => {
                    let wanted = &names[index].1;
                    // Of duplicate names the last wins, also where it holds less than the first.
                    self.sink.begin(&wanted.below);
                    map.next_value_seed(Walk { wanted, sink: &mut *self.sink })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let indexes = &self.wanted.indexes;
        let mut at = 0;
        loop {
            let more = match indexes.iter().find(|(index, _)| *index == at) {
                Some((_, wanted)) => {
                    seq.next_element_seed(Walk { wanted, sink: &mut *self.sink })?.is_some()
                }
                None => seq.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
            at += 1;
        }
    }

    // A scalar has no members: what is wanted of it is absent.

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Finds a member's name among those wanted, without allocating.
struct Find<'w>(&'w [(String, Wanted)]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|(wanted, _)| wanted == name))
    }
}
