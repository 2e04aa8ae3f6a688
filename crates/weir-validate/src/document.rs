//! JSON as it is validated: the values of a text in one list, in the order in which they stand, with
//! their texts where the body has them. It is read in one pass and takes no memory for each value,
//! which a tree does; `jsonschema` compares schemas with it as with any representation of JSON.
//!
//! Refused is what nests deeper than [`DEPTH`], and an object in which a member stands twice, since
//! whoever reads it next might take the other one. What is longer than `MAX_BODY_BYTES` or has more than
//! [`VALUES`] values is over budget.

mod compare;
mod equal;
mod read;

pub(crate) use compare::{Documents, Element};

use foldhash::fast::RandomState;
use serde_json::{Number, Value};
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// Deepest nesting of a body.
pub(crate) const DEPTH: usize = 64;
/// Most values in a body, including lists and objects: each takes 32 bytes, and up to 16 more as a
/// member.
pub(crate) const VALUES: usize = 1 << 19;
/// Members of objects with more than these are found by their marks.
const FEW: usize = 8;

/// The values of a text.
#[derive(Debug, Default)]
pub(super) struct Document<'t> {
    text: &'t str,
    /// Texts that do not stand in `text` as they are: escaped there, or of a value.
    own: String,
    entries: Vec<Entry>,
    /// Where the members of the objects stand that have more than [`FEW`], each in the first free
    /// slot from that of its mark on; zero is a free one, since no member stands there.
    slots: Vec<u32>,
    /// Bytes of the longest path to a value, about (RFC 6901).
    longest_path: usize,
    /// Bytes of the schema that an error copies.
    error_bytes: usize,
    /// Errors are collected.
    is_reported: bool,
    /// The library needs the whole value where it gives up a pattern.
    tells_whole: bool,
}

/// Why a text is no [`Document`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is malformed: how and where.
    Malformed(String),
    /// It is over budget: how.
    OverBudget(&'static str),
}

/// One value. As small as it can be: that a list of them is written is much of what reading costs.
#[derive(Debug)]
struct Entry {
    /// As a member of an object; empty otherwise.
    name: Span,
    /// Of the name.
    mark: u32,
    /// Where the next value behind it and all that is in it stands.
    end: u32,
    data: Data,
}

const _: () = assert!(size_of::<Entry>() == 32);

#[derive(Debug)]
enum Data {
    Null,
    Bool(bool),
    Number(Number),
    String(Span),
    /// With so many items.
    Array(u32),
    /// With so many members; their slots, if they are more than [`FEW`], begin there.
    Object {
        members: u32,
        slots: u32,
    },
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// In `text`, or, counted from there on, in `own` behind it.
    at: u32,
    length: u32,
}

/// Slots of an object with so many members, a power of two: at least half of them stay free.
fn slots_of(members: usize) -> usize {
    (2 * members).next_power_of_two()
}

/// Tells most names apart, in a way that nobody outside can foresee. Nothing rests on it but speed:
/// names decide where marks are the same.
#[expect(clippy::cast_possible_truncation, reason = "any of its bits do")]
fn mark(name: &str) -> u32 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(name) as u32
}

impl<'t> Document<'t> {
    /// Of a value. Of members that stand twice there are none in it.
    pub(super) fn of(value: &Value) -> Self {
        let mut document = Self::default();
        document.add("", value);
        document
    }

    /// Of a text as it is.
    pub(super) fn of_text(text: &'t str) -> Self {
        let mut document = Self { text, ..Self::default() };
        let span = document.span(text);
        document.push(Span::default(), 0, Data::String(span));
        document
    }

    /// Prepares the report of errors: each copies so many bytes of the schema; some hold the whole
    /// value.
    pub(super) fn report(&mut self, error_bytes: usize, tells_whole: bool) {
        self.is_reported = true;
        self.error_bytes = error_bytes;
        self.tells_whole = tells_whole;
    }

    /// How many values there are.
    pub(super) fn values(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all texts and names.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.own.len()
    }

    /// Bytes of a copy as a tree, about.
    pub(super) fn copy_bytes(&self) -> usize {
        self.values() * 128 + self.bytes()
    }

    /// Bytes of the longest path to a value, about.
    pub(super) fn longest_path(&self) -> usize {
        self.longest_path
    }

