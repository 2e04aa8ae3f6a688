//! Checks of an answer.

use super::{Scope, Text};
use regex::bytes::Regex;
use serde_json_path::JsonPath;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use weir_wire::Headers;

/// A set of statuses from 100 to 999.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet {
    /// First and last of each run, in order.
    ranges: Vec<(u16, u16)>,
}

impl StatusSet {
    /// 200 to 399.
    pub fn success() -> Self {
        Self { ranges: vec![(200, 399)] }
    }

    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// All.
    pub fn all() -> Self {
        Self { ranges: vec![(0, u16::MAX)] }
    }

    /// Those from `first` to `last`, and those there already.
    pub fn add(&mut self, first: u16, last: u16) {
        self.ranges.push((first, last));
    }

    /// Reads `200`, `2xx`, `200-299` or several of them with commas.
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::none();
        for part in text.split(',').map(str::trim) {
            if let Some(class) = part.strip_suffix("xx") {
                let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
                set.add(class * 100, class * 100 + 99);
            } else if let Some((first, last)) = part.split_once('-') {
                set.add(first.trim().parse().ok()?, last.trim().parse().ok()?);
            } else {
                let status = part.parse().ok()?;
                set.add(status, status);
            }
        }
        Some(set)
    }

    /// Whether it is one of them.
    pub fn has(&self, status: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&status))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// A check.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is said if it fails; without one the check says what it expected and found.
    pub message: Option<Text>,
    /// What is checked.
    pub kind: CheckKind,
}

/// What is checked.
#[derive(Clone, Debug)]
pub enum CheckKind {
    /// The status is one of these; decides in place of [`super::Request::success`].
    Status(StatusSet),
    /// A text holds, is or matches others.
    Text {
        /// Which text.
        field: Field,
        /// How they are compared.
        comparison: Comparison,
        /// With what.
        patterns: Vec<Text>,
        /// One suffices; otherwise all must hold.
        any: bool,
        /// The opposite must hold, of each pattern.
        not: bool,
        /// The status alone does not make the sample fail (JMeter's "ignore status").
        ignore_status: bool,
    },
    /// A regular expression without variables is found in a text: faster than a pattern that is
    /// compiled each time.
    Regex {
        /// Which text.
        field: Field,
        /// The expression.
        regex: Regex,
        /// The opposite must hold.
        not: bool,
    },
    /// It took no longer than this.
    Duration(Duration),
    /// So many bytes.
    Size {
        /// Of which text; `None` is all of the answer, head and body, as it came.
        field: Option<Field>,
        /// How the length is compared with `bytes`.
        order: SizeOrder,
        /// Bytes.
        bytes: u64,
    },
    /// The body is JSON and this path has something.
    Json {
        /// The path.
        path: JsonPath,
        /// What it must have; `None` is anything.
        expected: Option<Text>,
        /// `expected` is a regular expression.
        regex: bool,
        /// The value must be `null`.
        null: bool,
        /// The opposite must hold.
        not: bool,
    },
}

/// How sizes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOrder {
    /// `=`
    Equal,
    /// `≠`
    NotEqual,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `≥`
    GreaterOrEqual,
    /// `≤`
    LessOrEqual,
}

/// Which text of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The body, decoded.
    Body,
    /// The status as text.
    Status,
    /// The reason phrase.
    Reason,
    /// Status line and fields of the answer, a line each.
    Headers,
    /// The URL of the request (the last one, after redirects).
    Url,
    /// Fields of the request, a line each.
    RequestHeaders,
    /// The body of the request.
    RequestBody,
}

/// How texts are compared (JMeter's words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The pattern is in there, as it is.
    Substring,
    /// It is the pattern, as it is.
    Equals,
    /// The pattern, a regular expression, is found.
    Contains,
    /// The pattern, a regular expression, is all of it.
    Matches,
}

