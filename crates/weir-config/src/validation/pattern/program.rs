//! Patterns as instructions over classes of characters. Two characters that no part of a pattern tells
//! apart are one letter; so most patterns have an alphabet of a few letters, whatever they say of
//! Unicode.

use regex_syntax::ParserBuilder;
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use std::collections::HashMap;

/// Most instructions of a pattern: `^.{0,65535}$` has half of them.
const INSTRUCTIONS: usize = 1 << 18;
/// Most letters, and letters by character classes.
const LETTERS: usize = 1 << 14;
const MEMBERS: usize = 1 << 24;
/// What is said of a larger pattern.
const TOO_LARGE: &str =
    "the pattern is too large: state lengths with `minLength` and `maxLength`, not by repetition";

/// The characters of a class: ranges that are in order and apart.
type Ranges = Vec<(u32, u32)>;

/// One instruction, by the numbers of those that follow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    /// A character of this class.
    Class { class: u32, next: u32 },
    /// Either.
    Split(u32, u32),
    /// A condition on the place.
    Look(Look, u32),
    /// The end of a match.
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    pub(super) start: u32,
    /// It can only match from the start of the text on.
    pub(super) is_anchored: bool,
    pub(super) alphabet: Alphabet,
}

/// The letters of a pattern.
#[derive(Debug)]
pub(super) struct Alphabet {
    /// How many.
    pub(super) letters: usize,
    /// The letter of each ASCII character.
    pub(super) ascii: [u32; 128],
    /// Where runs of characters of one letter begin, in order, and their letters.
    starts: Vec<u32>,
    runs: Vec<u32>,
    /// Whether a class has a letter: a bit for each, class by class.
    members: Vec<u64>,
    /// What conditions ask about each letter.
    kinds: Vec<u8>,
}

/// What conditions ask about a character: bits.
pub(super) const WORD: u8 = 1;
pub(super) const ASCII_WORD: u8 = 2;
pub(super) const LINE_FEED: u8 = 4;
/// There is none: the start of the text.
pub(super) const START: u8 = 8;

/// Parses a pattern that was translated to the syntax of `regex`. `None`: it has look-around or
/// back-references.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(pattern: &str) -> Result<Option<Hir>, String> {
    match ParserBuilder::new().build().parse(pattern) {
        Ok(hir) => Ok(Some(hir)),
        Err(regex_syntax::Error::Parse(error))
            if matches!(
                error.kind(),
                ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference
            ) =>
        {
            Ok(None)
        }
        Err(regex_syntax::Error::Parse(error)) => Err(error.kind().to_string()),
        Err(regex_syntax::Error::Translate(error)) => Err(error.kind().to_string()),
        Err(_) => Err("it is no regular expression".to_owned()),
    }
}

impl Program {
    /// # Errors
    /// It is too large, or has what ECMA-262 has not.
    pub(super) fn new(hir: &Hir) -> Result<Self, String> {
        let mut compiler = Compiler::default();
        let end = compiler.push(Instruction::Match)?;
        let start = compiler.add(hir, end)?;
        let Compiler { instructions, mut classes, looks, .. } = compiler;
        let counted = classes.len();
        let kinds = kinds(looks);
        classes.extend(kinds.iter().map(|(_, ranges)| ranges.clone()));
        let mut alphabet = Alphabet::new(&classes)?;
        for (at, (kind, _)) in kinds.iter().enumerate() {
            for letter in 0..alphabet.letters {
                if alphabet.has(counted + at, letter) {
                    alphabet.kinds[letter] |= kind;
                }
            }
        }
        let is_anchored = hir.properties().look_set_prefix().contains(Look::Start);
        Ok(Self { instructions, start, is_anchored, alphabet })
    }
}

