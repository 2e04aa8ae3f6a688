//! What an OpenAPI document demands of requests and responses: plain data. `weir-validate` compiles
//! the schemas, and checks.

mod shape;

pub use shape::{Shape, Types};

use serde_json::Value;
use weir_document::draft::{Data, Described, Node};
use weir_document::source_map::Span;

/// Longest body that is compared with a schema, in bytes: reading it takes time.
pub const MAX_BODY_BYTES: usize = 16 << 20;
/// Longest explanation, pointer or name of a violation, in characters.
pub const MAX_TEXT_CHARS: usize = 240;

/// Members of a JSON Schema (2020-12) with one schema as their value.
pub const SCHEMA_MEMBERS: [&str; 11] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Members with a list of schemas.
pub const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Members with schemas by name that a value is compared with.
pub const SCHEMA_TABLES: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Index of a [`SchemaSource`] in [`crate::Uncompiled::schemas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaId(pub usize);

/// A schema, to be compiled.
#[derive(Debug)]
pub struct SchemaSource {
    /// JSON Schema 2020-12; its references lead into its own `$defs`, which have numbers as names.
    pub value: Value,
    /// Types in it.
    pub shape: Shape,
    /// Patterns in it, and their locations.
    pub patterns: Vec<(Span, String)>,
    /// Source of the schema.
    pub(crate) root: Pointer,
    /// Sources of `$defs`, by their number.
    pub(crate) definitions: Vec<Pointer>,
}

/// A part of a document.
#[derive(Debug)]
pub(crate) struct Pointer {
    /// Index of the document.
    pub(crate) document: usize,
    /// RFC 6901.
    pub(crate) pointer: String,
}

impl SchemaSource {
    /// The location of a part of the schema (RFC 6901), as exactly as it is known.
    pub fn span(&self, documents: &[Described], pointer: &str) -> Span {
        let definition = pointer.strip_prefix("/$defs/").and_then(|rest| {
            let (number, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Some((self.definitions.get(number.parse::<usize>().ok()?)?, rest))
        });
        let (source, rest) = definition.unwrap_or((&self.root, pointer));
        let Some(document) = documents.get(source.document) else { return Span::NOWHERE };
        descend(descend(&document.root, &source.pointer), rest).at
    }
}

/// The node that a pointer leads to, or the last one on the way that exists.
fn descend<'d>(mut node: &'d Node, pointer: &str) -> &'d Node {
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match &node.data {
            Data::List(items) => step.parse().ok().and_then(|i: usize| items.get(i)),
            _ => node.get(&step),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node
}

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

/// One parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its name; of a header in lower case.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// It must be there.
    pub required: bool,
    /// It may be there without a value, whatever its schema.
    pub empty: bool,
    /// How it is written.
    pub style: Style,
    /// Arrays and objects are spread over several fields.
    pub explode: bool,
    /// What it must be.
    pub schema: SchemaId,
}

/// How a value is written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `a,b` in a path or header.
    Simple,
    /// `.a.b` in a path.
    Label,
    /// `;name=a` in a path.
    Matrix,
    /// `name=a,b` in a query or cookie.
    Form,
    /// `name=a%20b`.
    Space,
    /// `name=a|b`.
    Pipe,
    /// `name[member]=a`.
    Deep,
    /// JSON (`content: {application/json: …}`).
    Json,
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
    Json(Option<SchemaId>),
    /// The fields of a form (`application/x-www-form-urlencoded`) as the members of an object.
    Form(SchemaId),
    /// A text.
    Text(SchemaId),
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
    pub fn new(place: Place, name: &str, detail: impl AsRef<str>) -> Self {
        Self::at(place, name, "", detail.as_ref())
    }

    /// About the part of a value that a pointer leads to.
    pub fn at(place: Place, name: &str, pointer: &str, detail: &str) -> Self {
        Self { place, name: cut(name), pointer: cut(pointer), detail: cut(detail) }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
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
