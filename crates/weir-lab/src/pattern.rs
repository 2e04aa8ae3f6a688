//! Regular expressions as JMeter has them (Apache ORO, in the style of Perl 5), on `regex`, which
//! is linear, and on `fancy-regex` for look-ahead and back-references.

mod translate;

use crate::budget::{Budget, fits_value};
use regex::bytes::Regex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Steps of backtracking for one match.
const MAX_BACKTRACKING_STEPS: usize = 1_000_000;
/// Time of all matches of an expression with backtracking in a text. Steps are bounded for each match
/// only, and there may be thousands.
const MAX_BACKTRACKING_TIME: Duration =
    if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(2) };
/// Compiled expressions cached by each thread.
const MAX_CACHED: usize = 256;

/// A match: the entire match, then its groups; `None` for a group without a part.
pub(crate) type Groups = Vec<Option<String>>;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    engine: Engine,
    /// The translated expression in which `$` is the end of the text only.
    translated: String,
    /// The same for an entire text, and for replacements, compiled on first use.
    entire: OnceLock<Result<Box<Engine>, String>>,
    replaced: OnceLock<Result<Box<Engine>, String>>,
}

#[derive(Clone, Debug)]
enum Engine {
    Linear(Regex),
    Backtracking(fancy_regex::Regex),
}

thread_local! {
    static CACHE: RefCell<HashMap<String, Result<Rc<Pattern>, String>>> = RefCell::default();
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The expression is invalid, or JMeter does not support it.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        // `regex` has no `$` before the final line break, which is part of such a match here.
        let found = translate::translate(pattern, translate::TEXT_END)?;
        let translated = translate::translate(pattern, translate::LINE_END)?;
        Ok(Self {
            engine: Engine::new(&found)?,
            translated,
            entire: OnceLock::new(),
            replaced: OnceLock::new(),
        })
    }

    /// An expression that is compiled once per thread.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub(crate) fn cached(pattern: &str) -> Result<Rc<Self>, String> {
        CACHE.with_borrow_mut(|known| {
            if let Some(found) = known.get(pattern) {
                return found.clone();
            }
            let found = Self::new(pattern).map(Rc::new);
            if known.len() >= MAX_CACHED {
                known.clear();
            }
            known.insert(pattern.to_owned(), found.clone());
            found
        })
    }

    /// Whether the expression is found in a text.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn is_found(&self, text: &[u8]) -> Result<bool, String> {
        self.engine.is_found(text)
    }

    /// Whether the expression matches the entire text.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn matches(&self, text: &[u8]) -> Result<bool, String> {
        let entire = || Engine::new(&format!(r"\A(?:{})\z", self.translated)).map(Box::new);
        self.entire.get_or_init(entire).as_ref().map_err(Clone::clone)?.is_found(text)
    }

    /// The first matches.
    ///
    /// # Errors
    /// Too many steps, or the matches are too large together.
    pub(crate) fn find(&self, text: &[u8], most: usize) -> Result<Vec<Groups>, String> {
        let mut budget = Budget::default();
        match &self.engine {
            Engine::Linear(regex) => {
                let mut owned = |group: regex::bytes::Match<'_>| {
                    budget.take(group.len())?;
                    Ok(String::from_utf8_lossy(group.as_bytes()).into_owned())
                };
                let groups = |found: regex::bytes::Captures<'_>| {
                    found.iter().map(|group| group.map(&mut owned).transpose()).collect()
                };
                regex.captures_iter(text).take(most).map(groups).collect()
            }
            Engine::Backtracking(regex) => {
                let text = String::from_utf8_lossy(text);
                let (mut found, start) = (Vec::new(), Instant::now());
                for groups in regex.captures_iter(&*text).take(most) {
                    let groups = groups.map_err(|error| error.to_string())?;
                    in_time(start)?;
                    let groups: Groups = (0..groups.len())
                        .map(|at| groups.get(at).map(|part| part.as_str().to_owned()))
                        .collect();
                    budget.take(groups.iter().flatten().map(String::len).sum())?;
                    found.push(groups);
                }
                Ok(found)
            }
        }
    }

    /// Replaces all matches as Java's `replaceAll` does it.
    ///
    /// # Errors
    /// Too many steps, or the result is too large for a value.
    pub(crate) fn replace(&self, text: &str, replacement: &str) -> Result<String, String> {
        let replacement = translate::replacement(replacement);
        // Each group is written as many times at most.
        let references = replacement.matches("${").count();
        // The line break is no part of what is replaced.
        let engine = self.replaced.get_or_init(|| Engine::new(&self.translated).map(Box::new));
        match &**engine.as_ref().map_err(Clone::clone)? {
            Engine::Linear(regex) => {
                let (mut out, mut last) = (Vec::new(), 0);
                for groups in regex.captures_iter(text.as_bytes()) {
                    let Some(entire) = groups.get(0) else { continue };
                    out.extend_from_slice(&text.as_bytes()[last..entire.start()]);
                    fits_value(out.len() + references * entire.len() + replacement.len())?;
                    groups.expand(replacement.as_bytes(), &mut out);
                    last = entire.end();
                }
                out.extend_from_slice(&text.as_bytes()[last..]);
                fits_value(out.len())?;
                Ok(String::from_utf8_lossy(&out).into_owned())
            }
            Engine::Backtracking(regex) => {
                let (mut out, mut last, start) = (String::new(), 0, Instant::now());
                for groups in regex.captures_iter(text) {
                    let groups = groups.map_err(|error| error.to_string())?;
                    in_time(start)?;
                    let Some(entire) = groups.get(0) else { continue };
                    out.push_str(&text[last..entire.start()]);
                    // A group in a look-ahead may be longer than the match.
                    let longest = groups.iter().flatten().map(|group| group.as_str().len()).max();
                    let longest = longest.unwrap_or(0);
                    fits_value(out.len() + references * longest + replacement.len())?;
                    groups.expand(&replacement, &mut out);
                    last = entire.end();
                }
                out.push_str(&text[last..]);
                fits_value(out.len())?;
                Ok(out)
            }
        }
    }
}

impl Engine {
    fn new(translated: &str) -> Result<Self, String> {
        match Regex::new(translated) {
            Ok(regex) => Ok(Self::Linear(regex)),
            Err(error) => {
                let mut builder = fancy_regex::RegexBuilder::new(translated);
                match builder.backtrack_limit(MAX_BACKTRACKING_STEPS).build() {
                    Ok(regex) => Ok(Self::Backtracking(regex)),
                    Err(_) => Err(last_line(&error.to_string())),
                }
            }
        }
    }

    fn is_found(&self, text: &[u8]) -> Result<bool, String> {
        match self {
            Self::Linear(regex) => Ok(regex.is_match(text)),
            Self::Backtracking(regex) => {
                regex.is_match(&*String::from_utf8_lossy(text)).map_err(|error| error.to_string())
            }
        }
    }
}

/// Checks the time of matches with backtracking.
fn in_time(start: Instant) -> Result<(), String> {
    match start.elapsed() <= MAX_BACKTRACKING_TIME {
        true => Ok(()),
        false => Err("the regular expression takes too long".to_owned()),
    }
}

/// The reason in an error with an excerpt.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