/// An answer, as checks and extractors see it.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Status.
    pub status: u16,
    /// Status line and fields as they came.
    pub head: &'a [u8],
    /// The fields, taken apart.
    pub headers: &'a Headers,
    /// The body, decoded.
    pub body: &'a [u8],
    /// Bytes of the answer, as they came.
    pub bytes: u64,
    /// The URL asked for.
    pub url: &'a str,
    /// Head of the request, as it was sent.
    pub request_head: &'a [u8],
    /// Body of the request.
    pub request_body: &'a [u8],
    /// From the request to the end of the answer.
    pub elapsed: Duration,
}

impl Check {
    /// Checks an answer; gives why it fails, if it does.
    pub fn verify(&self, reply: &Reply<'_>, scope: &mut Scope<'_>) -> Option<String> {
        let found = match &self.kind {
            CheckKind::Status(set) => {
                let wrong = !set.has(reply.status);
                wrong.then(|| format!("the status is {}", reply.status))
            }
            CheckKind::Text { field, comparison, patterns, any, not, .. } => {
                let texts = Patterns { comparison: *comparison, patterns, any: *any, not: *not };
                texts.verify(&reply.text(*field), *field, scope)
            }
            CheckKind::Regex { field, regex, not } => {
                let found = regex.is_match(&reply.text(*field));
                let has = if *not { "matches" } else { "does not match" };
                (found == *not).then(|| format!("the {} {has} {regex}", field.name()))
            }
            CheckKind::Duration(limit) => {
                let late = reply.elapsed > *limit;
                late.then(|| format!("it took {:?}, more than {limit:?}", reply.elapsed))
            }
            CheckKind::Size { field, order, bytes } => {
                let size = field.map_or(reply.bytes, |field| reply.text(field).len() as u64);
                let wrong = !order.holds(size, *bytes);
                wrong.then(|| format!("{size} bytes instead of {} {bytes}", order.sign()))
            }
            CheckKind::Json { path, expected, regex, null, not } => {
                let json = Json { path, expected: expected.as_ref(), regex: *regex, null: *null };
                match (json.verify(reply.body, scope), *not) {
                    (Some(_), true) | (None, false) => None,
                    (Some(why), false) => Some(why),
                    (None, true) => Some(format!("the body has {path}")),
                }
            }
        }?;
        Some(self.message.as_ref().map_or(found, |message| message.render(scope).into_owned()))
    }

    /// Whether it looks at the body of the answer.
    pub fn needs_body(&self) -> bool {
        match &self.kind {
            CheckKind::Text { field, .. } | CheckKind::Regex { field, .. } => *field == Field::Body,
            CheckKind::Size { field, .. } => *field == Some(Field::Body),
            CheckKind::Json { .. } => true,
            CheckKind::Status(_) | CheckKind::Duration(_) => false,
        }
    }
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Status => "status",
            Self::Reason => "reason",
            Self::Headers => "head",
            Self::Url => "URL",
            Self::RequestHeaders => "request's head",
            Self::RequestBody => "request's body",
        }
    }
}

impl SizeOrder {
    fn holds(self, size: u64, bytes: u64) -> bool {
        match self {
            Self::Equal => size == bytes,
            Self::NotEqual => size != bytes,
            Self::Greater => size > bytes,
            Self::Less => size < bytes,
            Self::GreaterOrEqual => size >= bytes,
            Self::LessOrEqual => size <= bytes,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "≠",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => "≥",
            Self::LessOrEqual => "≤",
        }
    }
}

impl<'a> Reply<'a> {
    /// One of its texts.
    pub fn text(&self, field: Field) -> Cow<'a, [u8]> {
        match field {
            Field::Body => Cow::Borrowed(self.body),
            Field::Status => Cow::Owned(self.status.to_string().into_bytes()),
            Field::Reason => Cow::Borrowed(self.reason()),
            Field::Headers => Cow::Borrowed(self.head),
            Field::Url => Cow::Borrowed(self.url.as_bytes()),
            Field::RequestHeaders => {
                // As far as JMeter shows it: without the request line.
                let line = memchr::memchr(b'\n', self.request_head).map_or(0, |at| at + 1);
                Cow::Borrowed(&self.request_head[line..])
            }
            Field::RequestBody => Cow::Borrowed(self.request_body),
        }
    }

    /// The reason phrase, as it came.
    pub fn reason(&self) -> &'a [u8] {
        let line = self.head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default()
    }
}

