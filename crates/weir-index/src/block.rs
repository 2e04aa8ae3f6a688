//! The terms of one block of neighbouring transactions.
//!
//! A block has [`ROWS`] transactions; a term is kept once however often it stands in them. What
//! stands in many of them word for word, a header line or a whole body, is taken apart only once.
//! Terms are words, and two kinds that no word can be: a business key with its value, the name of
//! a header.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use foldhash::quality::RandomState;
use weir_journal::Transaction;

use crate::content::{self, Kind};
use crate::words::words;

/// Transactions in a block.
pub(crate) const ROWS: usize = 64;
/// Most terms of a block and most bytes of them; a block with more counts as having every term.
const MOST_TERMS: usize = 1 << 18;
const MOST_BYTES: usize = 8 << 20;
/// Between terms.
pub(crate) const SEPARATOR: u8 = 0;
/// Longest term that is not a word; longer ones count by their beginning.
const LONGEST: usize = 256;

/// What is indexed of a transaction besides its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Business keys.
    Keys,
    /// And every word of target, headers, bodies, keys, properties and logs.
    #[default]
    Payload,
}

/// Stands for a business key with a value, or with any.
pub(crate) fn key_term(name: &str, value: Option<&str>) -> Vec<u8> {
    let (sign, value) = value.map_or(("", ""), |value| ("\u{2}", value));
    clean(&["\u{1}", name, sign, value])
}

/// Stands for a header of this name.
pub(crate) fn header_term(name: &str) -> Vec<u8> {
    clean(&["\u{3}", &name.to_ascii_lowercase()])
}

fn clean(parts: &[&str]) -> Vec<u8> {
    let mut term = parts.concat();
    if term.contains('\0') {
        term = term.replace('\0', "\u{FFFD}");
    }
    term.truncate(term.floor_char_boundary(LONGEST));
    term.into_bytes()
}

/// Hashes are made already.
#[derive(Clone, Copy, Debug, Default)]
struct Made(u64);

impl Hasher for Made {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Hashes = HashSet<u64, BuildHasherDefault<Made>>;

/// Terms as they are gathered.
#[derive(Debug, Default)]
pub(crate) struct Block {
    seen: Hashes,
    parts: Hashes,
    /// The terms, each ended by [`SEPARATOR`].
    terms: Vec<u8>,
    hashes: Vec<u32>,
    overflowed: bool,
    random: RandomState,
}

/// The terms of a block, and their hashes to look in before they are written.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) terms: &'a str,
    pub(crate) hashes: Box<[u32]>,
    pub(crate) overflowed: bool,
}

impl Block {
    /// The seeds of the hashes, to ask with.
    pub(crate) fn random(&self) -> RandomState {
        self.random.clone()
    }

    pub(crate) fn add(&mut self, transaction: &Transaction, depth: Depth) {
        for (name, value) in &transaction.keys {
            self.insert(&key_term(name, None));
            self.insert(&key_term(name, Some(value)));
        }
        if depth == Depth::Keys {
            return;
        }
        self.part(&transaction.target, Self::target);
        for head in [&transaction.request_head, &transaction.response_head] {
            for (name, value) in content::lines(head) {
                self.header(name, value);
            }
        }
        self.body(&transaction.request_head, &transaction.request_body);
        self.body(&transaction.response_head, &transaction.response_body);
        for (name, value) in transaction.keys.iter().chain(&transaction.properties) {
            self.words(name.as_bytes());
            self.words(value.as_bytes());
        }
        for line in &transaction.logs {
            self.words(line.as_bytes());
        }
    }

    /// The block, which must be cleared after it was taken.
    pub(crate) fn finish(&self) -> Finished<'_> {
        let terms = std::str::from_utf8(&self.terms).unwrap_or_default();
        Finished { terms, hashes: self.hashes.as_slice().into(), overflowed: self.overflowed }
    }

    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.parts.clear();
        self.terms.clear();
        self.hashes.clear();
        self.overflowed = false;
    }

    fn target(&mut self, target: &[u8]) {
        self.words(&content::percent_decode(target));
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        let hash = self.random.hash_one((name, value));
        if self.parts.insert(hash) {
            self.insert(&header_term(&String::from_utf8_lossy(name)));
            self.words(name);
            self.words(value);
        }
    }

    fn body(&mut self, head: &[u8], body: &[u8]) {
        if body.is_empty() {
            return;
        }
        let kind = Kind::of(head);
        if !self.parts.insert(self.random.hash_one((body, kind))) {
            return;
        }
        if let Some(text) = content::text(kind, body) {
            self.words(&text);
        }
    }

    fn part(&mut self, text: &str, read: fn(&mut Self, &[u8])) {
        if self.parts.insert(self.random.hash_one(text)) {
            read(self, text.as_bytes());
        }
    }

    fn words(&mut self, text: &[u8]) {
        words(text, |word, _| self.insert(word));
    }

    fn insert(&mut self, term: &[u8]) {
        let hash = self.random.hash_one(term);
        if self.overflowed || !self.seen.insert(hash) {
            return;
        }
        if self.hashes.len() == MOST_TERMS || self.terms.len() + term.len() >= MOST_BYTES {
            self.overflowed = true;
            return;
        }
        self.hashes.push(hash as u32);
        self.terms.extend_from_slice(term);
        self.terms.push(SEPARATOR);
    }
}
