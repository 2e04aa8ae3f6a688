//! What schemas are compared with: documents as a representation of `jsonschema`.

use super::{Data, Document, Entry, FEW, Inside, Span, mark, slots_of};
use jsonschema_value::types::JsonType;
use jsonschema_value::{self as json, Json, LazyInstance, NodeIdentity};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Documents, as schemas are compared with them.
pub(crate) struct Documents;

/// The name of a member that a schema asks for.
pub(crate) struct Key {
    pub(super) name: Box<str>,
    pub(super) mark: u32,
}

impl Json for Documents {
    type Node<'d> = Element<'d>;
    type PreparedKey = Key;
    type StringBuffer = Text;

    /// What the library has for trees.
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
        let text = document.span(string);
        document.push(Span::default(), 0, Data::String(text));
        f(document.root())
    }
}

/// A document of one text.
#[derive(Default)]
pub(crate) struct Text(Document<'static>);

/// One value of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d> {
    document: &'d Document<'d>,
    at: u32,
}

impl<'d> Element<'d> {
    /// What all others of a document are in.
    pub(super) fn of(document: &'d Document<'d>) -> Self {
        Self { document, at: 0 }
    }

    fn entry(self) -> &'d Entry {
        &self.document.entries[self.at as usize]
    }

    fn data(self) -> &'d Data {
        &self.entry().data
    }

    /// As a member of an object.
    fn name(self) -> &'d str {
        self.document.text(self.entry().name)
    }

    /// The values in it, of which it has so many.
    fn inside(self, count: u32) -> Elements<'d> {
        let inside = Inside::of(&self.document.entries, self.at as usize, count as usize);
        Elements { document: self.document, inside }
    }
}

impl<'d> json::Node<'d, Documents> for Element<'d> {
    type Object = Members<'d>;
    type Array = Items<'d>;
    type Number = &'d Number;

    fn as_object(&self) -> Option<Members<'d>> {
        match *self.data() {
            Data::Object { members, slots } => Some(Members { of: *self, members, slots }),
            _ => None,
        }
    }

    fn as_array(&self) -> Option<Items<'d>> {
        match *self.data() {
            Data::Array(items) => Some(Items { of: *self, items }),
            _ => None,
        }
    }

    fn as_string(&self) -> Option<Cow<'d, str>> {
        match self.data() {
            Data::String(text) => Some(Cow::Borrowed(self.document.text(*text))),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<&'d Number> {
        match self.data() {
            Data::Number(number) => Some(number),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.data() {
            Data::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self.data(), Data::Null)
    }

    fn json_type(&self) -> JsonType {
        match self.data() {
            Data::Null => JsonType::Null,
            Data::Bool(_) => JsonType::Boolean,
            Data::Number(_) => JsonType::Number,
            Data::String(_) => JsonType::String,
            Data::Array(_) => JsonType::Array,
            Data::Object { .. } => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        let text = self.as_string()?;
        Some(if text.is_ascii() { text.len() } else { text.chars().count() } as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.data(), expected) {
            (Data::Null, Value::Null) => true,
            (Data::Bool(value), Value::Bool(expected)) => value == expected,
            (Data::String(text), Value::String(expected)) => self.document.text(*text) == expected,
            (Data::Number(number), Value::Number(expected)) => {
                json::cmp::equal_numbers(&number, expected)
            }
            (Data::Array(_), Value::Array(_)) | (Data::Object { .. }, Value::Object(_)) => {
                json::cmp::equal(&self.to_value(), expected)
            }
            _ => false,
        }
    }

    fn to_value(&self) -> Cow<'d, Value> {
        Cow::Owned(match self.data() {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(number) => Value::Number(number.clone()),
            Data::String(text) => Value::from(self.document.text(*text)),
            Data::Array(items) => {
                self.inside(*items).map(|item| item.to_value().into_owned()).collect()
            }
            Data::Object { members, .. } => {
                let named = self
                    .inside(*members)
                    .map(|member| (member.name().to_owned(), member.to_value().into_owned()));
                Value::Object(named.collect())
            }
        })
    }

    /// Of what is wrong only texts are ever told, as names of members, and how many items there are;
    /// a copy of each value, one in the other, would be much work.
    fn lazy_value(&self) -> LazyInstance<'d> {
        let text = |bytes: &[u8], _| Value::String(String::from_utf8_lossy(bytes).into_owned());
        let list = |_: &[u8], items: u32| Value::Array(vec![Value::Null; items as usize]);
        let (bytes, tag, make): (_, _, fn(&[u8], u32) -> Value) = match self.data() {
            Data::String(span) => (self.document.text(*span).as_bytes(), 0, text),
            Data::Array(items) => (&[], *items, list),
            _ => (&[], 0, |_, _| Value::Null),
        };
        LazyInstance::Deferred { bytes, tag, make, cell: OnceLock::new() }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::tagged(std::ptr::from_ref(self.document) as usize, self.at))
    }
}

/// The values in a list or an object.
pub(crate) struct Elements<'d> {
    document: &'d Document<'d>,
    inside: Inside<'d>,
}

impl<'d> Iterator for Elements<'d> {
    type Item = Element<'d>;

    fn next(&mut self) -> Option<Element<'d>> {
        Some(Element { document: self.document, at: self.inside.next()? })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inside.size_hint()
    }
}

/// A list.
pub(crate) struct Items<'d> {
    of: Element<'d>,
    items: u32,
}

impl<'d> json::Array<'d, Documents> for Items<'d> {
    type Node = Element<'d>;
    type ElementsIter = Elements<'d>;

    fn len(&self) -> usize {
        self.items as usize
    }

    fn elements(&self) -> Elements<'d> {
        self.of.inside(self.items)
    }
}

/// An object.
pub(crate) struct Members<'d> {
    of: Element<'d>,
    members: u32,
    slots: u32,
}

impl<'d> json::Object<'d, Documents> for Members<'d> {
    type Node = Element<'d>;
    type MemberName = &'d str;
    type MembersIter = NamedElements<'d>;

    fn len(&self) -> usize {
        self.members as usize
    }

    fn get(&self, key: &Key) -> Option<Element<'d>> {
        let document = self.of.document;
        if self.len() <= FEW {
            return self.of.inside(self.members).find(|e| document.is(e.at, key.mark, &key.name));
        }
        let slots = document.slots.get(self.slots as usize..)?.get(..slots_of(self.len()))?;
        let at = slots[document.slot(slots, key.mark, &key.name)];
        (at != 0).then_some(Element { document, at })
    }

    fn members(&self) -> NamedElements<'d> {
        NamedElements(self.of.inside(self.members))
    }
}

/// The members of an object with their names.
pub(crate) struct NamedElements<'d>(Elements<'d>);

impl<'d> Iterator for NamedElements<'d> {
    type Item = (&'d str, Element<'d>);

    fn next(&mut self) -> Option<(&'d str, Element<'d>)> {
        let element = self.0.next()?;
        Some((element.name(), element))
    }
}
