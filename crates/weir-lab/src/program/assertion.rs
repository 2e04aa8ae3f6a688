//! JMeter's assertions, with its messages.

use super::post_processor::{Expression, Source};
use super::{Comparison, Field, Response, Scope, SizeOperator, Text};
use crate::jsonpath::{self, JsonPath};
use crate::markup::{Holds, XPath};
use crate::pattern::Pattern;
use md5::{Digest, Md5};
use serde_json::Value;
use std::borrow::Cow;

/// Characters of equal text that a message about a difference shows.
const EQUAL_PART: usize = 100;

/// An assertion of JMeter.
#[derive(Clone, Debug)]
pub enum Assertion {
    /// A text contains, equals or matches patterns.
    Response(ResponseAssertion),
    /// A limit of the elapsed time in milliseconds.
    Duration(Text),
    /// The size of a text; `None` is the entire response as received.
    Size {
        /// The text.
        source: Option<Source>,
        /// Comparison with `bytes`.
        order: SizeOperator,
        /// Bytes.
        bytes: Text,
    },
    /// A value in JSON.
    Json(JsonAssertion),
    /// The body is XML.
    Xml,
    /// A node exists in XML, or a condition holds.
    XPath {
        /// The text.
        source: Source,
        /// The expression.
        query: XPath,
        /// The assertion holds without a node.
        not: bool,
    },
    /// MD5 of the body in hexadecimal.
    Md5(Text),
}

/// Assertions about a text.
#[derive(Clone, Debug)]
pub struct ResponseAssertion {
    /// The text.
    pub source: Source,
    /// The comparison.
    pub comparison: Comparison,
    /// The patterns.
    pub patterns: Vec<Text>,
    /// One match is sufficient; otherwise all must match.
    pub any: bool,
    /// Negate each pattern.
    pub not: bool,
    /// Ignore the status.
    pub ignore_status: bool,
    /// Message of a failure; JMeter's own if empty.
    pub message: Text,
}

/// Assertions about a value in JSON.
#[derive(Clone, Debug)]
pub struct JsonAssertion {
    /// The path.
    pub path: Expression<JsonPath>,
    /// The expected value; `None` is any value.
    pub expected: Option<Text>,
    /// `expected` is a regular expression.
    pub regex: bool,
    /// The value must be `null`.
    pub null: bool,
    /// Negate the assertion.
    pub not: bool,
}

impl Assertion {
    /// Whether the body of the response is needed.
    pub(super) fn needs_body(&self) -> bool {
        match self {
            Self::Response(assertion) => assertion.source.needs_body(),
            Self::Size { source, .. } => source.as_ref().is_some_and(Source::needs_body),
            Self::XPath { source, .. } => source.needs_body(),
            Self::Json(_) | Self::Xml | Self::Md5(_) => true,
            Self::Duration(_) => false,
        }
    }

    /// Whether the assertion replaces the check of the status.
    pub(crate) fn ignores_status(&self) -> bool {
        matches!(self, Self::Response(assertion) if assertion.ignore_status)
    }

    /// Whether the assertion is one of the size of the body.
    pub(crate) fn is_size_of_body(&self) -> bool {
        matches!(self, Self::Size { source: Some(Source::Field(Field::Body)), .. })
    }

    /// Checks a size in bytes. Returns the message of a failure.
    pub(crate) fn verify_size(&self, size: u64, scope: &mut Scope<'_>) -> Option<String> {
        let Self::Size { order, bytes, .. } = self else { return None };
        let bytes = u64::try_from(bytes.integer(scope)).unwrap_or(0);
        let words = order.words();
        (!order.holds(size, bytes)).then(|| {
            format!("The result was the wrong size: It was {size} bytes, but should {words} {bytes} bytes.")
        })
    }

