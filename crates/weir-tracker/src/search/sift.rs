//! Tells transactions that cannot have the words of a query from all others, without decoding them.
//!
//! Decoding takes ten times as long as searching the recorded bytes for the letters of a word, and most
//! candidates of a word that is in some transaction of their block do not have it themselves.

use std::collections::HashSet;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism};
use std::time::Instant;

use foldhash::fast::RandomState;
use memchr::memmem::Finder;
use weir_journal::{Address, Side, Text, Undecoded};

use super::evaluate::View;
use crate::content::{HEAD_LIMIT, TEXT_LIMIT};
use crate::error::Error;
use crate::index::state::Shared;
use crate::part::bitmap::Bitmap;
use crate::part::block::Depth;
use crate::query::{Node, Query, Scope, Term};
use crate::tokenizer::{MAX_WORD_BYTES, is_separator};

/// Candidates that a thread looks through together, at least and at most, and about how many bytes their texts
/// may have.
const MIN_BATCH: usize = 16;
const MAX_BATCH: usize = 4096;
const BATCH_BYTES: usize = 4 << 20;
/// Batches that are not looked through after one in which nearly all transactions had the words.
const SKIPPED: usize = 8;

/// Words of a phrase that are looked for: each is a bit of [`Look::words`].
const MAX_WORDS: usize = u64::BITS as usize;

/// Candidates that a thread looks through before it looks at the clock.
const PIECE: usize = 512;
/// Candidates for which a search gets another thread: nearly all of the time goes into reading and
/// decompressing them.
const MIN_SHARE: usize = 512;
/// Most threads that help one search.
const MAX_HELPERS: usize = 3;
/// Threads that help searches: half of the cores, and at least one.
static HELPERS: LazyLock<AtomicUsize> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, NonZero::get);
    AtomicUsize::new((cores / 2).max(1))
});

/// Threads that help a search, returned when it is dropped.
struct Helpers(usize);

impl Helpers {
    /// Takes up to `most` of those that are free.
    fn take(most: usize) -> Self {
        let mut taken = 0;
        let take = |free: usize| {
            taken = free.min(most).min(MAX_HELPERS);
            Some(free - taken)
        };
        let _ = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Self(taken)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        HELPERS.fetch_add(self.0, Ordering::Relaxed);
    }
}

static CONTENT_ENCODING: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"content-encoding"));

/// Addresses of transactions.
pub(crate) type Addresses = HashSet<Address, RandomState>;

/// The words that every hit of a query has.
#[derive(Debug)]
pub(crate) struct Sift {
    phrases: Vec<Phrase>,
    /// Whether a key may have some of them, which need not be among the recorded texts.
    searches_keys: bool,
    /// Number of candidates of the next batch.
    batch: usize,
    /// Batches that are not worth looking through: nearly all transactions have the words.
    skipped: usize,
}

#[derive(Debug)]
struct Phrase {
    words: Vec<Finder<'static>>,
    /// Number of the longest word.
    longest: usize,
    /// Words were cut off.
    is_cut: bool,
}

/// Looks through transactions.
struct Look<'a> {
    phrases: &'a [Phrase],
    /// For each phrase the words that the texts of a transaction have so far, as a set of bits, and whether
    /// that is all.
    words: Vec<(u64, bool)>,
    bodies: [u8; 2],
    /// The texts do not show it: the words may be encoded.
    is_unclear: bool,
    /// The text that is searched, in lower case.
    text: Vec<u8>,
    /// Bytes of all texts so far.
    bytes: usize,
}

impl Sift {
    /// None if hits may have none of the words.
    pub(crate) fn new(query: &Query) -> Option<Self> {
        let mut sift =
            Self { phrases: Vec::new(), searches_keys: false, batch: MIN_BATCH, skipped: 0 };
        sift.add(&query.root);
        (!sift.phrases.is_empty()).then_some(sift)
    }

    fn add(&mut self, node: &Node) {
        match node {
            Node::And(nodes) => nodes.iter().for_each(|node| self.add(node)),
            // Characters outside ASCII have several spellings.
            Node::Term(Term::Words(scope, words)) if words.iter().all(|word| word.is_ascii()) => {
                self.searches_keys |= *scope == Scope::Anywhere;
                self.phrases.extend(Phrase::new(words));
            }
            Node::Or(_) | Node::Not(_) | Node::Term(_) => {}
        }
    }

