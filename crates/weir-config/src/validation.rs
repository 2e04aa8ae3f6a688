//! What a description demands of requests and answers, compiled, and whether it is met.
//!
//! The work is bounded: a body that is validated is held whole, within the route's limit, and
//! nested no deeper than [`DEPTH`]; schemas that refer to themselves may be visited so often as the
//! body is long (`steps`); patterns take linear time or, with look-around, a bounded
//! number of steps; no more than [`MOST`] violations are told. A violation tells where and what is
//! wrong, never what stands there.

mod document;
mod parameter;
mod shape;
pub(crate) mod steps;

pub use document::DEPTH;
pub(crate) use document::Documents;
pub use parameter::{Parameter, RequestParts, Style};

use document::{Document, Element};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use shape::Shape;
use std::sync::Arc;

/// Most violations that are told of one request or answer.
pub const MOST: usize = 16;
/// Longest explanation, pointer or name, in characters.
const LONGEST: usize = 240;

/// What happens to what does not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// Nothing is looked at.
    #[default]
    Off,
    /// It passes, is counted and noted.
    Log,
    /// It is refused.
    Enforce,
}

/// What is demanded of the requests and answers of one operation.
#[derive(Debug)]
pub struct Validation {
    /// What happens to requests that do not match.
    pub requests: Enforcement,
    /// What happens to answers that do not match.
    pub responses: Enforcement,
    /// Parameters in path, query, header and cookies.
    pub parameters: Vec<Parameter>,
    /// The body of requests; `None`: nothing is said of one.
    pub body: Option<RequestBody>,
    /// Answers, the most exact status first; looked at only if `responses` is not off.
    pub answers: Vec<Answer>,
}

/// What is said of the body of requests.
#[derive(Debug)]
pub struct RequestBody {
    /// There must be one.
    pub required: bool,
    /// In one of these media types, the most exact first.
    pub contents: Vec<Content>,
}

/// A body in one media type.
#[derive(Debug)]
pub struct Content {
    /// `application/json`, `text/*` or `*/*`; lower case.
    pub range: String,
    /// What is looked at in it.
    pub check: BodyCheck,
}

/// What is looked at in a body.
#[derive(Debug)]
pub enum BodyCheck {
    /// Nothing: it passes as it comes.
    Nothing,
    /// JSON, and this of it.
    Json(Option<Arc<Schema>>),
    /// The fields of a form (`application/x-www-form-urlencoded`) as the members of an object.
    Form(Arc<Schema>),
    /// A text.
    Text(Arc<Schema>),
}

/// What is said of answers with a certain status.
#[derive(Debug)]
pub struct Answer {
    /// Which.
    pub status: Statuses,
    /// In one of these media types; empty: nothing is said of a body.
    pub contents: Vec<Content>,
}

/// Statuses of an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// `2XX` is 2.
    Class(u16),
    /// Those of which nothing else is said.
    Others,
}

/// A place of a request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A path parameter.
    Path,
    /// A query parameter.
    Query,
    /// A header.
    Header,
    /// A cookie.
    Cookie,
    /// The body.
    Body,
    /// The status of an answer.
    Status,
}

impl Place {
    /// As written in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
            Self::Body => "body",
            Self::Status => "status",
        }
    }
}

/// One thing that does not match. All texts are bounded and hold no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub place: Place,
    /// Name of the parameter; empty for a body.
    pub name: String,
    /// Where in its value (RFC 6901); empty for all of it.
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
}

impl Violation {
    /// About all of a value.
    pub(crate) fn new(place: Place, name: &str, detail: impl Into<String>) -> Self {
        Self { place, name: cut(name), pointer: String::new(), detail: cut(&detail.into()) }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is wrong with a body.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// It is not what its media type says.
    Malformed(String),
    /// It does not match.
    Violations(Vec<Violation>),
}

/// A compiled schema.
pub struct Schema {
    validator: Validator<Documents>,
    shape: Shape,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Schema {
    /// Of a validator and the schema it was made of, which stands alone.
    pub(crate) fn new(validator: Validator<Documents>, schema: &Value) -> Self {
        Self { validator, shape: Shape::of(schema) }
    }

    /// Whether it describes texts.
    pub(crate) fn takes_text(&self) -> bool {
        self.shape.types.has(shape::Types::STRING)
    }

    /// Whether the value of a parameter matches.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        let document = Document::of(value);
        steps::within(steps::LEAST, || self.validator.is_valid(document.root())) == Some(true)
    }