    /// Returns the message of a failure.
    pub(super) fn verify(&self, reply: &Response<'_>, scope: &mut Scope<'_>) -> Option<String> {
        match self {
            Self::Response(assertion) => assertion.verify(reply, scope),
            Self::Duration(limit) => {
                let (limit, millis) = (limit.integer(scope), reply.elapsed.as_millis());
                (limit > 0 && millis > limit.unsigned_abs().into()).then(|| {
                    format!(
                        "The operation lasted too long: It took {millis} milliseconds, but should \
                         not have lasted longer than {limit} milliseconds."
                    )
                })
            }
            Self::Size { source, .. } => {
                let size = match source {
                    None => reply.bytes,
                    Some(Source::Field(Field::Body)) => reply.body.len() as u64,
                    Some(source) => source.text(reply, scope).map_or(0, |text| text.len() as u64),
                };
                self.verify_size(size, scope)
            }
            Self::Json(assertion) => assertion.verify(&reply.string(Field::Body), scope),
            Self::Xml => {
                let text = reply.string(Field::Body);
                if text.is_empty() {
                    return Some("Response was null".to_owned());
                }
                crate::markup::check_xml(&text).err()
            }
            Self::XPath { source, query, not } => {
                let Some(text) = source.text(reply, scope).filter(|text| !text.is_empty()) else {
                    return Some("Response was null".to_owned());
                };
                match query.holds(&text) {
                    Err(error) => Some(error),
                    Ok(found) if found.holds() != *not => None,
                    Ok(found) => Some(match (found, not) {
                        (Holds::Nodes(_), true) => {
                            "Specified XPath was found... Turn off negate if \
                                                     this is not desired"
                                .to_owned()
                        }
                        (Holds::Nodes(_), false) => format!("No Nodes Matched {}", query.source()),
                        (Holds::Value(_), true) => format!("Nodes Matched for {}", query.source()),
                        (Holds::Value(_), false) => {
                            format!("No Nodes Matched for {}", query.source())
                        }
                    }),
                }
            }
            Self::Md5(_) if reply.body.is_empty() => Some("Response was null".to_owned()),
            Self::Md5(expected) => {
                let digest = Md5::digest(reply.body);
                let actual: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let expected = expected.render(scope);
                (!expected.eq_ignore_ascii_case(&actual)).then(|| {
                    format!(
                        "Error asserting MD5 sum : got {actual} but should have been {expected}"
                    )
                })
            }
        }
    }
}

impl ResponseAssertion {
    fn verify(&self, reply: &Response<'_>, scope: &mut Scope<'_>) -> Option<String> {
        let text = self.source.text(reply, scope).unwrap_or_default();
        if text.is_empty() {
            // As in JMeter: an empty text has nothing, and is equal to nothing.
            return (!self.not).then(|| "Response was null".to_owned());
        }
        let mut failures = Vec::new();
        for pattern in &self.patterns {
            let pattern = pattern.render(scope);
            let found = match self.comparison {
                Comparison::Substring => Ok(text.contains(&*pattern)),
                Comparison::Equals => Ok(text == pattern),
                Comparison::Contains => {
                    Pattern::cached(&pattern).and_then(|p| p.is_found(text.as_bytes()))
                }
                Comparison::Matches => {
                    Pattern::cached(&pattern).and_then(|p| p.matches(text.as_bytes()))
                }
            };
            let passes = match found {
                Ok(found) => found != self.not,
                Err(reason) => return Some(format!("Bad test configuration {reason}")),
            };
            match (passes, self.any) {
                (true, true) => return None,
                (true, false) => {}
                (false, any) => {
                    failures.push(self.failure(&pattern, &text));
                    if !any {
                        break;
                    }
                }
            }
        }
        if failures.is_empty() {
            return None;
        }
        let message = self.message.render(scope);
        Some(match (message.is_empty(), self.any) {
            (false, _) => message.into_owned(),
            (true, true) => failures.join("\t") + "\t",
            (true, false) => failures.concat(),
        })
    }

    fn failure(&self, pattern: &str, text: &str) -> String {
        let name = match &self.source {
            Source::Variable(name) => Cow::Owned(format!("variable({name})")),
            Source::Field(field) => Cow::Borrowed(match field {
                Field::Body | Field::UnescapedBody => "text",
                Field::Status => "code",
                Field::Reason => "message",
                Field::Headers | Field::HeaderBytes => "headers",
                Field::Url => "URL",
                Field::RequestHeaders => "request headers",
                Field::RequestBody | Field::RequestData => "request data",
            }),
        };
        // JMeter has no words for one of several patterns.
        let verb = match self.comparison {
            _ if self.any => "something using",
            Comparison::Substring | Comparison::Contains => "contain",
            Comparison::Equals => "equal",
            Comparison::Matches => "match",
        };
        let to = match (self.any, self.not) {
            (true, _) => "",
            (false, true) => "not to ",
            (false, false) => "to ",
        };
        let pattern = match self.comparison {
            Comparison::Equals => Cow::Owned(difference(text, pattern)),
            _ => Cow::Borrowed(pattern),
        };
        format!("Test failed: {name} expected {to}{verb} /{pattern}/")
    }
}

