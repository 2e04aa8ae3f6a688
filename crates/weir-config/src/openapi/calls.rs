//! Example requests for the operations of a document, for clients such as load tests.

use super::import::read_described;
use super::operation::{is_json, statuses};
use super::{
    Cursor, Description, Direction, ExampleSelection, Operation, Schemas, Scheme, parameter,
};
use crate::validation::Statuses;
use serde_json::Value;
use std::path::Path;
use weir_document::finding::{Diagnostics, Findings};

/// Example requests of a document.
#[derive(Clone, Debug, Default)]
pub struct ExampleCalls {
    /// Origin of the first server, if it has one.
    pub server: Option<String>,
    /// Path of the first server, `/` without one.
    pub base: String,
    /// One for each operation, in the order of the document.
    pub calls: Vec<ExampleCall>,
    /// Operations without one: names and reasons.
    pub left_out: Vec<(String, String)>,
}

/// An example request of an operation. Values are examples of the document, or generated from its
/// schemas; optional parameters without an example are left out.
#[derive(Clone, Debug)]
pub struct ExampleCall {
    /// The `operationId`, or method and path.
    pub name: String,
    /// Upper case.
    pub method: String,
    /// As written, with `{name}`.
    pub path: String,
    /// Values of the parameters of the path.
    pub path_values: Vec<(String, Value)>,
    /// Query parameters, in the document's style.
    pub query: Vec<(String, String)>,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// Cookies.
    pub cookies: Vec<(String, String)>,
    /// The body.
    pub body: Option<ExampleBody>,
    /// Documented successful statuses: `200`, `2xx`.
    pub statuses: Vec<String>,
    /// Content types of their responses; empty if one of them has none.
    pub content_types: Vec<String>,
    /// Example of a successful JSON response.
    pub response: Option<Value>,
    /// A successful response has the header field `Location`.
    pub has_location: bool,
    /// Credentials of the first alternative.
    pub credentials: Vec<CallCredential>,
}

/// The body of an example request.
#[derive(Clone, Debug, PartialEq)]
pub enum ExampleBody {
    /// JSON of this media type.
    Json(String, Value),
    /// Fields of a form.
    Form(Vec<(String, String)>),
    /// A text of this media type.
    Text(String, String),
}

/// A credential: the name of its scheme, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallCredential {
    /// A key in a header field.
    Header(String, String),
    /// A key in a query parameter.
    Query(String, String),
    /// `Authorization: Bearer`.
    Bearer(String),
    /// `Authorization: Basic`.
    Basic(String),
}

/// Example requests for the document at `file`.
///
/// # Errors
/// The document cannot be read, or is not OpenAPI 3.0 or 3.1.
pub fn example_calls(file: &Path) -> Result<ExampleCalls, Findings> {
    read_described(file, |_, description, report| {
        let operations = description.operations(report);
        let (server, base) = description.server();
        let mut found = ExampleCalls { server, base, ..ExampleCalls::default() };
        let schemas = Schemas::new(description);
        for operation in &operations {
            // The reason is reported with the operation.
            let mut silent = Diagnostics::default();
            let mut reader = Reader { description, schemas: &schemas, report: &mut silent };
            match reader.call(operation) {
                Ok(call) => found.calls.push(call),
                Err(why) => found.left_out.push((operation.name.clone(), why)),
            }
        }
        Some(found)
    })
}

/// Reads one operation.
struct Reader<'d, 'r> {
    description: Description<'d>,
    schemas: &'r Schemas<'d>,
    report: &'r mut Diagnostics,
}

