//! What a description demands of requests and answers, compiled, and whether it is met.
//!
//! The work is bounded (`budget`): a body that is validated is held whole, within the route's limit,
//! has at most [`LONGEST`] bytes and [`VALUES`] values, and is nested no deeper than [`DEPTH`]; each
//! access to a value takes a step, each error memory, of a budget that grows with the body up to a
//! fixed end; patterns take linear time or, with look-around, a bounded number of steps; no more than
//! [`MOST`] violations are told. What is over budget does not match. A violation tells where and what
//! is wrong, never what stands there.

pub(crate) mod budget;
mod document;
pub(crate) mod keywords;
mod parameter;
pub(crate) mod pattern;
mod shape;
pub(crate) mod weights;

pub(crate) use document::Documents;
pub use document::{DEPTH, LONGEST, VALUES};
pub use parameter::{Parameter, RequestParts, Style};

use document::{Document, Element, Unread};
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use shape::Shape;
use std::sync::Arc;
use weights::Traits;

/// Most violations that are told of one request or answer.
pub const MOST: usize = 16;
/// Longest explanation, pointer or name, in characters.
const TOLD: usize = 240;
/// Longest path to a value of which violations are told one by one, in bytes.
const LONGEST_PATH: usize = 64 << 10;
/// Most values and bytes of a body whose violations are told one by one although a pattern may be
/// given up: the library copies the body then.
const COPIED: (usize, usize) = (5_000, 256 << 10);
/// Steps of all parameters of a request.
const PARAMETER_STEPS: i64 = 1_000_000;
/// What is said of a body that is longer than [`LONGEST`].
const TOO_LONG: &str = "the body exceeds the budget of the validation";
/// What is said of what is over budget.
const OVER_BUDGET: &str = "the schema check exceeds the budget of the validation";

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
    match text.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is wrong with a body or with parameters.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not what its media type says.
    Malformed(String),
    /// It does not match.
    Violations(Vec<Violation>),
    /// To tell whether it matches would take more work or memory than the budget allows.
    OverBudget(Violation),
}

impl Fault {
    fn over_budget(place: Place, name: &str, why: &str) -> Self {
        Self::OverBudget(Violation::new(place, name, why))
    }
}

/// A compiled schema.
pub struct Schema {
    validator: Validator<Documents>,
    shape: Shape,
    traits: Traits,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Schema {
    /// Of a validator and the schema it was made of, which stands alone.
    pub(crate) fn new(validator: Validator<Documents>, schema: &Value) -> Self {
        Self { validator, shape: Shape::of(schema), traits: Traits::of(schema) }
    }

    /// Whether it describes texts.
    pub(crate) fn takes_text(&self) -> bool {
        self.shape.types.has(shape::Types::STRING)
    }

    /// Whether the value of a parameter matches. `None`: over budget.
    pub(crate) fn is_valid(&self, value: &Value) -> Option<bool> {
        self.matches(&Document::of(value), budget::BASE_STEPS)
    }

    /// Whether a document matches. `None`: over budget.
    fn matches(&self, document: &Document<'_>, steps: i64) -> Option<bool> {
        keywords::begin();
        // Without sets nothing is kept until errors are.
        let memory = if self.traits.keeps_sets { budget::MEMORY } else { i64::MAX };
        budget::within(steps, memory, || self.validator.is_valid(document.root()))
    }

    /// What is wrong with a document, within so many steps.
    fn check(
        &self,
        document: &mut Document<'_>,
        (place, name): (Place, &str),
        steps: i64,
    ) -> Result<(), Fault> {
        match self.matches(document, steps) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(Fault::over_budget(place, name, OVER_BUDGET)),
        }
        let is_copied = self.traits.backtracks;
        if document.longest_path() > LONGEST_PATH
            || (is_copied && (document.values() > COPIED.0 || document.bytes() > COPIED.1))
        {
            let violation = Violation::new(place, name, "the value does not match the schema");
            return Err(Fault::Violations(vec![violation]));
        }
        let copied = if is_copied { document.copy_bytes() } else { 0 };
        document.report(self.traits.copied + copied, is_copied);
        let mut told = Vec::new();
        let steps = steps.min(budget::MOST_ERROR_STEPS);
        let whole = budget::within(steps, budget::MEMORY, || {
            // Those made once the budget was used up say nothing.
            let errors = self.validator.iter_errors(document.root());
            let errors = errors.filter(|error| !Element::is_void(error)).take(MOST);
            told.extend(errors.map(|error| Violation {
                place,
                name: cut(name),
                pointer: cut(&error.instance_path().to_string()),
                detail: cut(&detail(&error)),
            }));
        });
        match (told.is_empty(), whole) {
            (false, _) => Err(Fault::Violations(told)),
            (true, None) => Err(Fault::over_budget(place, name, OVER_BUDGET)),
            // It matches as long as some pattern that was given up does.
            (true, Some(())) => {
                let violation = Violation::new(place, name, "the value does not match the schema");
                Err(Fault::Violations(vec![violation]))
            }
        }
    }
}

