//! Documents as a representation of `jsonschema`. Each access takes a step of the budget; when the
//! budget is exhausted, documents appear empty.

use super::super::budget::{charge, charge_error, charge_name};
use super::{Data, Document, Entry, FEW, Inside, Span, mark, slots_of};
use jsonschema_value::types::JsonType;
use jsonschema_value::{self as json, Json, LazyInstance, NodeIdentity};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Maximum number of bytes of a text in an error.
const MAX_REPORTED_BYTES: usize = 1024;
/// Approximate size of both paths of an error, per byte of its path through the document.
const PATHS: usize = 8;
/// Maximum number of items of a list in an error.
const COUNTED: u32 = 1 << 16;
/// The value of a void error.
static VOID: Value = Value::Null;

/// Documents as a representation of `jsonschema`.
pub(crate) struct Documents;

/// The name of a member in a schema.
pub(crate) struct Key {
    pub(super) name: Box<str>,
    pub(super) mark: u32,
}

impl Json for Documents {
    type Node<'d> = Element<'d>;
    type PreparedKey = Key;
    type StringBuffer = Text;

    /// As in the library's representation of trees.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> Key {
        Key { name: key.into(), mark: mark(key) }
    }

    fn with_string_node<T>(
        Text(document): &mut Text,
        string: &str,
        f: impl FnOnce(Element<'_>) -> T,
    ) -> T {
        document.entries.clear();
        document.own.clear();
        if charge_name(u32::try_from(string.len()).unwrap_or(u32::MAX)) {
            let text = document.span(string);
            document.push(Span::default(), 0, Data::String(text));
        } else {
            document.push(Span::default(), 0, Data::Null);
        }
        f(document.root())
    }
}

/// A document with a single text.
#[derive(Default)]
pub(crate) struct Text(Document<'static>);

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d> {
    document: &'d Document<'d>,
    at: u32,
}

impl<'d> Element<'d> {
    /// The root of a document.
    pub(super) fn of(document: &'d Document<'d>) -> Self {
        Self { document, at: 0 }
    }

    pub(super) fn entry(self) -> &'d Entry {
        &self.document.entries[self.at as usize]
    }

    pub(super) fn data(self) -> &'d Data {
        &self.entry().data
    }

    pub(super) fn document(self) -> &'d Document<'d> {
        self.document
    }

    /// The member of an object with this name. Takes no step.
    pub(super) fn member(self, mark: u32, name: &str) -> Option<Self> {
        let Data::Object { members, slots } = *self.data() else { return None };
        let (document, count) = (self.document, members as usize);
        if count <= FEW {
            let at = self.indexes().find(|at| document.is(*at, mark, name))?;
            return Some(Self { document, at });
        }
        let slots = document.slots.get(slots as usize..)?.get(..slots_of(count))?;
        let at = slots[document.slot(slots, mark, name)];
        (at != 0).then_some(Self { document, at })
    }

    /// The text of a string. Takes no step.
    pub(crate) fn text(self) -> Option<&'d str> {
        match self.data() {
            Data::String(text) => Some(self.document.text(*text)),
            _ => None,
        }
    }

    /// Whether the value is a text that occurs verbatim in the body, so that its address is stable.
    /// Texts of names that are compared separately reuse the same memory.
    pub(crate) fn stands_in_body(self) -> bool {
        matches!(self.data(), Data::String(text) if (text.at as usize) < self.document.text.len())
    }

    /// The names of an object's members. Takes no step.
    pub(crate) fn names(self) -> impl Iterator<Item = &'d str> {
        let object = matches!(self.data(), Data::Object { .. }).then_some(self);
        let members = object.into_iter().flat_map(Self::indexes);
        members.map(move |at| Self { at, ..self }.name())
    }

    /// Takes the memory of an error about this value; returns whether enough was left.
    pub(crate) fn charge_error(self) -> bool {
        // The path through the schema is longer than the one through the document.
        let paths = self.document.longest_path.saturating_mul(PATHS);
        charge_error(paths + self.document.error_bytes)
    }

    /// The entire value as a tree.
    fn tree(self) -> Value {
        match self.data() {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(number) => Value::Number(number.clone()),
            Data::String(text) => Value::from(self.document.text(*text)),
            Data::Array(_) => self.inside().map(Self::tree).collect(),
            Data::Object { .. } => {
                Value::Object(self.inside().map(|m| (m.name().to_owned(), m.tree())).collect())
            }
        }
    }

    /// The part of a text that is reported.
    fn excerpt(bytes: &[u8]) -> Value {
        let excerpt = &bytes[..bytes.len().min(MAX_REPORTED_BYTES)];
        Value::String(String::from_utf8_lossy(excerpt).into_owned())
    }

    /// Length of a text in bytes, 0 for other values. Takes no step.
    pub(crate) fn text_length(self) -> i64 {
        self.text().map_or(0, |text| text.len() as i64)
    }

    /// Length of the names of an object's members in bytes. Takes no step.
    pub(crate) fn names_length(self) -> i64 {
        self.names().map(|name| 1 + name.len() as i64).sum()
    }

    /// Whether an error is void: created after the budget was exhausted.
    pub(crate) fn is_void(error: &jsonschema::ValidationError<'_>) -> bool {
        matches!(error.instance(), Cow::Borrowed(value) if std::ptr::eq(*value, &raw const VOID))
    }

    /// Whether a list has more items than are reported.
    pub(crate) fn is_long_list(error: &jsonschema::ValidationError<'_>) -> bool {
        error.instance().as_array().is_some_and(|items| items.len() >= COUNTED as usize)
    }

    /// The name as a member of an object.
    pub(super) fn name(self) -> &'d str {
        self.document.text(self.entry().name)
    }

    /// Number of items or members; 0 for other values. Takes no step.
    pub(super) fn count(self) -> usize {
        match *self.data() {
            Data::Array(count) | Data::Object { members: count, .. } => count as usize,
            _ => 0,
        }
    }

    /// Indexes of the items or members. Takes no step.
    fn indexes(self) -> Inside<'d> {
        Inside::of(&self.document.entries, self.at as usize, self.count())
    }

    /// The items or members.
    pub(super) fn inside(self) -> Elements<'d> {
        Elements { document: self.document, inside: self.indexes() }
    }
}