/// [`CheckKind::Text`] without its field.
struct Patterns<'a> {
    comparison: Comparison,
    patterns: &'a [Text],
    any: bool,
    not: bool,
}

impl Patterns<'_> {
    fn verify(&self, text: &[u8], field: Field, scope: &mut Scope<'_>) -> Option<String> {
        let mut first_wrong = None;
        for pattern in self.patterns {
            let pattern = pattern.render(scope);
            let holds = match self.holds(text, &pattern) {
                Ok(holds) => holds != self.not,
                Err(why) => return Some(why),
            };
            match (holds, self.any) {
                (true, true) => return None,
                (true, false) => {}
                (false, _) => {
                    first_wrong.get_or_insert_with(|| self.why(field, &pattern));
                    if !self.any {
                        return first_wrong;
                    }
                }
            }
        }
        first_wrong
    }

    fn holds(&self, text: &[u8], pattern: &str) -> Result<bool, String> {
        Ok(match self.comparison {
            Comparison::Substring => memchr::memmem::find(text, pattern.as_bytes()).is_some(),
            Comparison::Equals => text == pattern.as_bytes(),
            Comparison::Contains => regex_of(pattern, false)?.is_match(text),
            Comparison::Matches => regex_of(pattern, true)?.is_match(text),
        })
    }

    fn why(&self, field: Field, pattern: &str) -> String {
        let verb = match (self.comparison, self.not) {
            (Comparison::Substring, false) => "does not contain",
            (Comparison::Substring, true) => "contains",
            (Comparison::Equals, false) => "is not",
            (Comparison::Equals, true) => "is",
            (Comparison::Contains | Comparison::Matches, false) => "does not match",
            (Comparison::Contains | Comparison::Matches, true) => "matches",
        };
        let short: String = pattern.chars().take(200).collect();
        format!("the {} {verb} {short:?}", field.name())
    }
}

/// [`CheckKind::Json`] without its `not`.
struct Json<'a> {
    path: &'a JsonPath,
    expected: Option<&'a Text>,
    regex: bool,
    null: bool,
}

impl Json<'_> {
    fn verify(&self, body: &[u8], scope: &mut Scope<'_>) -> Option<String> {
        let Ok(value) = serde_json::from_slice(body) else {
            return Some("the body is no JSON".to_owned());
        };
        let found = self.path.query(&value).all();
        let Some(first) = found.first() else {
            return Some(format!("the body has no {}", self.path));
        };
        if self.null {
            let none = found.iter().any(|value| value.is_null());
            return (!none).then(|| format!("{} is not null", self.path));
        }
        let expected = self.expected?.render(scope);
        let holds = |value: &&serde_json::Value| {
            let text = json_text(value);
            if self.regex {
                regex_of(&expected, true).is_ok_and(|regex| regex.is_match(text.as_bytes()))
            } else {
                text == expected
            }
        };
        let holds = found.iter().any(holds);
        (!holds).then(|| format!("{} is {} instead of {expected}", self.path, json_text(first)))
    }
}

/// A JSON value as text: a string without quotes, anything else as JSON.
pub(super) fn json_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Regular expressions kept compiled by each thread.
const KEPT_EXPRESSIONS: usize = 256;

thread_local! {
    static EXPRESSIONS: RefCell<HashMap<(String, bool), Regex>> = RefCell::default();
}

/// The regular expression, compiled once a thread; `whole` must match all of a text.
fn regex_of(pattern: &str, whole: bool) -> Result<Regex, String> {
    EXPRESSIONS.with_borrow_mut(|known| {
        let key = (pattern.to_owned(), whole);
        if let Some(regex) = known.get(&key) {
            return Ok(regex.clone());
        }
        let text = if whole { format!(r"\A(?:{pattern})\z") } else { pattern.to_owned() };
        let regex = Regex::new(&text)
            .map_err(|error| format!("{pattern:?} is no regular expression: {error}"))?;
        if known.len() >= KEPT_EXPRESSIONS {
            known.clear();
        }
        known.insert(key, regex.clone());
        Ok(regex)
    })
}

#[cfg(test)]
mod tests;
