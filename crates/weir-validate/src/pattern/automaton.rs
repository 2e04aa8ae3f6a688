//! Matches a pattern against a text and counts the steps: the lazy automaton of `regex-automata`,
//! followed byte by byte. A known transition is a table lookup; an unknown one takes steps for each
//! state of the pattern that the library visits. Each thread caches computed transitions, up to a
//! fixed size.

use super::super::budget::charge;
use foldhash::fast::RandomState;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures, pikevm::PikeVM};
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::Hir;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum size of a compiled pattern, in bytes: as in `regex`.
const PATTERN_BYTES: usize = 10 << 20;
/// Bytes that a thread caches, for one pattern and for all.
const KEPT: usize = 256 << 10;
const KEPT_OF_ALL: usize = 8 << 20;
/// Bytes of text between two charges.
const BLOCK: usize = 4096;
/// Bytes of text per step while transitions are known.
const BYTES_PER_STEP: i64 = 3;
/// Steps of an unknown transition, and of each state of the pattern on both sides of it.
const NEW: i64 = 40;
const VISIT: i64 = 3;
/// Bytes that the library counts for a new state in addition to its row of transitions and its
/// states of the pattern.
const STATE: usize = 45;
/// Maximum number of steps of the library's engines for each state of the pattern at each byte.
const LIBRARY: i64 = 2;

/// The engines whose steps are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// This automaton.
    Own,
    /// This automaton and another engine of the library, which may follow all states at each byte.
    Library,
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Automaton {
    /// Key of the pattern in the caches.
    id: u64,
    dfa: DFA,
    /// For texts with characters at which the automaton cannot detect word boundaries.
    simulation: PikeVM,
}

impl Automaton {
    /// # Errors
    /// The pattern is too large.
    pub(super) fn new(hir: &Hir) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let config = thompson::Config::new()
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(PATTERN_BYTES));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => TOO_LARGE.to_owned(),
            None => error.to_string(),
        })?;
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .unicode_word_boundary(true)
            .cache_capacity(KEPT)
            .skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone());
        let dfa = dfa.map_err(|error| error.to_string())?;
        let simulation = PikeVM::new_from_nfa(nfa).map_err(|error| error.to_string())?;
        Ok(Self { id: NEXT.fetch_add(1, Relaxed), dfa, simulation })
    }

    /// Whether a text matches. Takes steps; `None`: budget exhausted.
    pub(super) fn is_match(&self, text: &str, cost: Cost) -> Option<bool> {
        thread_local! {
            static KEPT: RefCell<Kept> = RefCell::default();
        }
        let run = |kept: &mut Kept| {
            let Kept { by_pattern, bytes } = kept;
            let known = by_pattern.entry(self.id).or_insert_with(|| Known::new(&self.dfa));
            let end = Run { dfa: &self.dfa, known }.is_match(text, cost);
            if known.is_changed {
                known.is_changed = false;
                let before = known.counted;
                known.counted = known.bytes();
                *bytes = (*bytes + known.counted).saturating_sub(before);
                if *bytes > KEPT_OF_ALL {
                    by_pattern.clear();
                    *bytes = 0;
                }
            }
            end
        };
        match KEPT.with_borrow_mut(run)? {
            End::Decided(is_match) => Some(is_match),
            End::Undecided => self.simulate(text),
        }
    }

    /// Follows all states at each byte. The work for the entire text is charged first.
    fn simulate(&self, text: &str) -> Option<bool> {
        let states = i64::try_from(self.simulation.get_nfa().states().len()).unwrap_or(i64::MAX);
        let length = i64::try_from(text.len() + 1).unwrap_or(i64::MAX);
        charge(states.saturating_mul(length).saturating_mul(LIBRARY)).then(|| {
            let mut cache = self.simulation.create_cache();
            self.simulation.is_match(&mut cache, text)
        })
    }
}

/// Explanation for a pattern that is too large.
const TOO_LARGE: &str =
    "the pattern is too large: use `minLength` and `maxLength` instead of repetition";

/// Result of a run.
enum End {
    /// The text matches, or not.
    Decided(bool),
    /// The text has a character that the automaton does not support.
    Undecided,
}

/// The caches of a thread.
#[derive(Default)]
struct Kept {
    by_pattern: HashMap<u64, Known, RandomState>,
    bytes: usize,
}

