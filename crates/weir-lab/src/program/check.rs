//! Checks of responses.

mod document;
mod statuses;

pub use document::CEL_VARIABLES;
pub use statuses::StatusSet;

use super::assertion::Assertion;
use super::{Scope, Text};
use crate::escape;
use crate::grpc::{Status, Statuses};
use regex::bytes::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use weir_expr::Expr;
use weir_wire::Headers;

/// A check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Message of a failure; by default the expected and the actual value.
    pub message: Option<Text>,
    /// Kind of check.
    pub kind: CheckKind,
}

/// Kind of check.
#[derive(Clone, Debug)]
pub enum CheckKind {
    /// The status is one of these; replaces [`super::Request::success`].
    Status(StatusSet),
    /// The status of a gRPC call is one of these; otherwise only `OK` is a success.
    Grpc(Statuses),
    /// A text contains, equals or matches patterns.
    Text(TextCheck),
    /// A text matches a regular expression without variables, compiled once.
    Regex {
        /// The text.
        field: Field,
        /// The expression.
        regex: Regex,
        /// Negate the check.
        not: bool,
    },
    /// The response time is at most this limit.
    Duration(Duration),
    /// The size.
    Size {
        /// The text; `None` is the entire response as received, with its head.
        field: Option<Field>,
        /// Comparison of the length with `bytes`.
        order: SizeOperator,
        /// Bytes.
        bytes: u64,
    },
    /// The body is JSON, and a path has a value.
    Json(JsonCheck),
    /// A header field has a value.
    Header {
        /// Name of the field.
        name: String,
        /// Expected value.
        value: Text,
        /// Negate the check.
        not: bool,
    },
    /// A CEL expression of [`CEL_VARIABLES`] is true.
    Cel {
        /// The expression.
        expression: Expr,
        /// Negate the check.
        not: bool,
    },
    /// The body is JSON that conforms to a JSON Schema.
    Schema {
        /// The schema.
        schema: Arc<jsonschema::Validator>,
        /// Negate the check.
        not: bool,
    },
    /// An assertion of a JMeter plan.
    Assertion(Box<Assertion>),
}

/// A text contains, equals or matches patterns.
#[derive(Clone, Debug)]
pub struct TextCheck {
    /// The text.
    pub field: Field,
    /// The comparison.
    pub comparison: Comparison,
    /// The patterns.
    pub patterns: Vec<Text>,
    /// One match is sufficient; otherwise all must match.
    pub any: bool,
    /// Negate each pattern.
    pub not: bool,
}

/// The body is JSON, and a path has a value.
#[derive(Clone, Debug)]
pub struct JsonCheck {
    /// The path.
    pub path: JsonPath,
    /// The expected value; `None` is any value.
    pub expected: Option<Text>,
    /// Negate the check.
    pub not: bool,
}

/// Comparison of sizes.
#[derive(Clone, Copy, Debug)]
pub struct SizeOperator {
    /// For messages.
    sign: &'static str,
    /// For messages of JMeter.
    words: &'static str,
    compare: fn(&u64, &u64) -> bool,
}

impl SizeOperator {
    /// Equal.
    pub const EQUAL: Self = Self { sign: "=", words: "have been equal to", compare: u64::eq };
    /// Not equal.
    pub const NOT_EQUAL: Self =
        Self { sign: "≠", words: "have not been equal to", compare: u64::ne };
    /// At least.
    pub const AT_LEAST: Self =
        Self { sign: "≥", words: "have been greater or equal to", compare: u64::ge };
    /// At most.
    pub const AT_MOST: Self =
        Self { sign: "≤", words: "have been less than or equal to", compare: u64::le };
    /// All, in the order of their numbers in JMeter, which start at 1.
    pub const ALL: [Self; 6] = [
        Self::EQUAL,
        Self::NOT_EQUAL,
        Self { sign: ">", words: "have been greater than", compare: u64::gt },
        Self { sign: "<", words: "have been less than", compare: u64::lt },
        Self::AT_LEAST,
        Self::AT_MOST,
    ];
}

impl SizeOperator {
    /// Whether a size compares to a number of bytes as wanted.
    pub(super) fn holds(self, size: u64, bytes: u64) -> bool {
        (self.compare)(&size, &bytes)
    }

    /// The comparison in words.
    pub(super) fn words(self) -> &'static str {
        self.words
    }
}

