//! Business keys: indexed values that identify a transaction to its users.
//!
//! Keys are extracted from the record, not while a request is served: paths first from the
//! request's body, then from the response's; expressions from the request's head. Bodies may be
//! truncated: values before the cut are found, unless a path needs a tree of the entire body.

mod view;

pub use view::RequestView;

use crate::expr::{Expr, Scope};
use crate::map::pass::{self, Selection, Slots};
use crate::map::path::{self, Path, Step};
use crate::redaction::MASKED;
use serde_json::Value;
use serde_json_path::JsonPath;
use std::borrow::Cow;

/// Maximum number of keys in a configuration.
pub const KEYS: usize = 16;
/// Maximum number of values of a key in a transaction; further ones are left out.
pub const VALUES: usize = 16;
/// Maximum length of a value in bytes; longer values are truncated.
pub const VALUE_LENGTH: usize = 256;

/// The keys under `tracker.keys`, compiled.
#[derive(Default)]
pub struct BusinessKeys {
    keys: Vec<BusinessKey>,
    /// Paths to be found in one pass over a body.
    selection: Selection,
    slots: usize,
    needs_tree: bool,
    reads_request: bool,
}

struct BusinessKey {
    name: String,
    /// As written, to detect changes.
    text: String,
    reader: Reader,
}

/// The source of a key, compiled.
pub struct Source(Reader);

enum Reader {
    /// A path of names and indexes, and later its slot.
    Steps(Vec<Step>, usize),
    /// Any other path.
    Tree(JsonPath),
    /// An expression on the request.
    Expr(Expr),
}

impl Source {
    /// A JSONPath (RFC 9535).
    ///
    /// # Errors
    /// The fault, in one sentence.
    pub fn path(text: &str) -> Result<Self, String> {
        Ok(Self(match path::parse(text)? {
            Path::Steps(steps) => Reader::Steps(steps, 0),
            Path::Tree { path, .. } => Reader::Tree(path),
        }))
    }

    /// A CEL expression on the recorded request.
    ///
    /// # Errors
    /// The fault, in one sentence.
    pub fn expression(text: &str) -> Result<Self, String> {
        let expr = Expr::compile(text, &["request", "consumer"])?;
        if expr.refers_to_member("request", "path") {
            return Err("`request.path` is not recorded; there is `request.target`".to_owned());
        }
        Ok(Self(Reader::Expr(expr)))
    }

    /// Whether the source needs a tree of the entire body.
    pub fn needs_tree(&self) -> bool {
        matches!(self.0, Reader::Tree(_))
    }
}

/// A key found: its name and a value.
pub type Found<'k, 'b> = (&'k str, Cow<'b, str>);

impl std::fmt::Debug for BusinessKeys {
    /// As written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.as_written()).finish()
    }
}

impl BusinessKeys {
    /// Adds a key. The configuration ensures that names are unique and at most [`KEYS`].
    pub fn add(&mut self, name: &str, text: &str, source: Source) {
        let Source(mut reader) = source;
        match &mut reader {
            Reader::Steps(steps, slot) => {
                *slot = self.slots;
                self.selection.add(steps, self.slots);
                self.slots += 1;
            }
            Reader::Tree(_) => self.needs_tree = true,
            Reader::Expr(_) => self.reads_request = true,
        }
        let (name, text) = (name.to_owned(), text.to_owned());
        self.keys.push(BusinessKey { name, text, reader });
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Names of the keys, in the order of definition.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    /// Name and source of each, as written.
    pub fn as_written(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|key| (key.name.as_str(), key.text.as_str()))
    }

    /// The keys of a transaction: at most [`VALUES`] per name, none longer than [`VALUE_LENGTH`]. A
    /// path is searched in the request's body, then in the response's. Bodies are as sent, without
    /// their content coding; a body that is not JSON has no keys. Strings, numbers and booleans are
    /// values; lists, objects and null are not.
    pub fn extract<'k, 'b>(
        &'k self,
        request: &RequestView<'_>,
        request_body: &'b [u8],
        response_body: &'b [u8],
    ) -> impl Iterator<Item = Found<'k, 'b>> {
        let mut found = vec![Vec::new(); self.keys.len()];
        if self.reads_request {
            self.look_at_request(request, &mut found);
        }
        for body in [request_body, response_body] {
            self.look_in_body(body, &mut found);
        }
        let named = self.keys.iter().zip(found);
        named.flat_map(|(key, values)| values.into_iter().map(|value| (key.name.as_str(), value)))
    }

