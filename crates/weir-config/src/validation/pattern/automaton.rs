//! Runs of a pattern against a text, with their steps counted. The sets of instructions that a text
//! leads to are kept, so that most characters take a look into a table; a set that is new takes a step
//! for each instruction. Each thread keeps its own, up to a fixed size.

use super::super::budget::charge;
use super::program::{ASCII_WORD, Instruction, LINE_FEED, Program, START, WORD};
use foldhash::fast::RandomState;
use regex_syntax::hir::{Hir, Look};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the sets that a thread keeps of one pattern, and of all.
const KEPT: usize = 256 << 10;
const KEPT_OF_ALL: usize = 8 << 20;
/// Bytes of text between two charges.
const BLOCK: usize = 4096;
/// Bytes of text that take a step where the set is known.
const BYTES_PER_STEP: i64 = 3;
/// Steps of a set that is new, of each instruction that is visited on the way to it, and of a character
/// outside of ASCII whose letter has to be looked up.
const NEW_SET: i64 = 20;
const VISIT: i64 = 2;
const LOOK_UP: i64 = 3;
/// Steps of the library's engine for each instruction of a set, at most.
const LIBRARY: i64 = 2;

/// Sets that are none.
const UNKNOWN: u32 = u32::MAX;
const DEAD: u32 = u32::MAX - 1;
const MATCH: u32 = u32::MAX - 2;

/// Whose steps a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Its own.
    Own,
    /// Its own, and those of the library's engine, which may follow all instructions of each set.
    Library,
}

/// A pattern that runs.
#[derive(Debug)]
pub(crate) struct Automaton {
    /// Tells the sets of patterns apart.
    id: u64,
    program: Program,
}

impl Automaton {
    /// # Errors
    /// It is too large, or has what ECMA-262 has not.
    pub(super) fn new(hir: &Hir) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Self { id: NEXT.fetch_add(1, Relaxed), program: Program::new(hir)? })
    }

    /// Whether a text matches. Takes steps; `None`: there were not enough.
    pub(super) fn is_match(&self, text: &str, cost: Cost) -> Option<bool> {
        thread_local! {
            static KEPT: RefCell<Kept> = RefCell::default();
        }
        KEPT.with_borrow_mut(|kept| {
            let Kept { by_pattern, bytes, scratch } = kept;
            let known = by_pattern.entry(self.id).or_insert_with(|| Sets::new(&self.program));
            let before = known.bytes();
            let mut run = Run { program: &self.program, sets: known, scratch };
            let matched = run.is_match(text, cost);
            let after = known.bytes();
            *bytes = (*bytes + after).saturating_sub(before);
            if *bytes > KEPT_OF_ALL {
                by_pattern.clear();
                *bytes = 0;
            }
            matched
        })
    }
}

/// What a thread keeps.
#[derive(Default)]
struct Kept {
    by_pattern: HashMap<u64, Sets, RandomState>,
    bytes: usize,
    scratch: Scratch,
}

/// Sets of instructions that texts have led to.
struct Sets {
    /// The instructions of all sets.
    members: Vec<u32>,
    sets: Vec<Set>,
    /// Where a letter leads from a set, set by set; behind the letters the end of the text.
    rows: Vec<u32>,
    index: HashMap<u64, u32, RandomState>,
}

#[derive(Clone, Copy)]
struct Set {
    first: u32,
    count: u32,
    /// What conditions ask about the character before.
    before: u8,
    /// Most instructions that were visited from here.
    visited: u32,
}

impl Sets {
    /// Bytes of one set without its members, about.
    const SET: usize = size_of::<Set>() + 2 * size_of::<(u64, u32)>();

    fn new(program: &Program) -> Self {
        let mut sets = Self {
            members: Vec::new(),
            sets: Vec::new(),
            rows: Vec::new(),
            index: HashMap::default(),
        };
        sets.clear(program);
        sets
    }

    /// Only the set that a text begins with.
    fn clear(&mut self, program: &Program) {
        self.members.clear();
        self.sets.clear();
        self.rows.clear();
        self.index.clear();
        self.put(program, &[], START);
    }