/// What conditions ask about characters, and of which characters it is true.
fn kinds(looks: u8) -> Vec<(u8, Ranges)> {
    let mut kinds = Vec::new();
    if looks & WORD != 0 {
        let word = regex_syntax::parse(r"\w").ok();
        let ranges = word.and_then(|hir| match hir.kind() {
            HirKind::Class(class) => ranges(class),
            _ => None,
        });
        kinds.push((WORD, ranges.unwrap_or_default()));
    }
    if looks & ASCII_WORD != 0 {
        let word = [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
        kinds.push((ASCII_WORD, word.map(|(a, z)| (u32::from(a), u32::from(z))).to_vec()));
    }
    if looks & LINE_FEED != 0 {
        kinds.push((LINE_FEED, vec![(u32::from('\n'), u32::from('\n'))]));
    }
    kinds
}

/// The characters of a class. `None`: bytes that are no characters.
fn ranges(class: &Class) -> Option<Ranges> {
    match class {
        Class::Unicode(class) => {
            Some(class.iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect())
        }
        Class::Bytes(class) => {
            let ranges = class.iter().map(|r| (u32::from(r.start()), u32::from(r.end())));
            class.is_ascii().then(|| ranges.collect())
        }
    }
}

#[derive(Default)]
struct Compiler {
    instructions: Vec<Instruction>,
    classes: Vec<Ranges>,
    known: HashMap<Ranges, u32>,
    /// What conditions ask about characters.
    looks: u8,
    /// Parts that were compiled, also those without instructions.
    parts: usize,
}

impl Compiler {
    fn push(&mut self, instruction: Instruction) -> Result<u32, String> {
        if self.instructions.len() >= INSTRUCTIONS {
            return Err(TOO_LARGE.to_owned());
        }
        self.instructions.push(instruction);
        u32::try_from(self.instructions.len() - 1).map_err(|_| TOO_LARGE.to_owned())
    }

    fn class(&mut self, ranges: Ranges, next: u32) -> Result<u32, String> {
        let class = match self.known.get(&ranges) {
            Some(class) => *class,
            None => {
                let class = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
                self.classes.push(ranges.clone());
                self.known.insert(ranges, class);
                class
            }
        };
        self.push(Instruction::Class { class, next })
    }

    /// Adds a part that leads to an instruction; where it begins. Nested no deeper than the parser
    /// allows.
    fn add(&mut self, hir: &Hir, next: u32) -> Result<u32, String> {
        self.parts += 1;
        if self.parts > 4 * INSTRUCTIONS {
            return Err(TOO_LARGE.to_owned());
        }
        match hir.kind() {
            HirKind::Empty => Ok(next),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| NO_CHARACTER.to_owned())?;
                text.chars()
                    .rev()
                    .try_fold(next, |next, c| self.class(vec![(u32::from(c), u32::from(c))], next))
            }
            HirKind::Class(class) => {
                let ranges = ranges(class).ok_or_else(|| NO_CHARACTER.to_owned())?;
                self.class(ranges, next)
            }
            HirKind::Look(look) => {
                self.looks |= match look {
                    Look::Start | Look::End => 0,
                    Look::StartLF | Look::EndLF => LINE_FEED,
                    Look::WordUnicode | Look::WordUnicodeNegate => WORD,
                    Look::WordAscii | Look::WordAsciiNegate => ASCII_WORD,
                    _ => return Err("it has a condition that ECMA-262 has not".to_owned()),
                };
                self.push(Instruction::Look(*look, next))
            }
            HirKind::Repetition(repetition) => {
                let (sub, min) = (&repetition.sub, repetition.min);
                let mut at = next;
                match repetition.max {
                    None => {
                        let split = self.push(Instruction::Match)?;
                        let body = self.add(sub, split)?;
                        self.instructions[split as usize] = Instruction::Split(body, next);
                        at = split;
                    }
                    Some(max) => {
                        for _ in min..max {
                            let body = self.add(sub, at)?;
                            at = self.push(Instruction::Split(body, next))?;
                        }
                    }
                }
                (0..min).try_fold(at, |next, _| self.add(sub, next))
            }
            HirKind::Capture(capture) => self.add(&capture.sub, next),
            HirKind::Concat(parts) => {
                parts.iter().rev().try_fold(next, |next, part| self.add(part, next))
            }
            HirKind::Alternation(parts) => {
                let mut parts = parts.iter().rev();
                let last = parts.next().map_or(Ok(next), |part| self.add(part, next))?;
                parts.try_fold(last, |others, part| {
                    let part = self.add(part, next)?;
                    self.push(Instruction::Split(part, others))
                })
            }
        }
    }
}

/// What is said of bytes that are no characters.
const NO_CHARACTER: &str = "it matches bytes that are no characters";

impl Alphabet {
    fn new(classes: &[Ranges]) -> Result<Self, String> {
        let too_large = || TOO_LARGE.to_owned();
        // Where classes begin and end.
        let mut edges: Vec<(u32, usize, bool)> = Vec::new();
        for (class, ranges) in classes.iter().enumerate() {
            for &(first, last) in ranges {
                edges.push((first, class, true));
                edges.push((last + 1, class, false));
            }
        }
        edges.sort_unstable();
        let (mut starts, mut runs) = (vec![0], vec![0]);
        // Letters by the classes that have them; the first has those that no class has.
        let mut letters: HashMap<Vec<usize>, u32> = HashMap::from([(Vec::new(), 0)]);
        let mut current: Vec<usize> = Vec::new();
        let mut work = 0;
        let mut edges = edges.into_iter().peekable();
        while let Some((at, class, begins)) = edges.next() {
            match current.binary_search(&class) {
                Ok(place) if !begins => {
                    current.remove(place);
                }
                Err(place) if begins => current.insert(place, class),
                _ => {}
            }
            if edges.peek().is_some_and(|(next, ..)| *next == at) {
                continue;
            }
            work += 1 + current.len();
            let count = u32::try_from(letters.len()).unwrap_or(u32::MAX);
            let letter = *letters.entry(current.clone()).or_insert(count);
            if letters.len() > LETTERS || work > MEMBERS {
                return Err(too_large());
            }
            if starts.last() == Some(&at) {
                starts.pop();
                runs.pop();
            }
            starts.push(at);
            runs.push(letter);
        }
        let count = letters.len();
        if classes.len().saturating_mul(count) > MEMBERS {
            return Err(too_large());
        }
        let mut alphabet = Self {
            letters: count,
            ascii: [0; 128],
            starts,
            runs,
            members: vec![0; (classes.len() * count).div_ceil(64)],
            kinds: vec![0; count],
        };
        for (classes, letter) in letters {
            for class in classes {
                let bit = class * count + letter as usize;
                alphabet.members[bit / 64] |= 1 << (bit % 64);
            }
        }
        for c in 0..128 {
            alphabet.ascii[c as usize] = alphabet.letter(c).0;
        }
        Ok(alphabet)
    }

    /// The letter of a character, and the characters from one on to before another that all have it.
    pub(super) fn letter(&self, c: u32) -> (u32, (u32, u32)) {
        let run = self.starts.partition_point(|start| *start <= c) - 1;
        let end = self.starts.get(run + 1).copied().unwrap_or(u32::MAX);
        (self.runs[run], (self.starts[run], end))
    }

    /// Whether a class has a letter.
    pub(super) fn has(&self, class: usize, letter: usize) -> bool {
        let bit = class * self.letters + letter;
        self.members[bit / 64] & (1 << (bit % 64)) != 0
    }

    /// What conditions ask about a letter.
    pub(super) fn kinds(&self, letter: usize) -> u8 {
        self.kinds.get(letter).copied().unwrap_or_default()
    }
}