/// A text of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The body, decoded.
    Body,
    /// The status as text.
    Status,
    /// The reason phrase.
    Reason,
    /// Status line and fields of the response, one per line.
    Headers,
    /// The URL of the request (of the last one, after redirects).
    Url,
    /// Fields of the request, one per line.
    RequestHeaders,
    /// The body of the request.
    RequestBody,
    /// The head of the response as received.
    HeaderBytes,
    /// The body without the escapes of HTML.
    UnescapedBody,
    /// Method, URL, body and cookies of the request, as JMeter describes a request. Without a request it is
    /// the text of the sampler.
    RequestData,
}

/// Comparison of texts (JMeter's terms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The text contains the pattern.
    Substring,
    /// The text equals the pattern.
    Equals,
    /// The regular expression is found in the text.
    Contains,
    /// The regular expression matches the entire text.
    Matches,
}

/// A response, as seen by checks and extractors.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Status.
    pub status: u16,
    /// Status line and fields, as received.
    pub head: &'a [u8],
    /// The message, if it is not the one of the status line.
    pub reason: Option<&'a str>,
    /// Parsed fields.
    pub headers: &'a Headers,
    /// The body, decoded.
    pub body: &'a [u8],
    /// Bytes of the response, as received.
    pub bytes: u64,
    /// The URL.
    pub url: &'a str,
    /// Head of the request, as sent.
    pub request_head: &'a [u8],
    /// Body of the request.
    pub request_body: &'a [u8],
    /// Time from the request to the end of the response.
    pub elapsed: Duration,
}

#[cfg(test)]
impl<'a> Response<'a> {
    /// A response of which only the fields and the body matter.
    pub(super) fn of_body(headers: &'a Headers, body: &'a str) -> Self {
        Self {
            status: 200,
            head: b"",
            reason: None,
            headers,
            body: body.as_bytes(),
            bytes: 0,
            url: "",
            request_head: b"",
            request_body: b"",
            elapsed: Duration::ZERO,
        }
    }
}

impl From<CheckKind> for Check {
    fn from(kind: CheckKind) -> Self {
        Self { message: None, kind }
    }
}

impl Check {
    /// Checks a response. Returns the message of a failure.
    pub fn verify(&self, reply: &Response<'_>, scope: &mut Scope<'_>) -> Option<String> {
        let found = match &self.kind {
            CheckKind::Status(set) => {
                let wrong = !set.contains(reply.status);
                wrong.then(|| format!("the status is {} instead of {set}", reply.status))
            }
            CheckKind::Grpc(set) => match reply.grpc_status() {
                Some(status) if set.contains(status) => None,
                Some(status) => Some(format!("the status is {} instead of {set}", status.name())),
                None => Some("the response has no grpc-status".to_owned()),
            },
            CheckKind::Text(check) => check.verify(&reply.text(check.field), scope),
            CheckKind::Regex { field, regex, not } => {
                let found = regex.is_match(&reply.text(*field));
                let has = if *not { "matches" } else { "does not match" };
                (found == *not).then(|| format!("the {} {has} {regex}", field.name()))
            }
            CheckKind::Duration(limit) => {
                let late = reply.elapsed > *limit;
                late.then(|| format!("the response took {:?}, more than {limit:?}", reply.elapsed))
            }
            CheckKind::Size { field, order, bytes } => {
                let size = field.map_or(reply.bytes, |field| reply.text(field).len() as u64);
                let wrong = !(order.compare)(&size, bytes);
                wrong.then(|| format!("{size} bytes instead of {} {bytes}", order.sign))
            }
            CheckKind::Json(check) => match (check.verify(reply.body, scope), check.not) {
                (why, false) => why,
                // Without JSON nothing is known of the path.
                (Some(why), true) if !document::is_json(reply.body) => Some(why),
                (Some(_), true) => None,
                (None, true) => Some(match &check.expected {
                    Some(expected) => format!("{} is {}", check.path, expected.render(scope)),
                    None => format!("the body has {}", check.path),
                }),
            },
            CheckKind::Header { name, value, not } => {
                let expected = value.render(scope);
                let mut values = reply.headers.get_all(name).peekable();
                let first = values.peek().map(|value| shortened(&String::from_utf8_lossy(value)));
                let has = values.any(|value| value == expected.as_bytes());
                (has == *not).then(|| match first {
                    _ if *not => format!("the header {name} is {:?}", shortened(&expected)),
                    Some(first) => {
                        format!("the header {name} is {first:?} instead of {expected:?}")
                    }
                    None => format!("the header {name} is missing instead of {expected:?}"),
                })
            }
            CheckKind::Cel { expression, not } => document::cel(expression, *not, reply),
            CheckKind::Schema { schema, not } => {
                match (document::conforms(schema, reply.body), *not) {
                    (why, false) => why,
                    (Some(why), true) if !document::is_json(reply.body) => Some(why),
                    (Some(_), true) => None,
                    (None, true) => Some("the body conforms to the schema".to_owned()),
                }
            }
            CheckKind::Assertion(assertion) => assertion.verify(reply, scope),
        }?;
        Some(self.message.as_ref().map_or(found, |message| message.render(scope).into_owned()))
    }

