//! One pass over a body that collects byte ranges and builds nothing else.
//!
//! A [`Sink`] receives the ranges: maps and business keys need one value per path ([`Slots`]),
//! masks every range, including those hidden by a duplicate name ([`Ranges`]).

use super::path::Step;
use super::scan::{skip, string, white};
use serde::de::{Error as _, IgnoredAny};
use std::ops::Range;

/// The requested parts of a value: the value itself, members or items.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Slots for the entire value.
    take: Vec<usize>,
    /// Slots for this value and all nested ones: a later duplicate name empties them.
    below: Vec<usize>,
    names: Vec<(String, Selection)>,
    indexes: Vec<(usize, Selection)>,
}

impl Selection {
    /// Requests the value at `path` for `slot`.
    pub(crate) fn add(&mut self, path: &[Step], slot: usize) {
        self.below.push(slot);
        match path {
            [] => self.take.push(slot),
            [Step::Name(name), rest @ ..] => Self::within(&mut self.names, name).add(rest, slot),
            [Step::Index(index), rest @ ..] => {
                Self::within(&mut self.indexes, index).add(rest, slot);
            }
        }
    }

    /// The requests below a member or an item.
    fn within<'w, K: Clone + PartialEq>(list: &'w mut Vec<(K, Self)>, key: &K) -> &'w mut Self {
        let at = list.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            list.push((key.clone(), Self::default()));
            list.len() - 1
        });
        &mut list[at].1
    }

    /// The requests below the member with this name; the name is as in the text.
    fn member(&self, quoted: &str) -> Option<&Self> {
        let plain = quoted.get(1..quoted.len() - 1)?;
        let decoded;
        let name = if plain.contains('\\') {
            decoded = serde_json::from_str::<String>(quoted).ok()?;
            &decoded
        } else {
            plain
        };
        self.names.iter().find(|(own, _)| own == name).map(|(_, inner)| inner)
    }

    fn has_children(&self) -> bool {
        !self.names.is_empty() || !self.indexes.is_empty()
    }
}

/// Values found, as they occur in the body.
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

/// Receiver of the values that a pass finds.
pub(crate) trait Sink<'b> {
    /// A value was found for these slots.
    fn found(&mut self, slots: &[usize], value: &'b str);

    /// A member begins, below which are these slots; values of an earlier member with the same name
    /// are dropped.
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

/// Every range found, ordered by end; a range may be nested in the next one.
pub(crate) struct Ranges<'b> {
    text: &'b str,
    found: Vec<Range<usize>>,
}

impl<'b> Ranges<'b> {
    pub(crate) fn new(text: &'b str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// The ranges ordered by start, without nested ones.
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

/// Reads `text`, which must be exactly one JSON value, into `sink`. If it is not, `sink` has the
/// values before the fault.
pub(crate) fn read<'b>(
    text: &'b str,
    selection: &Selection,
    sink: &mut impl Sink<'b>,
) -> Result<(), serde_json::Error> {
    let bytes = text.as_bytes();
    let end = Walk { text, sink }.value(white(bytes, 0), selection);
    if end.is_some_and(|end| white(bytes, end) == bytes.len()) {
        return Ok(());
    }
    // serde_json finds the same fault and has a message for it.
    let found = serde_json::from_str::<IgnoredAny>(text);
    Err(found.err().unwrap_or_else(|| serde_json::Error::custom("not JSON")))
}

/// Reads a text. Each function takes a position and returns the one after the parsed part; none if
/// that is not JSON.
struct Walk<'s, 'b, S> {
    text: &'b str,
    sink: &'s mut S,
}

impl<'b, S: Sink<'b>> Walk<'_, 'b, S> {
    fn value(&mut self, at: usize, selection: &Selection) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(at)? {
            b'{' if selection.has_children() => self.members(at + 1, selection)?,
            b'[' if selection.has_children() => self.items(at + 1, selection)?,
            _ => skip(bytes, at)?,
        };
        if !selection.take.is_empty() {
            self.sink.found(&selection.take, self.text.get(at..end)?);
        }
        Some(end)
    }

    fn members(&mut self, at: usize, selection: &Selection) -> Option<usize> {
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
            let end = match selection.member(name) {
                Some(inner) => {
                    // The last of duplicate names wins, even if it contains less than the first.
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

    fn items(&mut self, at: usize, selection: &Selection) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = white(bytes, at);
        if bytes.get(at) == Some(&b']') {
            return Some(at + 1);
        }
        for index in 0.. {
            let end = match selection.indexes.iter().find(|(own, _)| *own == index) {
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
