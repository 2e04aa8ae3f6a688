//! JSON for validation: the values of a text in one list, in order of appearance, referring to the
//! body for texts. The text is parsed in one pass, without an allocation per value as in a tree;
//! `jsonschema` validates documents like any other representation of JSON.
//!
//! Rejected are bodies that nest deeper than [`DEPTH`], and objects with duplicate members, as the
//! next reader might use the other one. Bodies that are longer than `MAX_BODY_BYTES` or have more
//! than [`VALUES`] values are over budget.

mod compare;
mod equal;
mod read;

pub(crate) use compare::{Documents, Element};

use foldhash::fast::RandomState;
use serde_json::Number;
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// Maximum nesting of a body.
pub(crate) const DEPTH: usize = 64;
/// Maximum number of values in a body, including lists and objects: each takes 32 bytes, and up to
/// 16 more as a member.
pub(crate) const VALUES: usize = 1 << 19;
/// Members of objects with more members than this are found by hash.
const FEW: usize = 8;

/// The values of a text.
#[derive(Debug, Default)]
pub(super) struct Document<'t> {
    text: &'t str,
    /// Texts that do not occur verbatim in `text`: escaped in it, or from a value.
    own: String,
    entries: Vec<Entry>,
    /// Hash tables of the objects with more than [`FEW`] members: indexes of members, each in the
    /// first free slot from its hash on. Zero marks a free slot, as no member has index 0.
    slots: Vec<u32>,
    /// Approximate length of the longest path to a value, in bytes (RFC 6901).
    pub(super) longest_path: usize,
    /// Bytes of the schema that an error copies.
    error_bytes: usize,
    /// Whether errors are collected.
    is_reported: bool,
    /// The library needs the entire value when it aborts a pattern.
    reports_whole: bool,
}

/// Why a text cannot be a [`Document`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The text is malformed: fault and location.
    Malformed(String),
    /// The text is over budget: reason.
    OverBudget(&'static str),
}

/// A value, as small as possible: writing the list is a large part of the cost of parsing.
#[derive(Debug)]
struct Entry {
    /// Name as a member of an object; empty otherwise.
    name: Span,
    /// Hash of the name.
    mark: u32,
    /// Index of the next value after this one and its content.
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
    /// With this number of items.
    Array(u32),
    /// With this number of members; start of their slots, if they are more than [`FEW`].
    Object {
        members: u32,
        slots: u32,
    },
}

/// Location of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Offset in `text`; larger offsets continue in `own`.
    at: u32,
    length: u32,
}

/// Number of slots of an object with this number of members, a power of two: at least half stay
/// free.
fn slots_of(members: usize) -> usize {
    (2 * members).next_power_of_two()
}

/// Hash of a name, with a secret seed. Correctness does not depend on it: names are compared if
/// hashes are equal.
#[expect(clippy::cast_possible_truncation, reason = "any of its bits do")]
fn mark(name: &str) -> u32 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(name) as u32
}

impl<'t> Document<'t> {
    /// From a text as its only value.
    pub(super) fn of_text(text: &'t str) -> Self {
        let mut document = Self { text, ..Self::default() };
        let span = document.span(text);
        document.push(Span::default(), 0, Data::String(span));
        document
    }

    /// Prepares the collection of errors: each copies this number of bytes of the schema; some
    /// contain the entire value.
    pub(super) fn report(&mut self, error_bytes: usize, reports_whole: bool) {
        self.is_reported = true;
        self.error_bytes = error_bytes;
        self.reports_whole = reports_whole;
    }

    /// Number of values.
    pub(super) fn values(&self) -> usize {
        self.entries.len()
    }

    /// Length of all texts and names in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.own.len()
    }

    /// Approximate size of a copy as a tree, in bytes.
    pub(super) fn copy_bytes(&self) -> usize {
        self.values() * 128 + self.bytes()
    }

    /// Location of a text; a text outside of `text` is copied to `own`.
    fn span(&mut self, text: &str) -> Span {
        let length = number(text.len());
        if length == 0 {
            return Span::default();
        }
        // A text within the memory range of `text` is a part of it.
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

    /// Whether a value is the member with this name.
    fn is(&self, at: u32, mark: u32, name: &str) -> bool {
        let entry = &self.entries[at as usize];
        entry.mark == mark && self.text(entry.name) == name
    }

    /// The slot of the member with this name; a free slot if there is no such member.
    fn slot(&self, slots: &[u32], mark: u32, name: &str) -> usize {
        let last = slots.len() - 1;
        let mut slot = mark as usize & last;
        while slots[slot] != 0 && !self.is(slots[slot], mark, name) {
            slot = (slot + 1) & last;
        }
        slot
    }

    /// The root value.
    pub(super) fn root(&self) -> Element<'_> {
        Element::of(self)
    }

    fn push(&mut self, name: Span, mark: u32, data: Data) {
        let end = number(self.entries.len() + 1);
        self.entries.push(Entry { name, mark, end, data });
    }

    /// Starts a list or an object; returns its index.
    fn open(&mut self, name: Span, mark: u32) -> usize {
        self.push(name, mark, Data::Null);
        self.entries.len() - 1
    }

    /// Ends an object; returns whether its members are unique.
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

/// A count as stored in an entry. It fits: see `MAX_BODY_BYTES`.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("what is no longer than MAX_BODY_BYTES")
}

/// Indexes of the items of a list or the members of an object.
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