    /// Whether the body of the response is needed.
    pub fn needs_body(&self) -> bool {
        match &self.kind {
            CheckKind::Text(TextCheck { field, .. }) | CheckKind::Regex { field, .. } => {
                *field == Field::Body
            }
            CheckKind::Size { field, .. } => *field == Some(Field::Body),
            CheckKind::Json(_) | CheckKind::Schema { .. } => true,
            CheckKind::Cel { expression, .. } => {
                ["body", "text", "size"].iter().any(|name| expression.refers_to(name))
            }
            CheckKind::Assertion(assertion) => assertion.needs_body(),
            CheckKind::Status(_)
            | CheckKind::Grpc(_)
            | CheckKind::Duration(_)
            | CheckKind::Header { .. } => false,
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
            Self::HeaderBytes => "head",
            Self::UnescapedBody => "unescaped body",
            Self::RequestData => "request",
        }
    }
}

impl<'a> Response<'a> {
    /// A text of the response.
    pub fn text(&self, field: Field) -> Cow<'a, [u8]> {
        match field {
            Field::Body => Cow::Borrowed(self.body),
            Field::Status => Cow::Owned(self.status.to_string().into_bytes()),
            Field::Reason => {
                Cow::Borrowed(self.reason.map_or_else(|| reason_of(self.head), str::as_bytes))
            }
            Field::Headers | Field::HeaderBytes => Cow::Borrowed(self.head),
            Field::Url => Cow::Borrowed(self.url.as_bytes()),
            Field::RequestHeaders => {
                // As in JMeter: without the request line.
                let line = memchr::memchr(b'\n', self.request_head).map_or(0, |at| at + 1);
                Cow::Borrowed(&self.request_head[line..])
            }
            Field::RequestBody => Cow::Borrowed(self.request_body),
            Field::UnescapedBody | Field::RequestData => match self.string(field) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        }
    }

    /// A text of the response as JMeter has it: the body in its charset, lines of fields without
    /// carriage returns and without the empty line behind them.
    pub fn string(&self, field: Field) -> Cow<'a, str> {
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
            let end = if text.ends_with('\n') { "\n" } else { "" };
            Cow::Owned(text.trim_end_matches('\n').to_owned() + end)
        };
        match field {
            Field::Body => self.decoded(),
            Field::UnescapedBody => Cow::Owned(escape::unescape_html(&self.decoded())),
            Field::Headers => lines(self.head),
            Field::RequestHeaders => {
                let text = lines(self.request_head);
                let fields = text.split_inclusive('\n').skip(1);
                let is_cookie = |line: &&str| {
                    line.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("cookie:"))
                };
                Cow::Owned(fields.filter(|line| !is_cookie(line)).collect())
            }
            Field::RequestData => Cow::Owned(self.request_data()),
            Field::Status
            | Field::Reason
            | Field::Url
            | Field::RequestBody
            | Field::HeaderBytes => match self.text(field) {
                Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            },
        }
    }

    /// The status of a gRPC call.
    fn grpc_status(&self) -> Option<Status> {
        self.headers.get("grpc-status").and_then(Status::of_field)
    }

    /// The body in the charset of its content type.
    fn decoded(&self) -> Cow<'a, str> {
        let content_type = self.headers.get("content-type").unwrap_or_default();
        let content_type = String::from_utf8_lossy(content_type).to_ascii_lowercase();
        let charset = content_type.split_once("charset=").map(|(_, charset)| {
            charset.split(';').next().unwrap_or_default().trim_matches(['"', ' ', '\''])
        });
        let charset = charset.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
        charset.unwrap_or(encoding_rs::UTF_8).decode_without_bom_handling(self.body).0
    }

    fn request_data(&self) -> String {
        let body = String::from_utf8_lossy(self.request_body);
        if self.request_head.is_empty() {
            // A sampler without a request has a text of its own, or none.
            return body.into_owned();
        }
        let head = String::from_utf8_lossy(self.request_head);
        let method = head.split(' ').next().unwrap_or_default();
        let mut text = format!("{method} {}\n", self.url);
        if !matches!(method, "HEAD" | "OPTIONS" | "TRACE") {
            text.push_str(&format!("\n{method} data:\n{body}\n"));
        }
        let cookie = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("cookie").then(|| value.trim())
        });
        match cookie {
            Some(cookie) => text.push_str(&format!("\nCookie Data:\n{cookie}")),
            None => text.push_str("\n[no cookies]"),
        }
        text + "\n"
    }
}

