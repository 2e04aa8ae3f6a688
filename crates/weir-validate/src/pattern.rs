//! Patterns (ECMA-262) of which the work is counted. A search of `regex` cannot be interrupted: one of
//! `[ab]*a[ab]{300}c` in 16 MiB takes seconds. So patterns run here, as automata that take steps of the
//! budget at each byte ([`automaton`]); look-ahead behind `^` is compared by an automaton of its own. Patterns with other look-around or back-references need backtracking
//! ([`backtracking`]): an upper bound of their work is charged before they run.

mod automaton;
mod backtracking;

use automaton::{Automaton, Cost};
use backtracking::Backtracking;
use regex_syntax::ParserBuilder;
use regex_syntax::ast::{self, Ast, ErrorKind};
use regex_syntax::hir::Hir;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// It takes linear time in the text for each state of its automaton.
    Linear(Box<Automaton>),
    /// All of these match, or do not where `false` stands with them.
    All(Vec<(Automaton, bool)>),
    /// Look-around or back-references that no automaton has.
    Backtracking(Backtracking),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Why it is none, or cannot be compiled.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translated = jsonschema_regex::to_rust_regex(pattern)
            .map_err(|()| "not a regular expression of ECMA-262".to_owned())?;
        match parse(&translated) {
            Ok(Some(hir)) => {
                Automaton::new(&hir).map(|automaton| Self::Linear(Box::new(automaton)))
            }
            // Look-around, back-references, or syntax that only `fancy-regex` has.
            Ok(None) => match conjunction(pattern) {
                Some(all) => Ok(Self::All(all)),
                None => Backtracking::new(&translated).map(Self::Backtracking),
            },
            Err(why) => Err(why),
        }
    }

    /// Whether its work can only be bounded by refusing long texts.
    pub(crate) fn backtracks(&self) -> bool {
        matches!(self, Self::Backtracking(_))
    }

    /// Whether a text matches. Takes steps; `None`: there were not enough.
    pub(super) fn is_match(&self, text: &str) -> Option<bool> {
        self.run(text, Cost::Own)
    }

    /// Takes the steps of a match of the library's engine. Whether there were enough.
    pub(super) fn charge_match(&self, text: &str) -> bool {
        self.run(text, Cost::Library).is_some()
    }

    fn run(&self, text: &str, cost: Cost) -> Option<bool> {
        match self {
            Self::Linear(automaton) => automaton.is_match(text, cost),
            Self::All(all) => {
                for (automaton, expected) in all {
                    if automaton.is_match(text, cost)? != *expected {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Self::Backtracking(backtracking) => backtracking.is_match(text),
        }
    }
}

/// Parses a pattern that was translated to the syntax of `regex`. `None`: it has look-around or
/// back-references.
///
/// # Errors
/// What is wrong with it.
fn parse(pattern: &str) -> Result<Option<Hir>, String> {
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
        Err(_) => Err("not a regular expression".to_owned()),
    }
}

/// A pattern of the form `^(?=…)(?!…)…(?<!…)$` as what has to match and what must not: each look-ahead
/// stands at the start of the text, the look-behind at its end. `None`: it has another form.
fn conjunction(pattern: &str) -> Option<Vec<(Automaton, bool)>> {
    let mut rest = pattern.strip_prefix('^')?;
    let mut all = Vec::new();
    while let Some((expected, body)) = look(rest, &[("(?=", true), ("(?!", false)]) {
        let end = group_end(body)?;
        all.push((linear("^", &body[..end])?, expected));
        rest = &body[end + 1..];
    }
    // Behind a look-ahead may stand how often it is repeated, which is no pattern then.
    let mut last = None;
    if let Some(before) = rest.strip_suffix(")$")
        && let Some((at, expected)) = look_behind(before)
    {
        let body = &before[at + "(?<!".len()..];
        all.push((linear_at_end(body)?, expected));
        last = Some(format!("{}$", &before[..at]));
    }
    let rest = last.as_deref().unwrap_or(rest);
    // Otherwise `^` and what stands behind it would belong to the first alternative only.
    if is_alternation(rest) {
        return None;
    }
    all.push((linear("^", rest)?, true));
    Some(all)
}

fn look<'p>(rest: &'p str, kinds: &[(&str, bool)]) -> Option<(bool, &'p str)> {
    kinds.iter().find_map(|(prefix, expected)| Some((*expected, rest.strip_prefix(prefix)?)))
}

/// Where the only look-behind begins, and whether it has to match.
fn look_behind(rest: &str) -> Option<(usize, bool)> {
    let found = [("(?<=", true), ("(?<!", false)];
    let found = found.iter().find_map(|(prefix, expected)| Some((rest.rfind(prefix)?, *expected)));
    let (at, expected) = found?;
    // Its own end is the last character of all.
    let body = format!("{})", &rest[at + "(?<!".len()..]);
    (group_end(&body)? + 1 == body.len()).then_some((at, expected))
}

/// Where the group that is open at the start of a text is closed.
fn group_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_class, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' if in_class => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// An automaton of a part of a pattern, behind a prefix.
fn linear(prefix: &str, part: &str) -> Option<Automaton> {
    let part = whole(part)?;
    let hir = parse(&format!("{prefix}{part}")).ok()??;
    Automaton::new(&hir).ok()
}

fn linear_at_end(body: &str) -> Option<Automaton> {
    let hir = parse(&format!("{}$", whole(body)?)).ok()??;
    Automaton::new(&hir).ok()
}

/// A part of a pattern, translated, as one group. `None`: it is no pattern of its own.
fn whole(part: &str) -> Option<String> {
    let translated = jsonschema_regex::to_rust_regex(part).ok()?;
    ast::parse::Parser::new().parse(&translated).ok()?;
    Some(format!("(?:{translated})"))
}

/// Whether a part of a pattern is a list of alternatives.
fn is_alternation(part: &str) -> bool {
    matches!(ast::parse::Parser::new().parse(part), Ok(Ast::Alternation(_)))
}

#[cfg(test)]
mod tests;