    /// Those of the candidate rows that have a business key that may have some of the words, which the recorded
    /// texts then need not have: a key may be computed from them. All of them if words are not indexed.
    pub(crate) fn rows_by_key(
        &self,
        view: &View<'_>,
        candidates: &Bitmap,
    ) -> Result<Bitmap, Error> {
        if view.depth() != Depth::Payload {
            return Ok(candidates.clone());
        }
        let mut rows = Bitmap::none(view.rows());
        if self.searches_keys {
            for (row, name, value) in view.keys()?.iter() {
                let is_candidate = row < view.rows() && candidates.contains(row);
                if is_candidate && (self.may_have(name) || self.may_have(value)) {
                    rows.add(row);
                }
            }
        }
        Ok(rows)
    }

    /// How many candidates to look through next.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Those of the transactions at these addresses that cannot have all of the words, as far as there is time
    /// to find out.
    pub(crate) fn lacking(
        &mut self,
        shared: &Shared,
        addresses: impl Iterator<Item = Address>,
        deadline: Instant,
    ) -> Result<Addresses, Error> {
        let mut addresses: Vec<_> = addresses.collect();
        if addresses.is_empty() {
            return Ok(Addresses::default());
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return Ok(Addresses::default());
        }
        addresses.sort_unstable();
        // What is fetched is fetched once.
        let most = if shared.remote.is_some() { 0 } else { addresses.len() / MIN_SHARE };
        let helpers = Helpers::take(most);
        let threads = 1 + helpers.0;
        let (bytes, lacking) = self.look_through(shared, &addresses, threads, deadline)?;
        drop(helpers);
        let fitting = addresses.len() * BATCH_BYTES / (bytes / threads).max(1);
        self.batch = (self.batch * 4).min(fitting).clamp(MIN_BATCH, threads * MAX_BATCH);
        if lacking.len() < addresses.len() / 4 {
            (self.skipped, self.batch) = (SKIPPED, MIN_BATCH);
        }
        Ok(lacking)
    }

    /// Looks through transactions in so many threads. Returns the bytes of their texts, and those that lack
    /// words.
    fn look_through(
        &self,
        shared: &Shared,
        addresses: &[Address],
        threads: usize,
        deadline: Instant,
    ) -> Result<(usize, Addresses), Error> {
        let each = addresses.len().div_ceil(threads);
        let look = |some: &[Address]| {
            let mut look = Look::new(&self.phrases);
            let mut lacking = Vec::new();
            for some in some.chunks(PIECE).take_while(|_| Instant::now() < deadline) {
                shared.visit(some, |address, undecoded| {
                    if !look.may_match(undecoded) {
                        lacking.push(address);
                    }
                })?;
            }
            Ok((look.bytes, lacking))
        };
        let (own, others) = addresses.split_at(each);
        let found: Vec<Result<(usize, Vec<Address>), Error>> = std::thread::scope(|scope| {
            let look = &look;
            let start = |some| {
                let thread = Builder::new().name("search".to_owned());
                (some, thread.spawn_scoped(scope, move || look(some)))
            };
            let others: Vec<_> = others.chunks(each).map(start).collect();
            let own = look(own);
            let others = others.into_iter().map(|(some, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // The system has no more threads.
                Err(_) => look(some),
            });
            std::iter::once(own).chain(others).collect()
        });
        let (mut bytes, mut lacking) = (0, Addresses::default());
        for found in found {
            let (more, some) = found?;
            bytes += more;
            lacking.extend(some);
        }
        Ok((bytes, lacking))
    }

    /// Whether a key or its value may have some of the words.
    fn may_have(&self, key: &str) -> bool {
        let key = key.to_ascii_lowercase();
        let mut words = self.phrases.iter().flat_map(|phrase| &phrase.words);
        !key.is_ascii() || words.any(|word| word.find(key.as_bytes()).is_some())
    }
}

impl<'a> Look<'a> {
    fn new(phrases: &'a [Phrase]) -> Self {
        Self {
            phrases,
            words: Vec::new(),
            bodies: [0; 2],
            is_unclear: false,
            text: Vec::new(),
            bytes: 0,
        }
    }

    /// Whether a transaction may have all of the words.
    fn may_match(&mut self, transaction: &Undecoded<'_>) -> bool {
        self.words.clear();
        self.words.resize(self.phrases.len(), (0, false));
        (self.bodies, self.is_unclear) = ([0; 2], false);
        let is_complete = transaction.texts(|text| self.see(text));
        self.is_unclear || !is_complete || self.words.iter().all(|(_, is_found)| *is_found)
    }

