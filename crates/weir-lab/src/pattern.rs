//! Regular expressions as JMeter has them (Apache ORO, in the style of Perl 5), on `regex`, which
//! is linear, and on `fancy-regex` for look-ahead and back-references.

mod translate;

use regex::bytes::Regex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

/// Steps of backtracking for one match.
const MAX_BACKTRACKING_STEPS: usize = 1_000_000;
/// Compiled expressions cached by each thread.
const MAX_CACHED: usize = 256;

/// A match: the entire match, then its groups; `None` for a group without a part.
pub(crate) type Groups = Vec<Option<String>>;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    engine: Engine,
    /// The translated expression.
    translated: String,
    /// The same for an entire text, compiled on first use.
    entire: OnceLock<Result<Engine, String>>,
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
        let translated = translate::translate(pattern)?;
        Ok(Self { engine: Engine::new(&translated)?, translated, entire: OnceLock::new() })
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
        let entire = || Engine::new(&format!(r"\A(?:{})\z", self.translated));
        self.entire.get_or_init(entire).as_ref().map_err(Clone::clone)?.is_found(text)
    }

    /// The first matches.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn find(&self, text: &[u8], most: usize) -> Result<Vec<Groups>, String> {
        match &self.engine {
            Engine::Linear(regex) => {
                let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let groups = |found: regex::bytes::Captures<'_>| {
                    found.iter().map(|group| group.map(|group| owned(group.as_bytes()))).collect()
                };
                Ok(regex.captures_iter(text).take(most).map(groups).collect())
            }
            Engine::Backtracking(regex) => {
                let text = String::from_utf8_lossy(text);
                let mut found = Vec::new();
                for groups in regex.captures_iter(&*text).take(most) {
                    let groups = groups.map_err(|error| error.to_string())?;
                    let groups = (0..groups.len()).map(|at| groups.get(at));
                    found.push(groups.map(|part| part.map(|p| p.as_str().to_owned())).collect());
                }
                Ok(found)
            }
        }
    }

    /// Replaces all matches as Java's `replaceAll` does it.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn replace(&self, text: &str, replacement: &str) -> Result<String, String> {
        let replacement = translate::replacement(replacement);
        match &self.engine {
            Engine::Linear(regex) => {
                let replaced = regex.replace_all(text.as_bytes(), replacement.as_bytes());
                Ok(String::from_utf8_lossy(&replaced).into_owned())
            }
            Engine::Backtracking(regex) => {
                let replaced = regex.try_replacen(text, 0, replacement.as_str());
                replaced.map(Into::into).map_err(|error| error.to_string())
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

/// The reason in an error with an excerpt.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
