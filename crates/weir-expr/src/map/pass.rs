//! One pass over a body that takes byte ranges and builds nothing else.
//!
//! Who gets them is a [`Sink`]: maps and business keys want one value for each path ([`Slots`]),
//! masks every range, also those that a duplicate name hides ([`Ranges`]).

use super::path::Step;
use super::scan::{skip, string, white};
use serde::de::{Error as _, IgnoredAny};
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

    /// What is wanted of the member with this name, which is given as it stands in the text.
    fn member(&self, quoted: &str) -> Option<&Self> {
        let plain = quoted.get(1..quoted.len() - 1)?;
        let decoded;
        let name = if plain.contains('\\') {
            decoded = serde_json::from_str::<String>(quoted).ok()?;
            &decoded
        } else {
            plain
        };
        self.names.iter().find(|(wanted, _)| wanted == name).map(|(_, inner)| inner)
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

/// Every range found, in the order of their ends; one may lie within the one behind it.
pub(crate) struct Ranges<'b> {
    text: &'b str,
    found: Vec<Range<usize>>,
}

impl<'b> Ranges<'b> {
    pub(crate) fn new(text: &'b str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// They in the order of their beginnings, without those that lie within another one.
    pub(crate) fn outermost(mut self) -> Vec<Range<usize>> {
        self.found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        let mut behind = 0;
        self.found.retain(|range| {
            let outside = range.start >= behind;
            behind = behind.max(range.end);
            outside
        });
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

/// Reads `text`, which must be one JSON value and nothing else, into `sink`. Where it is not,
/// that has what was found before the fault.
pub(crate) fn read<'b>(
    text: &'b str,
    wanted: &Wanted,
    sink: &mut impl Sink<'b>,
) -> Result<(), serde_json::Error> {
    let bytes = text.as_bytes();
    let end = Walk { text, sink }.value(white(bytes, 0), wanted);
    if end.is_some_and(|end| white(bytes, end) == bytes.len()) {
        return Ok(());
    }
    // It finds the same once more, and has words for it.
    let found = serde_json::from_str::<IgnoredAny>(text);
    Err(found.err().unwrap_or_else(|| serde_json::Error::custom("not JSON")))
}

/// Reads a text. Each function takes a place and gives the one behind what it has read; none if
/// that is not JSON.
struct Walk<'s, 'b, S> {
    text: &'b str,
    sink: &'s mut S,
}

impl<'b, S: Sink<'b>> Walk<'_, 'b, S> {
    fn value(&mut self, at: usize, wanted: &Wanted) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(at)? {
            b'{' if wanted.has_children() => self.members(at + 1, wanted)?,
            b'[' if wanted.has_children() => self.items(at + 1, wanted)?,
            _ => skip(bytes, at)?,
        };
        if !wanted.take.is_empty() {
            self.sink.found(&wanted.take, self.text.get(at..end)?);
        }
        Some(end)
    }

    fn members(&mut self, at: usize, wanted: &Wanted) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = white(bytes, at);
        if bytes.get(at) == Some(&b'}') {
            return Some(at + 1);
        }
        loop {
            if bytes.get(at) != Some(&b'"') {
                return None;
            }
            let end = string(bytes, at + 1)?;
            let name = self.text.get(at..end)?;
            let colon = white(bytes, end);
            if bytes.get(colon) != Some(&b':') {
                return None;
            }
            let value = white(bytes, colon + 1);
            let end = match wanted.member(name) {
                Some(inner) => {
                    // Of duplicate names the last wins, also where it holds less than the first.
                    self.sink.begin(&inner.below);
                    self.value(value, inner)?
                }
                None => skip(bytes, value)?,
            };
            at = white(bytes, end);
            match bytes.get(at)? {
                b',' => at = white(bytes, at + 1),
                b'}' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    fn items(&mut self, at: usize, wanted: &Wanted) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = white(bytes, at);
        if bytes.get(at) == Some(&b']') {
            return Some(at + 1);
        }
        for index in 0.. {
            let end = match wanted.indexes.iter().find(|(wanted, _)| *wanted == index) {
                Some((_, inner)) => self.value(at, inner)?,
                None => skip(bytes, at)?,
            };
            at = white(bytes, end);
            match bytes.get(at)? {
                b',' => at = white(bytes, at + 1),
                b']' => return Some(at + 1),
                _ => return None,
            }
        }
        None
    }
}
