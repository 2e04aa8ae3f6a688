//! Requirements of an OpenAPI document on requests and responses: plain data. `weir-validate`
//! compiles the schemas and validates.

mod shape;

pub use shape::{Shape, Types};

use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantNames};
use weir_document::draft::{Described, Node};
use weir_document::source_map::Span;

/// Maximum length of a body that is validated, in bytes: parsing takes time.
pub const MAX_BODY_BYTES: usize = 16 << 20;
/// Maximum length of an explanation, pointer or name in a violation, in characters.
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
/// Members with named schemas that apply to values.
pub const SCHEMA_TABLES: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Index of a [`SchemaSource`] in [`crate::Uncompiled::schemas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaId(pub usize);

/// A schema, to be compiled.
#[derive(Debug)]
pub struct SchemaSource {
    /// JSON Schema 2020-12; its references point into its own `$defs`, whose names are numbers.
    pub value: Value,
    /// Types in the schema.
    pub shape: Shape,
    /// Patterns in the schema, and their locations.
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
    /// The location of a part of the schema (RFC 6901), as precisely as it is known.
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

/// The target of a pointer, or the last existing node on its path.
fn descend<'d>(mut node: &'d Node, pointer: &str) -> &'d Node {
    for step in pointer.split('/').skip(1) {
        let Some(next) = node.child(&step.replace("~1", "/").replace("~0", "~")) else { break };
        node = next;
    }
    node
}

/// Handling of requests or responses that do not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Enforcement {
    /// No validation.
    #[default]
    Off,
    /// A mismatch is counted and noted; the message passes.
    Log,
    /// A mismatch is rejected.
    Enforce,
}

/// Requirements on the requests and responses of an operation.
#[derive(Debug)]
pub struct Validation {
    /// Handling of requests that do not match.
    pub requests: Enforcement,
    /// Handling of responses that do not match.
    pub responses: Enforcement,
    /// Parameters in path, query, header and cookies.
    pub parameters: Vec<Parameter>,
    /// The body of requests; `None`: no requirements.
    pub body: Option<RequestBody>,
    /// Responses, the most specific status first; validated only if `responses` is not off.
    pub answers: Vec<Answer>,
}

/// A parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Name; of a header in lower case.
    pub name: String,
    /// Location.
    pub place: Place,
    /// Whether the parameter is required.
    pub required: bool,
    /// Whether the parameter may be empty, whatever its schema.
    pub empty: bool,
    /// Serialization style.
    pub style: Style,
    /// Whether arrays and objects are spread over several fields.
    pub explode: bool,
    /// Schema of the value.
    pub schema: SchemaId,
}

/// Serialization style of a value.
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

/// Requirements on the body of requests.
#[derive(Debug)]
pub struct RequestBody {
    /// Whether a body is required.
    pub required: bool,
    /// Accepted media types, the most specific first.
    pub contents: Vec<Content>,
}

/// A body in one media type.
#[derive(Debug)]
pub struct Content {
    /// `application/json`, `text/*` or `*/*`; lower case.
    pub range: String,
    /// Requirements on the body.
    pub check: BodyCheck,
}

/// Requirements on a body.
#[derive(Debug)]
pub enum BodyCheck {
    /// None: the body passes unread.
    Nothing,
    /// JSON, and the schema, if any.
    Json(Option<SchemaId>),
    /// The fields of a form (`application/x-www-form-urlencoded`) as the members of an object.
    Form(SchemaId),
    /// A text.
    Text(SchemaId),
}

/// Requirements on responses with a certain status.
#[derive(Debug)]
pub struct Answer {
    /// The statuses.
    pub status: Statuses,
    /// Accepted media types, the most specific first; empty: no requirements on the body.
    pub contents: Vec<Content>,
}

/// Statuses of an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statuses {
    /// This status.
    One(u16),
    /// `2XX` is 2.
    Class(u16),
    /// Statuses without an entry of their own.
    Others,
}

/// A location in a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
    /// The status of a response.
    Status,
}

impl Place {
    /// As written in OpenAPI documents.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A violation. All texts are bounded and contain no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The location.
    pub place: Place,
    /// Name of the parameter; empty for a body.
    pub name: String,
    /// Location in the value (RFC 6901); empty for the entire value.
    pub pointer: String,
    /// The fault.
    pub detail: String,
}

impl Violation {
    /// A violation of an entire value.
    pub fn new(place: Place, name: &str, detail: impl AsRef<str>) -> Self {
        Self::at(place, name, "", detail.as_ref())
    }

    /// A violation in the part of a value at this pointer.
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
    /// The entry for this Content-Type. A body without one counts as JSON if JSON is the only
    /// entry.
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
    /// Whether a body has to be buffered for validation.
    pub fn reads_body(&self) -> bool {
        !matches!(self.check, BodyCheck::Nothing)
    }
}

impl Validation {
    /// Whether bodies of requests or responses are validated.
    pub(crate) fn reads_bodies(&self) -> bool {
        let requests = self.body.iter().filter(|_| self.requests != Enforcement::Off);
        let responses = self.answers.iter().filter(|_| self.responses != Enforcement::Off);
        let responses = responses.flat_map(|answer| &answer.contents);
        requests.flat_map(|body| &body.contents).chain(responses).any(Content::reads_body)
    }

    /// The entry for a response with this status and Content-Type; `None` without requirements.
    ///
    /// # Errors
    /// The description has no such response.
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
        find(&answer.contents, content_type).map(Some).ok_or_else(|| {
            let detail = "the content type is not described";
            Violation::new(Place::Header, "content-type", detail)
        })
    }
}

#[cfg(test)]
mod tests;