    fn add(&mut self, name: &str, value: &Value) {
        let (mark, name) = (mark(name), self.span(name));
        match value {
            Value::Null => self.push(name, mark, Data::Null),
            Value::Bool(value) => self.push(name, mark, Data::Bool(*value)),
            Value::Number(number) => self.push(name, mark, Data::Number(number.clone())),
            Value::String(text) => {
                let text = self.span(text);
                self.push(name, mark, Data::String(text));
            }
            Value::Array(items) => {
                let at = self.open(name, mark);
                items.iter().for_each(|item| self.add("", item));
                self.close_array(at, items.len());
            }
            Value::Object(members) => {
                let at = self.open(name, mark);
                members.iter().for_each(|(name, value)| self.add(name, value));
                self.close_object(at, members.len());
            }
        }
    }

    /// Where a text stands; one that is no part of `text` is taken over.
    fn span(&mut self, text: &str) -> Span {
        let length = number(text.len());
        if length == 0 {
            return Span::default();
        }
        // What is there at the same time and in the same memory is a part of it.
        let at = text.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        if at < self.text.len() {
            return Span { at: number(at), length };
        }
        let at = number(self.text.len() + self.own.len());
        self.own.push_str(text);
        Span { at, length }
    }

    fn text(&self, span: Span) -> &str {
        let (at, length) = (span.at as usize, span.length as usize);
        match at.checked_sub(self.text.len()) {
            Some(at) if length > 0 => &self.own[at..at + length],
            _ => &self.text[at..at + length],
        }
    }

    /// Whether a value is the member of this name.
    fn is(&self, at: u32, mark: u32, name: &str) -> bool {
        let entry = &self.entries[at as usize];
        entry.mark == mark && self.text(entry.name) == name
    }

    /// The slot of the member of this name among these; a free one if there is none.
    fn slot(&self, slots: &[u32], mark: u32, name: &str) -> usize {
        let last = slots.len() - 1;
        let mut slot = mark as usize & last;
        while slots[slot] != 0 && !self.is(slots[slot], mark, name) {
            slot = (slot + 1) & last;
        }
        slot
    }

    /// The value that all others are in.
    pub(super) fn root(&self) -> Element<'_> {
        Element::of(self)
    }

    fn push(&mut self, name: Span, mark: u32, data: Data) {
        let end = number(self.entries.len() + 1);
        self.entries.push(Entry { name, mark, end, data });
    }

    /// Begins a list or an object; says where.
    fn open(&mut self, name: Span, mark: u32) -> usize {
        self.push(name, mark, Data::Null);
        self.entries.len() - 1
    }

    fn close_array(&mut self, at: usize, items: usize) {
        self.close(at, Data::Array(number(items)));
    }

    /// Whether each member of the object stands but once in it.
    fn close_object(&mut self, at: usize, members: usize) -> bool {
        let mut slots = std::mem::take(&mut self.slots);
        let first = slots.len();
        self.close(at, Data::Object { members: number(members), slots: number(first) });
        let mut inside = Inside::of(&self.entries, at, members);
        let name = |at: u32| {
            let entry = &self.entries[at as usize];
            (entry.mark, self.text(entry.name))
        };
        let once = if members > FEW {
            slots.resize(first + slots_of(members), 0);
            inside.all(|at| {
                let (mark, name) = name(at);
                let slot = self.slot(&slots[first..], mark, name);
                let is_new = slots[first + slot] == 0;
                slots[first + slot] = at;
                is_new
            })
        } else {
            let mut seen = [0; FEW];
            inside.enumerate().all(|(count, at)| {
                seen[count] = at;
                let (mark, name) = name(at);
                !seen[..count].iter().any(|other| self.is(*other, mark, name))
            })
        };
        self.slots = slots;
        once
    }

    fn close(&mut self, at: usize, data: Data) {
        let end = number(self.entries.len());
        let entry = &mut self.entries[at];
        entry.end = end;
        entry.data = data;
    }
}

/// As it stands in an entry. It fits: see `MAX_BODY_BYTES`.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("what is no longer than MAX_BODY_BYTES")
}

/// Places of the items of a list or the members of an object.
#[derive(Clone)]
struct Inside<'d> {
    entries: &'d [Entry],
    next: u32,
    left: usize,
}

impl<'d> Inside<'d> {
    fn of(entries: &'d [Entry], at: usize, count: usize) -> Self {
        Self { entries, next: number(at + 1), left: count }
    }
}

impl Iterator for Inside<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        self.next = self.entries[at as usize].end;
        Some(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

#[cfg(test)]
mod tests;