    fn look_at_request(&self, request: &RequestView<'_>, found: &mut [Vec<Cow<'_, str>>]) {
        let scope = Scope {
            request: Some(request.facts()),
            consumer: (!request.consumer.is_empty()).then(|| request.consumer.to_owned()),
            ..Scope::default()
        };
        for (key, values) in self.keys.iter().zip(found) {
            let Reader::Expr(expr) = &key.reader else { continue };
            match expr.value(&scope) {
                Some(Value::Array(items)) => items.iter().for_each(|item| add_value(item, values)),
                Some(value) => add_value(&value, values),
                None => {}
            }
        }
    }

    /// Searches a body for the paths that have not been found yet.
    fn look_in_body<'b>(&self, body: &'b [u8], found: &mut [Vec<Cow<'b, str>>]) {
        let Some(text) = json_text(body) else { return };
        let missing = |values: &Vec<Cow<'_, str>>| values.is_empty();
        let mut tree = None;
        if self.slots > 0 {
            let mut slots = Slots::new(self.slots);
            let cut = pass::read(text, &self.selection, &mut slots).is_err();
            for (key, values) in self.keys.iter().zip(&mut *found) {
                if let Reader::Steps(_, slot) = key.reader
                    && missing(values)
                    && let Some(raw) = slots.get(slot).filter(|raw| !cut || is_whole(raw, text))
                {
                    add_raw(raw, values);
                }
            }
        }
        if !self.needs_tree {
            return;
        }
        for (key, values) in self.keys.iter().zip(found) {
            let Reader::Tree(path) = &key.reader else { continue };
            if missing(values) {
                let tree =
                    tree.get_or_insert_with(|| serde_json::from_str(text).unwrap_or_default());
                path.query(tree).iter().for_each(|node| add_value(node, values));
            }
        }
    }
}

/// The text of a possible JSON object or array, up to a character that was cut.
fn json_text(body: &[u8]) -> Option<&str> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    if !matches!(first, b'{' | b'[') {
        return None;
    }
    Some(match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&body[..error.valid_up_to()]).unwrap_or_default(),
    })
}

/// Whether a value is complete in a truncated text: a number at its end may be incomplete.
fn is_whole(raw: &str, text: &str) -> bool {
    raw.as_bytes().as_ptr_range().end < text.as_bytes().as_ptr_range().end
        || raw.ends_with(['"', '}', ']'])
}

/// Adds a value as it occurs in a body.
fn add_raw<'b>(raw: &'b str, values: &mut Vec<Cow<'b, str>>) {
    let plain = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match plain {
        Some(text) if !text.contains('\\') => add(Cow::Borrowed(text), values),
        Some(_) => {
            if let Ok(text) = serde_json::from_str(raw) {
                add(Cow::Owned(text), values);
            }
        }
        None if raw == "null" || raw.starts_with(['{', '[']) => {}
        None => add(Cow::Borrowed(raw), values),
    }
}

/// Adds a value that was computed or found in a tree.
fn add_value(value: &Value, values: &mut Vec<Cow<'_, str>>) {
    match value {
        Value::String(text) => add(Cow::Owned(text.clone()), values),
        Value::Number(_) | Value::Bool(_) => add(Cow::Owned(value.to_string()), values),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

fn add<'b>(value: Cow<'b, str>, values: &mut Vec<Cow<'b, str>>) {
    if value.is_empty() || value == MASKED || values.len() == VALUES {
        return;
    }
    let end = value.floor_char_boundary(VALUE_LENGTH);
    let value = match value {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    };
    if !values.contains(&value) {
        values.push(value);
    }
}

#[cfg(test)]
mod tests;