    /// Notes what is wrong with a value, within so many steps.
    fn check(
        &self,
        value: Element<'_>,
        (place, name): (Place, &str),
        steps: usize,
        out: &mut Vec<Violation>,
    ) {
        let valid = steps::within(steps, || self.validator.is_valid(value));
        if valid == Some(true) {
            return;
        }
        let before = out.len();
        let told = valid.and_then(|_| {
            steps::within(steps, || {
                let errors = self.validator.iter_errors(value).take(MOST.saturating_sub(before));
                out.extend(errors.map(|error| Violation {
                    place,
                    name: cut(name),
                    pointer: cut(&error.instance_path().to_string()),
                    detail: cut(&told(&error)),
                }));
            })
        });
        if told.is_none() {
            out.truncate(before);
            let why = "there are too many ways to compare it with the schema";
            out.push(Violation::new(place, name, why));
        }
    }
}

/// What is wrong, without the value.
fn told(error: &ValidationError<'_>) -> String {
    error.masked_with("the value").to_string()
}

impl RequestBody {
    /// What is said of a body with this Content-Type. A body without one is taken for JSON if that
    /// is all that is said.
    ///
    /// # Errors
    /// The media types that are accepted.
    pub fn content(&self, content_type: Option<&[u8]>) -> Result<&Content, String> {
        let found = match content_type {
            Some(_) => find(&self.contents, content_type),
            None => match self.contents.as_slice() {
                [only] if matches!(only.check, BodyCheck::Json(_)) => Some(only),
                _ => self.contents.iter().find(|c| c.range == "*/*"),
            },
        };
        found.ok_or_else(|| {
            let ranges: Vec<&str> = self.contents.iter().map(|c| c.range.as_str()).collect();
            cut(&format!("the body must be {}", ranges.join(" or ")))
        })
    }
}

fn find<'c>(contents: &'c [Content], content_type: Option<&[u8]>) -> Option<&'c Content> {
    let essence = content_type.unwrap_or_default().split(|&b| b == b';').next()?.trim_ascii();
    contents.iter().find(|content| {
        let range = content.range.as_bytes();
        match range.strip_suffix(b"*") {
            Some(b"*/") => true,
            Some(prefix) => {
                essence.get(..prefix.len()).is_some_and(|e| e.eq_ignore_ascii_case(prefix))
            }
            None => essence.eq_ignore_ascii_case(range),
        }
    })
}

impl Content {
    /// Whether a body has to be held whole to be looked at.
    pub fn reads_body(&self) -> bool {
        !matches!(self.check, BodyCheck::Nothing)
    }

    /// Looks at a body of at most 2 GiB.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, bytes: &[u8]) -> Result<(), BodyFault> {
        if bytes.len() > document::LONGEST {
            let why = "it is longer than 2 GiB, the most that is compared with a description";
            return Err(BodyFault::Malformed(why.to_owned()));
        }
        let mut violations = Vec::new();
        let steps = steps::of_body(bytes.len());
        let mut look = |schema: &Schema, document: &Document<'_>| {
            schema.check(document.root(), (Place::Body, ""), steps, &mut violations);
        };
        match &self.check {
            BodyCheck::Nothing => {}
            BodyCheck::Json(schema) => {
                let document = Document::parse(bytes).map_err(BodyFault::Malformed)?;
                if let Some(schema) = schema {
                    look(schema, &document);
                }
            }
            BodyCheck::Form(schema) => {
                look(schema, &Document::of(&parameter::form(&schema.shape, bytes)));
            }
            BodyCheck::Text(schema) => match std::str::from_utf8(bytes) {
                Ok(text) => look(schema, &Document::of(&Value::from(text))),
                Err(_) => return Err(BodyFault::Malformed("the text is not UTF-8".to_owned())),
            },
        }
        if violations.is_empty() { Ok(()) } else { Err(BodyFault::Violations(violations)) }
    }
}

impl Validation {
    /// What is wrong with the parameters of a request.
    pub fn check_parameters(&self, parts: &RequestParts<'_>) -> Vec<Violation> {
        let mut violations = Vec::new();
        for parameter in &self.parameters {
            parameter.check(parts, &mut violations);
            if violations.len() >= MOST {
                break;
            }
        }
        violations.truncate(MOST);
        violations
    }

    /// What is said of an answer with this status and Content-Type; `None` if that is nothing.
    ///
    /// # Errors
    /// There is no such answer.
    pub fn answer(
        &self,
        status: u16,
        content_type: Option<&[u8]>,
    ) -> Result<Option<&Content>, Violation> {
        let fits = |statuses: Statuses| match statuses {
            Statuses::One(one) => one == status,
            Statuses::Class(class) => class == status / 100,
            Statuses::Others => true,
        };
        let Some(answer) = self.answers.iter().find(|answer| fits(answer.status)) else {
            let detail = format!("an answer with status {status} is not described");
            return Err(Violation::new(Place::Status, "", detail));
        };
        if answer.contents.is_empty() {
            return Ok(None);
        }
        match find(&answer.contents, content_type) {
            Some(content) => Ok(Some(content)),
            None => {
                let detail = "an answer of this content type is not described";
                Err(Violation::new(Place::Header, "content-type", detail))
            }
        }
    }
}

#[cfg(test)]
mod tests;
