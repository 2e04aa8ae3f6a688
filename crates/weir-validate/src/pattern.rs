//! Patterns (ECMA-262) with counted work. A search of `regex` cannot be interrupted: one of
//! `[ab]*a[ab]{300}c` in 16 MiB takes seconds. So patterns run here, as automata that take steps of
//! the budget at each byte ([`automaton`]); each look-ahead after `^` has a separate automaton.
//! Patterns with other look-around or back-references need backtracking ([`backtracking`]): an
//! upper bound of their work is charged before they run.

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
    /// Takes time linear in the text, for each state of its automaton.
    Linear(Box<Automaton>),
    /// All of these have to match, or must not where the flag is `false`.
    All(Vec<(Automaton, bool)>),
    /// Look-around or back-references that automata do not support.
    Backtracking(Backtracking),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is invalid, or cannot be compiled.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translated = jsonschema_regex::to_rust_regex(pattern)
            .map_err(|()| "not a regular expression of ECMA-262".to_owned())?;
        match parse(&translated) {
            Ok(Some(hir)) => {
                Automaton::new(&hir).map(|automaton| Self::Linear(Box::new(automaton)))
            }
            // Look-around, back-references, or syntax of `fancy-regex` only.
            Ok(None) => match conjunction(pattern) {
                Some(all) => Ok(Self::All(all)),
                None => Backtracking::new(&translated).map(Self::Backtracking),
            },
            Err(why) => Err(why),
        }
    }

    /// Whether its work can only be bounded by rejecting long texts.
    pub(crate) fn backtracks(&self) -> bool {
        matches!(self, Self::Backtracking(_))
    }

    /// Whether a text matches. Takes steps; `None`: budget exhausted.
    pub(super) fn is_match(&self, text: &str) -> Option<bool> {
        self.run(text, Cost::Own)
    }

    /// Takes the steps of a match by the library's engine. Returns whether enough were left.
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
/// The fault of the pattern.
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

/// Splits a pattern of the form `^(?=…)(?!…)…(?<!…)$` into parts that have to match and parts that
/// must not: each look-ahead applies at the start of the text, the look-behind at its end. `None`:
/// the pattern has another form.
fn conjunction(pattern: &str) -> Option<Vec<(Automaton, bool)>> {
    let mut rest = pattern.strip_prefix('^')?;
    let mut all = Vec::new();
    while let Some((expected, body)) = look(rest, &[("(?=", true), ("(?!", false)]) {
        let end = group_end(body)?;
        all.push((linear("^", &body[..end], "")?, expected));
        rest = &body[end + 1..];
    }
    // A look-ahead may be followed by a quantifier, which is not a valid pattern by itself.
    let mut last = None;
    if let Some(before) = rest.strip_suffix(")$")
        && let Some((at, expected)) = look_behind(before)
    {
        let body = &before[at + "(?<!".len()..];
        all.push((linear("", body, "$")?, expected));
        last = Some(format!("{}$", &before[..at]));
    }
    let rest = last.as_deref().unwrap_or(rest);
    // Otherwise `^` and the prefix would belong to the first alternative only.
    if is_alternation(rest) {
        return None;
    }
    all.push((linear("^", rest, "")?, true));
    Some(all)
}

fn look<'p>(rest: &'p str, kinds: &[(&str, bool)]) -> Option<(bool, &'p str)> {
    kinds.iter().find_map(|(prefix, expected)| Some((*expected, rest.strip_prefix(prefix)?)))
}

/// Position of the only look-behind, and whether it has to match.
fn look_behind(rest: &str) -> Option<(usize, bool)> {
    let found = [("(?<=", true), ("(?<!", false)];
    let found = found.iter().find_map(|(prefix, expected)| Some((rest.rfind(prefix)?, *expected)));
    let (at, expected) = found?;
    // Its closing parenthesis is the last character.
    let body = format!("{})", &rest[at + "(?<!".len()..]);
    (group_end(&body)? + 1 == body.len()).then_some((at, expected))
}

/// Position where the group at the start of a text is closed.
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

/// An automaton for a part of a pattern, between a prefix and a suffix.
fn linear(prefix: &str, part: &str, suffix: &str) -> Option<Automaton> {
    let part = whole(part)?;
    let hir = parse(&format!("{prefix}{part}{suffix}")).ok()??;
    Automaton::new(&hir).ok()
}

/// A part of a pattern, translated, as one group. `None`: it is not a valid pattern by itself.
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