    /// Bytes of all sets.
    fn used(&self) -> usize {
        4 * (self.members.len() + self.rows.len()) + self.sets.len() * Self::SET
    }

    /// Bytes that are allocated, about.
    fn bytes(&self) -> usize {
        let lists = 4 * (self.members.capacity() + self.rows.capacity());
        size_of::<Self>() + lists + self.sets.capacity() * Self::SET
    }

    fn put(&mut self, program: &Program, members: &[u32], before: u8) -> u32 {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let key = self.index.hasher().hash_one((members, before));
        if let Some(&known) = self.index.get(&key) {
            let set = self.sets[known as usize];
            let (first, count) = (set.first as usize, set.count as usize);
            if set.before == before && self.members[first..first + count] == *members {
                return known;
            }
        }
        let at = number(self.sets.len());
        let (first, count) = (number(self.members.len()), number(members.len()));
        self.sets.push(Set { first, count, before, visited: 0 });
        self.members.extend_from_slice(members);
        self.rows.resize(self.rows.len() + program.alphabet.letters + 1, UNKNOWN);
        self.index.insert(key, at);
        at
    }
}

/// What one step of a run needs.
#[derive(Default)]
struct Scratch {
    /// The step in which an instruction was visited, or put into the next set, last.
    visited: Vec<u32>,
    taken: Vec<u32>,
    step: u32,
    stack: Vec<u32>,
    next: Vec<u32>,
}

impl Scratch {
    fn begin(&mut self, instructions: usize) {
        if self.visited.len() < instructions {
            self.visited.resize(instructions, 0);
            self.taken.resize(instructions, 0);
        }
        self.step = self.step.wrapping_add(1);
        if self.step == 0 {
            self.visited.fill(0);
            self.taken.fill(0);
            self.step = 1;
        }
        self.stack.clear();
        self.next.clear();
    }
}

struct Run<'r> {
    program: &'r Program,
    sets: &'r mut Sets,
    scratch: &'r mut Scratch,
}

