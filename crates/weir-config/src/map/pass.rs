//! One pass over a body that takes byte ranges and builds nothing else.

use super::path::Step;
use super::scan::{skip, string, white};
use serde::de::{Error as _, IgnoredAny};

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

/// Reads `text`, which must be one JSON value and nothing else, into `slots`. Where it is not,
/// they hold what was found before the fault.
pub(crate) fn read<'b>(
    text: &'b str,
    wanted: &Wanted,
    slots: &mut Slots<'b>,
) -> Result<(), serde_json::Error> {
    let bytes = text.as_bytes();
    let end = Walk { text, slots }.value(white(bytes, 0), wanted);
    if end.is_some_and(|end| white(bytes, end) == bytes.len()) {
        return Ok(());
    }
    // It finds the same once more, and has words for it.
    let found = serde_json::from_str::<IgnoredAny>(text);
    Err(found.err().unwrap_or_else(|| serde_json::Error::custom("no JSON")))
}

/// Reads a text. Each function takes a place and gives the one behind what it has read; none if
/// that is not JSON.
struct Walk<'s, 'b> {
    text: &'b str,
    slots: &'s mut Slots<'b>,
}

impl Walk<'_, '_> {
    fn value(&mut self, at: usize, wanted: &Wanted) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(at)? {
            b'{' if wanted.has_children() => self.members(at + 1, wanted)?,
            b'[' if wanted.has_children() => self.items(at + 1, wanted)?,
            _ => skip(bytes, at)?,
        };
        self.slots.fill(&wanted.take, self.text.get(at..end));
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
                    self.slots.fill(&inner.below, None);
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