impl<'d> json::Node<'d, Documents> for Element<'d> {
    type Object = Self;
    type Array = Self;
    type Number = &'d Number;

    fn as_object(&self) -> Option<Self> {
        (charge(1) && matches!(self.data(), Data::Object { .. })).then_some(*self)
    }

    fn as_array(&self) -> Option<Self> {
        (charge(1) && matches!(self.data(), Data::Array(_))).then_some(*self)
    }

    fn as_string(&self) -> Option<Cow<'d, str>> {
        match self.data() {
            // Patterns and formats read each byte.
            Data::String(text) if charge(1 + i64::from(text.length)) => {
                Some(Cow::Borrowed(self.document.text(*text)))
            }
            _ => None,
        }
    }

    fn as_number(&self) -> Option<&'d Number> {
        match self.data() {
            Data::Number(number) if charge(1) => Some(number),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.data() {
            Data::Bool(value) if charge(1) => Some(*value),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        charge(1) && matches!(self.data(), Data::Null)
    }

    fn json_type(&self) -> JsonType {
        match self.data() {
            _ if !charge(1) => JsonType::Null,
            Data::Null => JsonType::Null,
            Data::Bool(_) => JsonType::Boolean,
            Data::Number(_) => JsonType::Number,
            Data::String(_) => JsonType::String,
            Data::Array(_) => JsonType::Array,
            Data::Object { .. } => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        let Data::String(span) = self.data() else { return None };
        if !charge(1 + i64::from(span.length / 16)) {
            return None;
        }
        let text = self.document.text(*span);
        Some(if text.is_ascii() { text.len() } else { text.chars().count() } as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        super::equal::equals_value(*self, expected)
    }

    /// While errors are collected, texts are cut to the reported part: weir's own keywords request
    /// them.
    fn to_value(&self) -> Cow<'d, Value> {
        Cow::Owned(match self.data() {
            Data::String(text) if self.document.is_reported => {
                Self::excerpt(self.document.text(*text).as_bytes())
            }
            _ => self.tree(),
        })
    }

    /// Errors report only texts, as names of members, and numbers of items. Copying each value with
    /// all nested ones would be expensive. Each error requests its value once.
    fn lazy_value(&self) -> LazyInstance<'d> {
        if !Self::charge_error(*self) {
            return LazyInstance::Ready(Cow::Borrowed(&VOID));
        }
        if self.at == 0 && self.document.reports_whole {
            return LazyInstance::Ready(Cow::Owned(self.tree()));
        }
        let text = |bytes: &[u8], _| Self::excerpt(bytes);
        let list = |_: &[u8], items: u32| Value::Array(vec![Value::Null; items as usize]);
        let (bytes, tag, make): (_, _, fn(&[u8], u32) -> Value) = match self.data() {
            Data::String(span) => {
                let bytes = self.document.text(*span).as_bytes();
                (&bytes[..bytes.len().min(MAX_REPORTED_BYTES)], 0, text)
            }
            Data::Array(items) => (&[], (*items).min(COUNTED), list),
            _ => (&[], 0, |_, _| Value::Null),
        };
        LazyInstance::Deferred { bytes, tag, make, cell: OnceLock::new() }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::tagged(std::ptr::from_ref(self.document) as usize, self.at))
    }
}

/// The values in a list or an object.
#[derive(Clone)]
pub(crate) struct Elements<'d> {
    document: &'d Document<'d>,
    inside: Inside<'d>,
}

impl<'d> Iterator for Elements<'d> {
    type Item = Element<'d>;

    fn next(&mut self) -> Option<Element<'d>> {
        if self.inside.left == 0 || !charge(1) {
            return None;
        }
        Some(Element { document: self.document, at: self.inside.next()? })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inside.size_hint()
    }
}

impl<'d> json::Array<'d, Documents> for Element<'d> {
    type Node = Self;
    type ElementsIter = Elements<'d>;

    fn len(&self) -> usize {
        self.count()
    }

    fn elements(&self) -> Elements<'d> {
        self.inside()
    }

    fn is_unique(&self) -> bool {
        super::equal::are_unique(*self)
    }
}

impl<'d> json::Object<'d, Documents> for Element<'d> {
    type Node = Self;
    type MemberName = &'d str;
    type MembersIter = NamedElements<'d>;

    fn len(&self) -> usize {
        self.count()
    }

    fn get(&self, key: &Key) -> Option<Self> {
        if charge(1) { self.member(key.mark, &key.name) } else { None }
    }

    fn members(&self) -> NamedElements<'d> {
        NamedElements(self.inside())
    }
}

/// The members of an object with their names.
pub(crate) struct NamedElements<'d>(Elements<'d>);

impl<'d> Iterator for NamedElements<'d> {
    type Item = (&'d str, Element<'d>);

    fn next(&mut self) -> Option<(&'d str, Element<'d>)> {
        let element = self.0.next()?;
        charge_name(element.entry().name.length).then(|| (element.name(), element))
    }
}