/// Where two texts differ, in JMeter's format.
fn difference(received: &str, expected: &str) -> String {
    let (received, expected): (Vec<char>, Vec<char>) =
        (received.chars().collect(), expected.chars().collect());
    let both = received.iter().zip(&expected);
    let first = both.take_while(|(left, right)| left == right).count();
    let (mut last_received, mut last_expected) = (received.len(), expected.len());
    while last_received > first + 1
        && last_expected > first + 1
        && received[last_received - 1] == expected[last_expected - 1]
    {
        last_received -= 1;
        last_expected -= 1;
    }
    let shortened = |part: &[char], keep_end: bool| -> String {
        let text: String = part.iter().collect();
        match part.len() > EQUAL_PART {
            false => text,
            true if keep_end => {
                let end: String = part[part.len() - EQUAL_PART..].iter().collect();
                format!("...{end}")
            }
            true => {
                let start: String = part[..EQUAL_PART].iter().collect();
                format!("{start}...")
            }
        }
    };
    let start = shortened(&received[..first], true);
    let end = shortened(&received[last_received..], false);
    let mut left = shortened(&received[first..last_received.max(first)], false);
    let mut right = shortened(&expected[first..last_expected.max(first)], false);
    let (left_length, right_length) = (left.chars().count(), right.chars().count());
    let pad = " ".repeat(left_length.abs_diff(right_length));
    if left_length > right_length { &mut right } else { &mut left }.push_str(&pad);
    format!(
        "\n\n****** received  : {start}[[[{left}]]]{end}\n\n****** comparison: \
         {start}[[[{right}]]]{end}\n\n"
    )
}

impl JsonAssertion {
    fn verify(&self, body: &str, scope: &mut Scope<'_>) -> Option<String> {
        if body.is_empty() {
            return Some("Response was null".to_owned());
        }
        let path = match self.path.get(scope, JsonPath::parse) {
            Ok(path) => path,
            Err(reason) => return (!self.not).then_some(reason),
        };
        let expected = self.expected.as_ref().map(|expected| expected.render(scope).into_owned());
        match (self.failure(&path, body, expected.as_deref()), self.not) {
            (failure, false) => failure,
            (Some(_), true) => None,
            (None, true) => Some(match &expected {
                None if !self.null => format!("Failed that JSONPath not exists: {}", path.source()),
                None => format!("Failed that JSONPath {} not matches null", path.source()),
                Some(expected) => {
                    format!("Failed that JSONPath {} not matches {expected}", path.source())
                }
            }),
        }
    }

    /// Why the assertion fails, without [`Self::not`].
    fn failure(&self, path: &JsonPath, body: &str, expected: Option<&str>) -> Option<String> {
        let value: Value = match serde_json::from_str(body) {
            Ok(value) => value,
            Err(error) => return Some(format!("the text is not JSON: {error}")),
        };
        let mut found = match path.find(&value) {
            Ok(found) => found,
            Err(reason) => return Some(reason),
        };
        let found: Cow<'_, Value> = match (path.is_definite(), found.is_empty()) {
            (true, true) => {
                return Some(format!("No results for path: {}", path.normalized()));
            }
            (true, false) => found.swap_remove(0),
            (false, _) => {
                let items = found.into_iter().map(Cow::into_owned).collect();
                Cow::Owned(Value::Array(items))
            }
        };
        if expected.is_none() && !self.null {
            let empty = found.as_array().is_some_and(Vec::is_empty) && !path.is_definite();
            return empty.then(|| {
                format!(
                    "JSONPath '{}' is indefinite and the extracted Value is an empty Array. Please \
                     use an assertion value, to be sure to get a correct result. Expected value was \
                     ''",
                    path.source()
                )
            });
        }
        let is_expected = |value: &Value| match expected {
            None => value.is_null(),
            Some(expected) => self.equals(value, expected),
        };
        let matches = match &*found {
            Value::Array(items) => {
                items.is_empty() && expected == Some("[]")
                    || items.iter().any(is_expected)
                    || expected.is_some() && is_expected(&found)
            }
            found => is_expected(found),
        };
        if matches {
            return None;
        }
        let shown = object_text(&found);
        let value = format!("Value in json path '{}' expected to", path.source());
        Some(match expected {
            None => format!("{value} be null, but found '{shown}'"),
            Some(expected) if self.regex => {
                format!("{value} match regexp '{expected}', but it did not match: '{shown}'")
            }
            Some(expected) => format!("{value} be '{expected}', but found '{shown}'"),
        })
    }

    fn equals(&self, value: &Value, expected: &str) -> bool {
        if self.regex {
            let pattern = Pattern::cached(expected);
            let text = object_text(value);
            return pattern.and_then(|p| p.matches(text.as_bytes())).unwrap_or(false);
        }
        // The expected text is JSON; what is none is a string.
        let parsed = serde_json::from_str(expected);
        parsed.unwrap_or_else(|_| Value::String(expected.trim().to_owned())) == *value
    }
}

/// A value as text: with up to 12 decimals, as JMeter formats numbers.
fn object_text(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:.12}", number.as_f64().unwrap_or_default());
            let text = text.trim_end_matches('0');
            if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
        }
        other => jsonpath::text(other),
    }
}

#[cfg(test)]
mod tests;