    fn see(&mut self, text: Text<'_>) {
        // No more than is searched: the end of it may be a word that goes on.
        let bytes = match text {
            Text::Body(_, body) => &body[..body.len().min(TEXT_LIMIT)],
            Text::Head(head) => &head[..head.len().min(HEAD_LIMIT)],
            Text::Target(text) | Text::Other(text) => text,
        };
        self.bytes += bytes.len();
        if let Text::Body(side, _) = text {
            let parts = &mut self.bodies[usize::from(side == Side::Response)];
            *parts += 1;
            // A word may lie across both parts.
            self.is_unclear |= *parts > 1;
        }
        if self.is_unclear || !bytes.is_ascii() {
            self.is_unclear = true;
            return;
        }
        self.text.clear();
        self.text.extend(bytes.iter().map(u8::to_ascii_lowercase));
        self.is_unclear = is_encoded(text, bytes, &self.text);
        // Escapes are no separators, and pairs have none.
        let has_rows = match text {
            Text::Head(_) => true,
            Text::Body(..) => memchr::memchr(b'\\', &self.text).is_none(),
            Text::Target(_) | Text::Other(_) => false,
        };
        for (phrase, (words, is_found)) in self.phrases.iter().zip(&mut self.words) {
            *is_found = *is_found || phrase.is_in(&self.text, has_rows, words);
        }
    }
}

/// Whether a text may have letters that are encoded in it; `lower` is the same in lower case.
fn is_encoded(text: Text<'_>, bytes: &[u8], lower: &[u8]) -> bool {
    let percent = || {
        memchr::memchr_iter(b'%', bytes).any(|at| {
            let digits = bytes.get(at + 1..at + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        })
    };
    // Of an unknown escape the letter remains.
    let backslash = || {
        memchr::memchr_iter(b'\\', bytes).any(|at| {
            let escaped = bytes.get(at + 1);
            escaped.is_some_and(|byte| !is_separator(*byte) && !b"nrtbf".contains(byte))
        })
    };
    match text {
        Text::Target(_) => percent(),
        Text::Body(..) => backslash() || percent(),
        Text::Head(_) => CONTENT_ENCODING.find(lower).is_some(),
        Text::Other(_) => false,
    }
}

impl Phrase {
    /// None without words.
    fn new(words: &[String]) -> Option<Self> {
        let is_cut =
            words.len() > MAX_WORDS || words.iter().any(|word| word.len() >= MAX_WORD_BYTES);
        let words = &words[..words.len().min(MAX_WORDS)];
        let longest = (0..words.len()).max_by_key(|at| words[*at].len())?;
        let words = words.iter().map(|word| Finder::new(word.as_bytes()).into_owned()).collect();
        Some(Self { words, longest, is_cut })
    }

    /// Whether a text has the words, in a row if rows can be told; otherwise adds those that were found to
    /// `found`, and it is enough if other texts have the rest.
    fn is_in(&self, text: &[u8], has_rows: bool, found: &mut u64) -> bool {
        if has_rows && !self.is_cut {
            return self.is_row_in(text);
        }
        for (number, word) in self.words.iter().enumerate() {
            if word.find(text).is_some() {
                *found |= 1 << number;
            }
        }
        found.count_ones() as usize == self.words.len()
    }

    /// Whether a text has the words in a row, as [`crate::tokenizer::find`] does.
    fn is_row_in(&self, text: &[u8]) -> bool {
        let (before, rest) = self.words.split_at(self.longest);
        let (longest, after) = (&rest[0], &rest[1..]);
        longest.find_iter(text).any(|start| {
            let end = start + longest.needle().len();
            let left = before.iter().rev().try_fold(&text[..start], |left, word| {
                let end = left.iter().rposition(|byte| !is_separator(*byte))? + 1;
                left[..end].strip_suffix(word.needle()).filter(|_| end < left.len())
            });
            let right = after.iter().try_fold(&text[end..], |right, word| {
                let start = right.iter().position(|byte| !is_separator(*byte))?;
                right[start..].strip_prefix(word.needle()).filter(|_| start > 0)
            });
            left.is_some_and(|left| left.last().is_none_or(|byte| is_separator(*byte)))
                && right.is_some_and(|right| right.first().is_none_or(|byte| is_separator(*byte)))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Phrase;
    use crate::tokenizer;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        #[test]
        fn words_are_in_a_row_where_the_tokenizer_finds_them(
            text in "[abA_. \n]{0,40}",
            words in "[ab_. ]{1,9}",
        ) {
            let words = tokenizer::phrase(&words);
            prop_assume!(!words.is_empty());
            let phrase = Phrase::new(&words).unwrap();
            let lower = text.to_ascii_lowercase();
            let is_there = !tokenizer::find(text.as_bytes(), &words, 1).is_empty();
            prop_assert_eq!(phrase.is_in(lower.as_bytes(), true, &mut 0), is_there);
            prop_assert!(!is_there || phrase.is_in(lower.as_bytes(), false, &mut 0));
        }
    }
}