/// The reason phrase in a head, as received.
pub(crate) fn reason_of(head: &[u8]) -> &[u8] {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default()
}

impl TextCheck {
    /// A text that matches all of these patterns.
    pub fn new(field: Field, comparison: Comparison, patterns: Vec<Text>) -> Self {
        Self { field, comparison, patterns, any: false, not: false }
    }

    /// Returns the message of the first failed pattern, if the check fails.
    fn verify(&self, text: &[u8], scope: &mut Scope<'_>) -> Option<String> {
        let mut first_wrong = None;
        for pattern in &self.patterns {
            let pattern = pattern.render(scope);
            let matches = match self.matches(text, &pattern) {
                Ok(matches) => matches != self.not,
                Err(why) => return Some(why),
            };
            let wrong = (!matches).then(|| self.message(&pattern));
            if matches == self.any {
                return wrong;
            }
            first_wrong = first_wrong.or(wrong);
        }
        first_wrong
    }

    fn matches(&self, text: &[u8], pattern: &str) -> Result<bool, String> {
        Ok(match self.comparison {
            Comparison::Substring => memchr::memmem::find(text, pattern.as_bytes()).is_some(),
            Comparison::Equals => text == pattern.as_bytes(),
            Comparison::Contains => regex_of(pattern, false)?.is_match(text),
            Comparison::Matches => regex_of(pattern, true)?.is_match(text),
        })
    }

    fn message(&self, pattern: &str) -> String {
        let verb = match (self.comparison, self.not) {
            (Comparison::Substring, false) => "does not contain",
            (Comparison::Substring, true) => "contains",
            (Comparison::Equals, false) => "is not",
            (Comparison::Equals, true) => "is",
            (Comparison::Contains | Comparison::Matches, false) => "does not match",
            (Comparison::Contains | Comparison::Matches, true) => "matches",
        };
        format!("the {} {verb} {:?}", self.field.name(), shortened(pattern))
    }
}

impl JsonCheck {
    /// Returns why the check fails, without [`Self::not`].
    fn verify(&self, body: &[u8], scope: &mut Scope<'_>) -> Option<String> {
        let Ok(value) = serde_json::from_slice(body) else {
            return Some("the body is not JSON".to_owned());
        };
        let found = self.path.query(&value).all();
        let Some(first) = found.first() else {
            return Some(format!("the body has no {}", self.path));
        };
        let expected = self.expected.as_ref()?.render(scope);
        let structure =
            expected.starts_with(['{', '[']).then(|| serde_json::from_str(&expected).ok());
        let structure: Option<Value> = structure.flatten();
        let is_expected = |value: &&Value| match &structure {
            Some(structure) if !value.is_string() => *value == structure,
            _ => json_text(value) == expected,
        };
        let is_expected_value = found.iter().any(is_expected);
        (!is_expected_value).then(|| {
            format!("{} is {} instead of {expected}", self.path, shortened(&json_text(first)))
        })
    }
}

/// The beginning of a text in a message.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// A JSON value as text: a string without quotes, anything else as JSON.
pub(super) fn json_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Compiled regular expressions cached by each thread.
const MAX_CACHED_EXPRESSIONS: usize = 256;

thread_local! {
    static EXPRESSIONS: RefCell<HashMap<(String, bool), Regex>> = RefCell::default();
}

/// The regular expression, compiled once per thread. With `whole` it must match the entire text.
fn regex_of(pattern: &str, entire: bool) -> Result<Regex, String> {
    EXPRESSIONS.with_borrow_mut(|known| {
        let key = (pattern.to_owned(), entire);
        if let Some(regex) = known.get(&key) {
            return Ok(regex.clone());
        }
        let text = if entire { format!(r"\A(?:{pattern})\z") } else { pattern.to_owned() };
        let regex = Regex::new(&text)
            .map_err(|error| format!("{pattern:?} is not a regular expression: {error}"))?;
        if known.len() >= MAX_CACHED_EXPRESSIONS {
            known.clear();
        }
        known.insert(key, regex.clone());
        Ok(regex)
    })
}

#[cfg(test)]
mod tests;