/// The cache of one pattern.
struct Known {
    cache: Cache,
    /// Bytes in which the library encodes the states of the pattern in a state of the automaton: at
    /// least one per state.
    sizes: HashMap<LazyStateID, u32, RandomState>,
    largest: u32,
    /// Bytes of this cache in the sum of all patterns.
    counted: usize,
    /// Whether transitions were computed since the last count.
    is_changed: bool,
}

impl Known {
    fn new(dfa: &DFA) -> Self {
        let cache = dfa.create_cache();
        Self { cache, sizes: HashMap::default(), largest: 1, counted: 0, is_changed: true }
    }

    fn bytes(&self) -> usize {
        let sizes = self.sizes.capacity() * size_of::<(LazyStateID, u32)>();
        size_of::<Self>() + self.cache.memory_usage() + sizes
    }
}

struct Run<'r> {
    dfa: &'r DFA,
    known: &'r mut Known,
}

impl Run<'_> {
    fn is_match(&mut self, text: &str, cost: Cost) -> Option<End> {
        let bytes = text.as_bytes();
        let Ok(mut state) = self.dfa.start_state_forward(&mut self.known.cache, &Input::new(text))
        else {
            return Some(End::Undecided);
        };
        let mut at = 0;
        loop {
            let from = at;
            state = self.follow_known(state, &bytes[..bytes.len().min(from + BLOCK)], &mut at);
            let read = i64::try_from(at - from).unwrap_or(i64::MAX);
            let library = if cost == Cost::Library {
                LIBRARY.saturating_mul(i64::from(self.known.largest)).saturating_mul(read)
            } else {
                0
            };
            if !charge(1 + read / BYTES_PER_STEP + library) {
                return None;
            }
            if at == from {
                state = self.follow(state, bytes.get(at).copied())?;
                // A match is reported one byte late. An empty match inside a character does not
                // count.
                if state.is_match() && text.is_char_boundary(at) {
                    return Some(End::Decided(true));
                }
                if state.is_quit() {
                    return Some(End::Undecided);
                }
                if state.is_dead() || at == bytes.len() {
                    return Some(End::Decided(false));
                }
                at += 1;
            }
        }
    }

    /// Skips bytes as long as transitions are known and lead to ordinary states.
    fn follow_known(&self, from: LazyStateID, bytes: &[u8], at: &mut usize) -> LazyStateID {
        let mut state = from;
        if state.is_tagged() {
            return state;
        }
        for &byte in &bytes[*at..] {
            let next = self.dfa.next_state_untagged(&self.known.cache, state, byte);
            if next.is_tagged() {
                break;
            }
            state = next;
            *at += 1;
        }
        state
    }

    /// The transition of a byte, or of the end of the text. Takes steps for computed transitions.
    fn follow(&mut self, from: LazyStateID, byte: Option<u8>) -> Option<LazyStateID> {
        let Known { cache, sizes, largest, is_changed, .. } = &mut *self.known;
        if let Some(byte) = byte.filter(|_| !from.is_tagged()) {
            let known = self.dfa.next_state_untagged(cache, from, byte);
            if !known.is_unknown() {
                return Some(known);
            }
        }
        let (cleared, before) = (cache.clear_count(), cache.memory_usage());
        let size_before = sizes.get(&from).copied();
        let next = match byte {
            Some(byte) => self.dfa.next_state(cache, from, byte),
            None => self.dfa.next_eoi_state(cache, from),
        };
        // The automaton never stops early: the number of cache resets is unlimited.
        let next = next.ok()?;
        if cache.clear_count() != cleared {
            sizes.clear();
        }
        let added = cache.memory_usage().saturating_sub(before);
        if added > 0 {
            *is_changed = true;
            let row = self.dfa.byte_classes().alphabet_len().next_power_of_two();
            let size = added.saturating_sub(row * size_of::<LazyStateID>() + STATE).max(1);
            sizes.insert(next, u32::try_from(size).unwrap_or(u32::MAX));
        }
        let size = sizes.get(&next).copied().unwrap_or(1);
        *largest = (*largest).max(size);
        let visited = i64::from(size_before.unwrap_or(1)) + i64::from(size);
        charge(NEW + VISIT * visited).then_some(next)
    }
}