impl<'d> Reader<'d, '_> {
    fn call(&mut self, operation: &Operation<'d>) -> Result<ExampleCall, String> {
        if operation.method == "TRACE" {
            return Err("TRACE is not supported".to_owned());
        }
        let mut call = ExampleCall {
            name: operation.name.clone(),
            method: operation.method.clone(),
            path: operation.path.to_owned(),
            path_values: Vec::new(),
            query: Vec::new(),
            headers: Vec::new(),
            cookies: Vec::new(),
            body: self.body(operation)?,
            statuses: Vec::new(),
            content_types: Vec::new(),
            response: None,
            has_location: false,
            credentials: self.credentials(operation)?,
        };
        for at in parameter::merged(&self.description, operation, self.report) {
            self.parameter(&at, &mut call)?;
        }
        for name in placeholders(operation.path) {
            if !call.path_values.iter().any(|(known, _)| known == name) {
                return Err(format!("the parameter `{name}` of its path is not described"));
            }
        }
        self.responses(operation, &mut call);
        Ok(call)
    }

    fn parameter(&mut self, at: &Cursor<'d>, call: &mut ExampleCall) -> Result<(), String> {
        let (Some(name), Some(place)) = (at.text("name"), at.text("in")) else { return Ok(()) };
        let is_example = at.get("example").or_else(|| at.get("examples")).is_some();
        let is_needed = place == "path" || at.is_set("required");
        let ignored = ["accept", "content-type", "authorization"];
        if (!is_needed && !is_example)
            || place == "header" && ignored.contains(&name.to_ascii_lowercase().as_str())
        {
            return Ok(());
        }
        let content = at.get("content").and_then(|content| Some(content.members().next()?.1));
        let source = content.as_ref().unwrap_or(at);
        let value = self.value(source);
        let value = value.ok_or_else(|| format!("no value can be generated for `{name}`"))?;
        let name = name.to_owned();
        let text = if content.is_some() { value.to_string() } else { joined(&value) };
        match place {
            "path" => call.path_values.push((name, value)),
            "query" if content.is_some() => call.query.push((name, text)),
            "query" => call.query.extend(query(at, &name, &value)),
            "header" => call.headers.push((name, text)),
            _ => call.cookies.push((name, text)),
        }
        Ok(())
    }

    fn value(&mut self, at: &Cursor<'d>) -> Option<Value> {
        let selection = ExampleSelection::default();
        let direction = Direction::Request;
        let found = self.description.example(at, selection, direction, self.schemas, self.report);
        found.map(|(value, _)| value)
    }

    fn body(&mut self, operation: &Operation<'d>) -> Result<Option<ExampleBody>, String> {
        let Some(at) = operation.at.get("requestBody") else { return Ok(None) };
        let at = self.description.follow(&at, self.report);
        let at = at.ok_or_else(|| "the reference of its body does not resolve".to_owned())?;
        let contents: Vec<_> = at.get("content").iter().flat_map(Cursor::members).collect();
        for (member, content) in &contents {
            let media = member.key.trim().to_owned();
            let range = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let Some(value) = self.value(content) else { continue };
            match value {
                value if is_json(&range) => return Ok(Some(ExampleBody::Json(media, value))),
                Value::Object(fields) if range == "application/x-www-form-urlencoded" => {
                    let field = |(name, value): (&String, &Value)| (name.clone(), joined(value));
                    return Ok(Some(ExampleBody::Form(fields.iter().map(field).collect())));
                }
                Value::String(text) if !range.contains('*') && !range.starts_with("multipart/") => {
                    return Ok(Some(ExampleBody::Text(media, text)));
                }
                _ => {}
            }
        }
        if !at.is_set("required") {
            return Ok(None);
        }
        let types: Vec<&str> = contents.iter().map(|(member, _)| member.key.trim()).collect();
        Err(format!("no body of the type {} can be generated", types.join(", ")))
    }

    fn credentials(&mut self, operation: &Operation<'d>) -> Result<Vec<CallCredential>, String> {
        let requirements = self.description.security(Some(operation), self.report);
        if requirements.iter().any(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let schemes = self.description.schemes(self.report);
        let Some(first) = requirements.first() else { return Ok(Vec::new()) };
        let credential = |name: &str| {
            let (_, at) = schemes.iter().find(|(known, _)| *known == name)?;
            let own = name.to_owned();
            Some(match Scheme::of(at, &mut Diagnostics::default())? {
                Scheme::Header(header) => CallCredential::Header(own, header.to_owned()),
                Scheme::Query(query) => CallCredential::Query(own, query.to_owned()),
                Scheme::Bearer => CallCredential::Bearer(own),
                Scheme::Basic => CallCredential::Basic(own),
                Scheme::Certificate => return None,
            })
        };
        let of = |name: &str| {
            credential(name).ok_or_else(|| format!("security scheme `{name}` is not supported"))
        };
        first.iter().map(|required| of(required.scheme)).collect()
    }

    /// Documented successful responses; redirects are successful if there is no other one.
    fn responses(&mut self, operation: &Operation<'d>, call: &mut ExampleCall) {
        let mut found: Vec<(u16, String, Cursor<'d>)> = Vec::new();
        let responses = operation.at.get("responses");
        for (member, at) in responses.iter().flat_map(Cursor::members) {
            let Some(at) = self.description.follow(&at, self.report) else { continue };
            match statuses(&member.key) {
                Some(Statuses::One(one)) => found.push((one / 100, one.to_string(), at)),
                Some(Statuses::Class(class)) => found.push((class, format!("{class}xx"), at)),
                _ => {}
            }
        }
        let class = if found.iter().any(|(class, ..)| *class == 2) { 2 } else { 3 };
        found.retain(|(one, ..)| *one == class);
        let mut has_bodies = true;
        for (_, status, at) in &found {
            call.statuses.push(status.clone());
            let headers = at.get("headers");
            let mut headers = headers.iter().flat_map(Cursor::members);
            call.has_location |= headers.any(|(m, _)| m.key.eq_ignore_ascii_case("location"));
            let content = at.get("content");
            let types = call.content_types.len();
            for (member, content) in content.iter().flat_map(Cursor::members) {
                let media = member.key.split(';').next().unwrap_or_default().trim();
                call.content_types.push(media.to_owned());
                if call.response.is_none() && is_json(&media.to_ascii_lowercase()) {
                    let (selection, direction) = (ExampleSelection::default(), Direction::Response);
                    let Self { description, schemas, report } = self;
                    let example =
                        description.example(&content, selection, direction, schemas, report);
                    call.response = example.map(|(value, _)| value);
                }
            }
            has_bodies &= call.content_types.len() > types;
        }
        if !has_bodies || call.content_types.iter().any(|media| media.contains('*')) {
            call.content_types.clear();
        }
        call.content_types.sort();
        call.content_types.dedup();
    }
}

/// The names in braces of a path.
fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// A query parameter in its style: `form`, exploded by default, or `deepObject`.
fn query(at: &Cursor<'_>, name: &str, value: &Value) -> Vec<(String, String)> {
    let is_deep = at.text("style") == Some("deepObject");
    let is_exploded = at.get("explode").is_none() || at.is_set("explode");
    match value {
        Value::Array(items) if is_exploded => {
            items.iter().map(|item| (name.to_owned(), joined(item))).collect()
        }
        Value::Object(members) if is_deep => {
            let member =
                |(key, value): (&String, &Value)| (format!("{name}[{key}]"), joined(value));
            members.iter().map(member).collect()
        }
        Value::Object(members) if is_exploded => {
            members.iter().map(|(key, value)| (key.clone(), joined(value))).collect()
        }
        _ => vec![(name.to_owned(), joined(value))],
    }
}

/// A value as a text, in the style `simple`.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(joined).collect::<Vec<_>>().join(","),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{key},{}", joined(value));
            members.iter().map(member).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}
