//! Setup of the validation library, and weir's own keywords, by which it takes steps of the budget.
//! No OpenAPI document can contain them: members with `x-` are left out of copies.

use super::budget::charge;
use super::document::{Documents, Element};
use super::pattern::Pattern;
use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use jsonschema_value::Node as _;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// Counts steps for work that is not visible as accesses to the document.
pub(super) const STEPS: &str = "x-weir-steps";
/// Replaces `pattern`, and counts the steps of its matches.
pub(super) const PATTERN: &str = "x-weir-pattern";
/// Counts the steps of matching the members' names against these patterns in the library.
pub(super) const NAMES: &str = "x-weir-names";

/// Texts with at least this number of bytes are matched once for both passes of a comparison.
const LONG: usize = 4096;

/// Steps of a visit of a counted schema: its result may be stored, which costs more than an access.
const VISIT: i64 = 32;

thread_local! {
    /// Results of matching long texts, by the addresses of text and pattern.
    static MATCHED: RefCell<HashMap<(usize, usize), bool>> = RefCell::default();
}

/// Clears the results at the start of a comparison.
pub(super) fn begin() {
    MATCHED.with_borrow_mut(|matched| {
        if !matched.is_empty() {
            *matched = HashMap::new();
        }
    });
}

/// Maximum number of failed attempts of a pattern of names with look-around or back-references;
/// others take linear time.
const ATTEMPTS: usize = 10_000;
/// Maximum size of a compiled pattern of names, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Compiles a schema.
pub(crate) fn validator(
    schema: &Value,
) -> Result<jsonschema::Validator<Documents>, ValidationError<'static>> {
    let patterns = jsonschema::PatternOptions::fancy_regex()
        .backtrack_limit(ATTEMPTS)
        .size_limit(PATTERN_BYTES);
    jsonschema::ValidationOptions::default()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .with_keyword(STEPS, steps)
        .with_keyword(PATTERN, pattern)
        .with_keyword(NAMES, names)
        .offline()
        .build(schema)
}

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i, Documents>>, ValidationError<'a>>;

fn steps<'a>(_: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    Ok(Box::new(Weight::of(value)))
}

fn pattern<'a>(parent: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    let text = value.as_str().unwrap_or_default();
    let pattern = Pattern::new(text).map_err(ValidationError::custom)?;
    let message = format!("the value does not match \"{text}\"");
    let longest = parent.get("maxLength").and_then(Value::as_u64);
    let longest = longest.and_then(|longest| usize::try_from(longest).ok());
    Ok(Box::new(Text { pattern, message, longest }))
}

fn names<'a>(_: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    let patterns: Result<Vec<_>, _> = texts.map(Pattern::new).collect();
    Ok(Box::new(Names(patterns.map_err(ValidationError::custom)?)))
}

/// The result of a keyword that only takes steps: an error is void, as the budget is exhausted.
fn counted<'i>(enough: bool) -> Result<(), ValidationError<'i>> {
    if enough {
        return Ok(());
    }
    Err(ValidationError::custom("the budget of the validation is exhausted"))
}

/// A pattern of a text.
struct Text {
    pattern: Pattern,
    /// Explanation for a text that does not match.
    message: String,
    /// Maximum number of characters of a valid text (`maxLength`).
    longest: Option<usize>,
}

impl Text {
    /// The text to be matched; none if it is too long, and so invalid in any case.
    fn matched<'i>(&self, instance: Element<'i>) -> Option<&'i str> {
        let text = instance.text()?;
        let most = self.longest.unwrap_or(usize::MAX);
        // A character has at most four bytes.
        let is_long = text.len() > most && (text.len() / 4 > most || text.chars().count() > most);
        (!is_long).then_some(text)
    }

    /// Whether a text matches; `None`: over budget.
    fn is_match(&self, instance: Element<'_>, text: &str) -> Option<bool> {
        if text.len() < LONG || !instance.stands_in_body() {
            return self.pattern.is_match(text);
        }
        let key = (std::ptr::from_ref(self).addr(), text.as_ptr().addr());
        if let Some(known) = MATCHED.with_borrow(|matched| matched.get(&key).copied()) {
            return charge(1).then_some(known);
        }
        let is_match = self.pattern.is_match(text)?;
        MATCHED.with_borrow_mut(|matched| matched.insert(key, is_match));
        Some(is_match)
    }
}

impl<'i> Keyword<'i, Documents> for Text {
    fn validate(&self, instance: Element<'i>) -> Result<(), ValidationError<'i>> {
        let Some(text) = self.matched(instance) else { return Ok(()) };
        // An error after the budget is exhausted is void.
        match self.is_match(instance, text) {
            Some(false) if instance.charge_error() => {
                Err(ValidationError::custom(self.message.clone()))
            }
            _ => Ok(()),
        }
    }

    fn is_valid(&self, instance: Element<'i>) -> bool {
        self.matched(instance).is_none_or(|text| self.is_match(instance, text) == Some(true))
    }
}

/// Patterns of names.
struct Names(Vec<Pattern>);

impl<'i> Keyword<'i, Documents> for Names {
    fn validate(&self, instance: Element<'i>) -> Result<(), ValidationError<'i>> {
        counted(self.is_valid(instance))
    }

    fn is_valid(&self, instance: Element<'i>) -> bool {
        instance
            .names()
            .all(|name| charge(1) && self.0.iter().all(|pattern| pattern.charge_match(name)))
    }
}

/// Cost of the schema behind [`STEPS`] that is not visible as accesses to the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// Steps per visit.
    pub(super) visit: i64,
    /// Steps per byte of a text.
    pub(super) byte: i64,
    /// Steps per byte of the members' names.
    pub(super) name: i64,
}

impl Weight {
    /// As the value of the keyword.
    pub(super) fn to_value(self) -> Value {
        Value::from(vec![self.visit, self.byte, self.name])
    }

    /// From the value of the keyword.
    pub(super) fn of(value: &Value) -> Self {
        let number = |at: usize| value.get(at).and_then(Value::as_i64).unwrap_or_default();
        Self { visit: number(0), byte: number(1), name: number(2) }
    }
}

impl<'i> Keyword<'i, Documents> for Weight {
    fn validate(&self, instance: Element<'i>) -> Result<(), ValidationError<'i>> {
        counted(self.is_valid(instance))
    }

    fn is_valid(&self, instance: Element<'i>) -> bool {
        let mut steps = VISIT + self.visit;
        if self.byte > 0 {
            steps += self.byte.saturating_mul(instance.text_length());
        }
        if self.name > 0 && instance.as_object().is_some() {
            let names = instance.names_length();
            steps += self.name.saturating_mul(names);
        }
        charge(steps)
    }
}
