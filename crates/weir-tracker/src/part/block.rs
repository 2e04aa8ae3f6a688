//! The terms of one block of consecutive transactions.
//!
//! A block has [`ROWS`] transactions. Each term is stored once, however often it occurs in them.
//! Identical header lines and bodies are tokenized only once. Terms are words, and two kinds that
//! differ from every word: a business key with its value, and the name of a header.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use foldhash::quality::RandomState;
use weir_journal::Transaction;

use crate::content::{self, BodyType};
use crate::part::pairs::PairBuild;
use crate::part::terms::{self, BlockTerms};
use crate::tokenizer::words;

/// Transactions in a block.
pub(crate) const ROWS: usize = 64;
/// Most terms of a block; one with more is treated as having every term.
const MAX_TERMS: usize = 1 << 18;
/// Bytes of a term that is not a word; the rest is cut off.
const MAX_TERM_BYTES: usize = 256;

/// What is indexed of a transaction besides its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Business keys.
    Keys,
    /// Also all words of target, headers, bodies, keys, properties and logs.
    #[default]
    Payload,
}

/// The term of a business key with a value, or with any value.
pub(crate) fn key_term(name: &str, value: Option<&str>) -> Vec<u8> {
    let mut term = Vec::new();
    write_key(&mut term, name, value);
    term
}

fn write_key(term: &mut Vec<u8>, name: &str, value: Option<&str>) {
    term.clear();
    term.push(1);
    term.extend_from_slice(name.as_bytes());
    if let Some(value) = value {
        term.push(2);
        term.extend_from_slice(value.as_bytes());
    }
    term.truncate(MAX_TERM_BYTES);
}

/// The term of a header of this name.
pub(crate) fn header_term(name: &[u8]) -> Vec<u8> {
    let mut term = vec![3];
    term.extend(name.iter().take(MAX_TERM_BYTES).map(u8::to_ascii_lowercase));
    term
}

/// For keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Hashes = HashSet<u64, BuildHasherDefault<Prehashed>>;

/// The terms of a block while they are collected.
#[derive(Debug)]
pub(crate) struct Block {
    seed: u64,
    seen: Hashes,
    texts: Hashes,
    hashes: Vec<u32>,
    overflowed: bool,
    pairs: PairBuild,
    /// Buffer of a term.
    term: Vec<u8>,
    random: RandomState,
}

impl Block {
    pub(crate) fn new() -> Self {
        let random = RandomState::default();
        Self {
            seed: random.hash_one(0),
            seen: Hashes::default(),
            texts: Hashes::default(),
            hashes: Vec::new(),
            overflowed: false,
            pairs: PairBuild::default(),
            term: Vec::new(),
            random,
        }
    }

    /// The seed of the terms' hashes.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn add(&mut self, transaction: &Transaction, depth: Depth) {
        let mut term = std::mem::take(&mut self.term);
        for (name, value) in &transaction.keys {
            write_key(&mut term, name, None);
            self.insert(&term);
            write_key(&mut term, name, Some(value));
            self.insert(&term);
        }
        self.term = term;
        if depth == Depth::Keys {
            return;
        }
        self.once(&transaction.target, Self::target);
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

    /// The terms of the block; a new block starts.
    pub(crate) fn finish(&mut self) -> BlockTerms {
        let pairs = self.pairs.finish(&self.hashes);
        let finished = BlockTerms::new(&self.hashes, self.overflowed, pairs);
        self.seen.clear();
        self.texts.clear();
        self.hashes.clear();
        self.overflowed = false;
        finished
    }

    fn target(&mut self, target: &[u8]) {
        self.words(&content::percent_decode(target));
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        let hash = self.random.hash_one((name, value));
        if self.texts.insert(hash) {
            self.insert(&header_term(name));
            self.words(name);
            self.words(value);
        }
    }

    fn body(&mut self, head: &[u8], body: &[u8]) {
        if body.is_empty() {
            return;
        }
        let kind = BodyType::from_head(head);
        if !self.texts.insert(self.random.hash_one((body, kind))) {
            return;
        }
        if let Some(text) = content::text(kind, body) {
            self.words(&text);
        }
    }

    fn once(&mut self, text: &str, read: fn(&mut Self, &[u8])) {
        if self.texts.insert(self.random.hash_one(text)) {
            read(self, text.as_bytes());
        }
    }

    fn words(&mut self, text: &[u8]) {
        let mut before = None;
        words(text, |word, _| {
            let hash = terms::hash(self.seed, word);
            self.insert_hash(hash);
            self.pairs.add(&mut before, terms::short(hash));
        });
    }

    fn insert(&mut self, term: &[u8]) {
        self.insert_hash(terms::hash(self.seed, term));
    }

    fn insert_hash(&mut self, hash: u64) {
        if self.overflowed || !self.seen.insert(hash) {
            return;
        }
        self.overflowed = self.hashes.len() == MAX_TERMS;
        self.hashes.push(terms::short(hash));
    }
}