/// What is wrong, without the value.
fn detail(error: &ValidationError<'_>) -> String {
    let counts_items = matches!(error.kind(), ValidationErrorKind::AdditionalItems { .. });
    if counts_items && Element::is_long_list(error) {
        return "the value exceeds the maximum number of items".to_owned();
    }
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

    /// Looks at a body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, bytes: &[u8]) -> Result<(), Fault> {
        if matches!(self.check, BodyCheck::Nothing) {
            return Ok(());
        }
        let over_budget = |why: &str| Fault::over_budget(Place::Body, "", why);
        if bytes.len() > LONGEST {
            return Err(over_budget(TOO_LONG));
        }
        let compare = |schema: &Schema, mut document: Document<'_>| {
            schema.check(&mut document, (Place::Body, ""), budget::of_body(bytes.len()))
        };
        match &self.check {
            BodyCheck::Nothing => Ok(()),
            BodyCheck::Json(schema) => {
                let document = Document::parse(bytes).map_err(|unread| match unread {
                    Unread::Malformed(why) => Fault::Malformed(why),
                    Unread::OverBudget(why) => over_budget(why),
                })?;
                schema.as_ref().map_or(Ok(()), |schema| compare(schema, document))
            }
            BodyCheck::Form(schema) => match parameter::form(&schema.shape, bytes) {
                Some(fields) => compare(schema, Document::of(&fields)),
                None => Err(over_budget(parameter::TOO_MANY)),
            },
            BodyCheck::Text(schema) => match std::str::from_utf8(bytes) {
                Ok(text) => compare(schema, Document::of_text(text)),
                Err(_) => Err(Fault::Malformed("the text is not UTF-8".to_owned())),
            },
        }
    }
}

impl Validation {
    /// Whether bodies of requests or responses are looked into.
    pub(crate) fn reads_bodies(&self) -> bool {
        let requests = match self.requests {
            Enforcement::Off => None,
            _ => self.body.as_ref().map(|body| body.contents.as_slice()),
        };
        let responses = match self.responses {
            Enforcement::Off => [].as_slice(),
            _ => self.answers.as_slice(),
        };
        let responses = responses.iter().map(|answer| answer.contents.as_slice());
        requests.into_iter().chain(responses).flatten().any(Content::reads_body)
    }

    /// Looks at the parameters of a request.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_parameters(&self, parts: &RequestParts<'_>) -> Result<(), Fault> {
        let mut violations = Vec::new();
        let checked = budget::within(PARAMETER_STEPS, i64::MAX, || {
            for parameter in &self.parameters {
                match parameter.check(parts) {
                    Ok(()) => {}
                    Err(Fault::Violations(more)) => violations.extend(more),
                    Err(other) => return Err(other),
                }
                if violations.len() >= MOST {
                    break;
                }
            }
            Ok(())
        });
        checked.unwrap_or_else(|| Err(Fault::over_budget(Place::Query, "", OVER_BUDGET)))?;
        violations.truncate(MOST);
        if violations.is_empty() { Ok(()) } else { Err(Fault::Violations(violations)) }
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
            let detail = format!("status {status} is not described");
            return Err(Violation::new(Place::Status, "", detail));
        };
        if answer.contents.is_empty() {
            return Ok(None);
        }
        match find(&answer.contents, content_type) {
            Some(content) => Ok(Some(content)),
            None => {
                let detail = "the content type is not described";
                Err(Violation::new(Place::Header, "content-type", detail))
            }
        }
    }
}

#[cfg(test)]
mod tests;