impl Run<'_> {
    fn is_match(&mut self, text: &str, cost: Cost) -> Option<bool> {
        let (bytes, alphabet) = (text.as_bytes(), &self.program.alphabet);
        let width = alphabet.letters + 1;
        let (mut set, mut at) = (0u32, 0);
        // Characters that all have one letter.
        let mut run = (0u32, (0u32, 0u32));
        loop {
            let block = at;
            let end = bytes.len().min(block + BLOCK);
            let mut steps = 0;
            let mut stopped = None;
            if cost == Cost::Own {
                (set, at) = self.pass(set, &bytes[..end], at);
            }
            while at < end {
                let byte = bytes[at];
                let (letter, length) = if byte < 128 {
                    (alphabet.ascii[byte as usize], 1)
                } else {
                    let c = text[at..].chars().next()?;
                    let code = u32::from(c);
                    if !(run.1.0..run.1.1).contains(&code) {
                        run = alphabet.letter(code);
                        steps += LOOK_UP;
                    }
                    (run.0, c.len_utf8())
                };
                if cost == Cost::Library {
                    let visited = self.sets.sets[set as usize].visited;
                    steps += LIBRARY * i64::from(visited) * length as i64;
                }
                let next = self.sets.rows[set as usize * width + letter as usize];
                if next >= MATCH {
                    stopped = Some((next, letter as usize, length));
                    break;
                }
                set = next;
                at += length;
            }
            let read = i64::try_from(at - block).unwrap_or(i64::MAX);
            if !charge(1 + read / BYTES_PER_STEP + steps) {
                return None;
            }
            let (next, letter, length) = match stopped {
                Some(stopped) => stopped,
                None if at < bytes.len() => continue,
                None => (self.sets.rows[set as usize * width + width - 1], width - 1, 0),
            };
            let next = if next == UNKNOWN { self.follow(set, letter, cost)? } else { next };
            match next {
                MATCH => return Some(true),
                DEAD => return Some(false),
                next => (set, at) = (next, at + length),
            }
        }
    }

    /// Passes over ASCII characters as long as known sets follow each other: the set, and where it is.
    fn pass(&self, set: u32, bytes: &[u8], at: usize) -> (u32, usize) {
        let (ascii, rows) = (&self.program.alphabet.ascii, self.sets.rows.as_slice());
        let width = self.program.alphabet.letters + 1;
        let (mut set, mut at) = (set, at);
        for &byte in &bytes[at..] {
            let Some(&letter) = ascii.get(byte as usize) else { break };
            match rows.get(set as usize * width + letter as usize) {
                Some(&next) if next < MATCH => set = next,
                _ => break,
            }
            at += 1;
        }
        (set, at)
    }

    /// Where a letter leads from a set, or the end of the text. Takes a step for each instruction.
    fn follow(&mut self, set: u32, letter: usize, cost: Cost) -> Option<u32> {
        let (program, letters) = (self.program, self.program.alphabet.letters);
        let Set { first, count, before, .. } = self.sets.sets[set as usize];
        self.scratch.begin(program.instructions.len());
        let members = first as usize..(first + count) as usize;
        let mut visited = 0;
        let mut found = false;
        if before & START != 0 || !program.is_anchored {
            found = self.visit(program.start, (before, letter), &mut visited);
        }
        for member in members {
            found = found || self.visit(self.sets.members[member], (before, letter), &mut visited);
        }
        let known = &mut self.sets.sets[set as usize].visited;
        *known = (*known).max(visited);
        let mut steps =
            NEW_SET + VISIT * i64::from(visited) + i64::try_from(letters / 16).unwrap_or(0);
        if cost == Cost::Library {
            steps += LIBRARY * i64::from(visited);
        }
        if !charge(steps) {
            return None;
        }
        let mut row = Some(set as usize * (letters + 1));
        let next = if found {
            MATCH
        } else if letter == letters || (self.scratch.next.is_empty() && program.is_anchored) {
            DEAD
        } else {
            if self.sets.used() > KEPT {
                // The one that the text has led to is forgotten with the others.
                self.sets.clear(program);
                row = None;
            }
            self.sets.put(program, &self.scratch.next, program.alphabet.kinds(letter))
        };
        if let Some(row) = row {
            self.sets.rows[row + letter] = next;
        }
        Some(next)
    }

    /// Follows an instruction up to the characters that it may read next. Whether it ends a match.
    fn visit(&mut self, from: u32, (before, letter): (u8, usize), visited: &mut u32) -> bool {
        let Scratch { visited: seen, taken, step, stack, next: members } = &mut *self.scratch;
        let alphabet = &self.program.alphabet;
        let is_end = letter == alphabet.letters;
        stack.push(from);
        while let Some(at) = stack.pop() {
            if std::mem::replace(&mut seen[at as usize], *step) == *step {
                continue;
            }
            *visited += 1;
            match self.program.instructions[at as usize] {
                Instruction::Class { class, next } => {
                    if !is_end
                        && alphabet.has(class as usize, letter)
                        && std::mem::replace(&mut taken[next as usize], *step) != *step
                    {
                        members.push(next);
                    }
                }
                Instruction::Split(one, other) => stack.extend([other, one]),
                Instruction::Look(look, next) => {
                    if holds(look, before, (alphabet.kinds(letter), is_end)) {
                        stack.push(next);
                    }
                }
                Instruction::Match => return true,
            }
        }
        false
    }
}

/// Whether a condition holds between two characters.
fn holds(look: Look, before: u8, (after, is_end): (u8, bool)) -> bool {
    let differ = |kind: u8| (before & kind != 0) != (after & kind != 0);
    let is_start = before & START != 0;
    match look {
        Look::Start => is_start,
        Look::End => is_end,
        Look::StartLF => is_start || before & LINE_FEED != 0,
        Look::EndLF => is_end || after & LINE_FEED != 0,
        Look::WordUnicode => differ(WORD),
        Look::WordUnicodeNegate => !differ(WORD),
        Look::WordAscii => differ(ASCII_WORD),
        Look::WordAsciiNegate => !differ(ASCII_WORD),
        // No program has others.
        _ => false,
    }
}
