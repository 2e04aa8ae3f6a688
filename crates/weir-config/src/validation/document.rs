//! JSON as it is validated: the values of a text in one list, in the order in which they stand, with
//! their texts where the body has them. It is read in one pass and takes no memory for each value,
//! which a tree does; `jsonschema` compares schemas with it as with any [`Json`].
//!
//! Refused is what nests deeper than [`DEPTH`], and an object in which a member stands twice, since
//! whoever reads it next might take the other one.

use foldhash::fast::FixedState;
use jsonschema_value::types::JsonType;
use jsonschema_value::{self as json, Json, LazyInstance, NodeIdentity};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// Deepest nesting of a body.
pub const DEPTH: usize = 64;
/// Objects with more members than this have them in order, too, to be found by name.
const FEW: usize = 8;
/// Bytes of a text for each of its values, about: what the list is made for at first.
const BYTES_PER_VALUE: usize = 16;

/// The values of a text.
#[derive(Debug, Default)]
pub(super) struct Document<'t> {
    entries: Vec<Entry<'t>>,
    /// The members of the objects that have more than [`FEW`]: mark and place in one number, in
    /// order within each object; those of the same mark by name.
    ordered: Vec<u64>,
}

#[derive(Debug)]
struct Entry<'t> {
    /// As a member of an object; empty otherwise.
    name: Cow<'t, str>,
    /// Of the name.
    mark: u32,
    /// Where the next value behind it and all that is in it stands.
    end: u32,
    data: Data<'t>,
}

#[derive(Debug)]
enum Data<'t> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'t, str>),
    /// With so many items.
    Array(u32),
    /// With so many members, which `ordered` has from there on if they are more than [`FEW`].
    Object {
        members: u32,
        ordered: u32,
    },
}

/// As `ordered` has a member.
fn ordered(mark: u32, at: u32) -> u64 {
    (u64::from(mark) << 32) | u64::from(at)
}

fn marked(one: u64) -> u64 {
    one >> 32
}

#[expect(clippy::cast_possible_truncation, reason = "the other half is the mark")]
fn placed(one: u64) -> u32 {
    one as u32
}

/// Tells most names apart. Nothing rests on it but speed: names decide where marks are the same.
#[expect(clippy::cast_possible_truncation, reason = "any of its bits do")]
fn mark(name: &str) -> u32 {
    FixedState::default().hash_one(name) as u32
}

impl<'t> Document<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it and where, without a word of what stands there.
    pub(super) fn parse(bytes: &'t [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
            format!("no JSON at line {line} column {column}: it is not UTF-8")
        })?;
        let mut document = Self::default();
        document.entries.reserve(bytes.len() / BYTES_PER_VALUE + 1);
        let mut reader = serde_json::Deserializer::from_str(text);
        let seed = Seed { document: &mut document, name: Cow::Borrowed(""), mark: 0, depth: DEPTH };
        seed.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Data => error.to_string(),
                _ => format!("no JSON at line {} column {}", error.line(), error.column()),
            };
            what.chars().take(200).collect::<String>()
        })?;
        Ok(document)
    }

    /// Of a value. Of members that stand twice there are none in it.
    pub(super) fn of(value: &'t Value) -> Self {
        let mut document = Self::default();
        document.add(Cow::Borrowed(""), value);
        document
    }

    fn add(&mut self, name: Cow<'t, str>, value: &'t Value) {
        let mark = mark(&name);
        match value {
            Value::Null => self.push(name, mark, Data::Null),
            Value::Bool(value) => self.push(name, mark, Data::Bool(*value)),
            Value::Number(number) => self.push(name, mark, Data::Number(number.clone())),
            Value::String(text) => self.push(name, mark, Data::String(Cow::Borrowed(text))),
            Value::Array(items) => {
                let at = self.open(name, mark);
                items.iter().for_each(|item| self.add(Cow::Borrowed(""), item));
                self.close_array(at, items.len());
            }
            Value::Object(members) => {
                let at = self.open(name, mark);
                members.iter().for_each(|(name, value)| self.add(Cow::Borrowed(name), value));
                self.close_object(at, members.len());
            }
        }
    }

    /// The value that all others are in.
    pub(super) fn root(&self) -> Element<'_> {
        Element { document: self, at: 0 }
    }

    fn push(&mut self, name: Cow<'t, str>, mark: u32, data: Data<'t>) {
        let end = number(self.entries.len() + 1);
        self.entries.push(Entry { name, mark, end, data });
    }

    /// Begins a list or an object; says where.
    fn open(&mut self, name: Cow<'t, str>, mark: u32) -> usize {
        self.push(name, mark, Data::Null);
        self.entries.len() - 1
    }

    fn close_array(&mut self, at: usize, items: usize) {
        self.close(at, Data::Array(number(items)));
    }

    /// Whether each member of the object stands but once in it.
    fn close_object(&mut self, at: usize, members: usize) -> bool {
        let first = self.ordered.len();
        self.close(at, Data::Object { members: number(members), ordered: number(first) });
        if members > FEW {
            self.put_in_order(at, members);
            return self.ordered[first..].windows(2).all(|two| {
                marked(two[0]) != marked(two[1]) || self.name(two[0]) != self.name(two[1])
            });
        }
        let entries = &self.entries;
        let mut seen = [0; FEW];
        for (count, at) in Inside::of(entries, at, members).enumerate() {
            let this = &entries[at as usize];
            let same = |other: &u32| {
                let other = &entries[*other as usize];
                other.mark == this.mark && other.name == this.name
            };
            if seen[..count].iter().any(same) {
                return false;
            }
            seen[count] = at;
        }
        true
    }

    fn put_in_order(&mut self, at: usize, members: usize) {
        let Self { entries, ordered: all } = self;
        let first = all.len();
        let inside = Inside::of(entries, at, members);
        all.extend(inside.map(|at| ordered(entries[at as usize].mark, at)));
        let these = &mut all[first..];
        these.sort_unstable();
        for alike in these.chunk_by_mut(|a, b| marked(*a) == marked(*b)) {
            if alike.len() > 1 {
                let name = |one: &u64| &*entries[placed(*one) as usize].name;
                alike.sort_unstable_by(|a, b| name(a).cmp(name(b)));
            }
        }
    }

    /// Of a member in `ordered`.
    fn name(&self, one: u64) -> &str {
        &self.entries[placed(one) as usize].name
    }

    fn close(&mut self, at: usize, data: Data<'t>) {
        let end = number(self.entries.len());
        let entry = &mut self.entries[at];
        entry.end = end;
        entry.data = data;
    }
}

/// As it stands in an entry: nobody has memory for so many values that they would not fit.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than four billion values")
}

/// Places of the items of a list or the members of an object.
struct Inside<'d> {
    entries: &'d [Entry<'d>],
    next: u32,
    left: usize,
}

impl<'d> Inside<'d> {
    fn of(entries: &'d [Entry<'d>], at: usize, count: usize) -> Self {
        Self { entries, next: number(at + 1), left: count }
    }
}

impl Iterator for Inside<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        self.next = self.entries[at as usize].end;
        Some(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Reads one value into the list.
struct Seed<'d, 't> {
    document: &'d mut Document<'t>,
    name: Cow<'t, str>,
    mark: u32,
    depth: usize,
}

impl<'t> Seed<'_, 't> {
    fn push(self, data: Data<'t>) {
        self.document.push(self.name, self.mark, data);
    }

    fn below<E: Error>(&self) -> Result<usize, E> {
        let deep = || E::custom(format_args!("nested deeper than {DEPTH} levels"));
        self.depth.checked_sub(1).ok_or_else(deep)
    }
}

impl<'t> DeserializeSeed<'t> for Seed<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Seed<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.push(Data::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push(Data::Bool(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push(Data::Number(value.into()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push(Data::Number(value.into()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.push(Number::from_f64(value).map_or(Data::Null, Data::Number));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'t str) -> Result<(), E> {
        self.push(Data::String(Cow::Borrowed(text)));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.push(Data::String(Cow::Owned(text.to_owned())));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.below::<A::Error>()?;
        let Self { document, name, mark, .. } = self;
        let at = document.open(name, mark);
        let mut count = 0;
        while let Some(()) = items.next_element_seed(Seed {
            document: &mut *document,
            name: Cow::Borrowed(""),
            mark: 0,
            depth,
        })? {
            count += 1;
        }
        document.close_array(at, count);
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<(), A::Error> {
        let depth = self.below::<A::Error>()?;
        let Self { document, name, mark, .. } = self;
        let at = document.open(name, mark);
        let mut count = 0;
        while let Some(name) = members.next_key_seed(Name)? {
            let mark = self::mark(&name);
            members.next_value_seed(Seed { document: &mut *document, name, mark, depth })?;
            count += 1;
        }
        if document.close_object(at, count) {
            return Ok(());
        }
        Err(Error::custom("a member stands twice in the object that ends"))
    }
}

/// Reads the name of a member.
struct Name;

impl<'t> DeserializeSeed<'t> for Name {
    type Value = Cow<'t, str>;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Cow<'t, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'t> for Name {
    type Value = Cow<'t, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, name: &'t str) -> Result<Cow<'t, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'t, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Documents, as schemas are compared with them.
pub(crate) struct Documents;

/// The name of a member that a schema asks for.
pub(crate) struct Key {
    name: Box<str>,
    mark: u32,
}

impl Json for Documents {
    type Node<'d> = Element<'d>;
    type PreparedKey = Key;
    type StringBuffer = Text;

    /// As with trees: comparing a name with a few others is about half as much as finding one.
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
        document.push(Cow::Borrowed(""), 0, Data::String(Cow::Owned(string.to_owned())));
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
    fn entry(self) -> &'d Entry<'d> {
        &self.document.entries[self.at as usize]
    }

    fn data(self) -> &'d Data<'d> {
        &self.entry().data
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
            Data::Object { members, ordered } => Some(Members { of: *self, members, ordered }),
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
            Data::String(text) => Some(Cow::Borrowed(text)),
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
        match self.data() {
            Data::String(text) if text.is_ascii() => Some(text.len() as u64),
            Data::String(text) => Some(text.chars().count() as u64),
            _ => None,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.data(), expected) {
            (Data::Null, Value::Null) => true,
            (Data::Bool(value), Value::Bool(expected)) => value == expected,
            (Data::String(text), Value::String(expected)) => text == expected,
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
            Data::String(text) => Value::String(text.clone().into_owned()),
            Data::Array(items) => {
                self.inside(*items).map(|item| item.to_value().into_owned()).collect()
            }
            Data::Object { members, .. } => {
                let named = self.inside(*members).map(|member| {
                    (member.entry().name.clone().into_owned(), member.to_value().into_owned())
                });
                Value::Object(named.collect())
            }
        })
    }

    /// Only how many items there are is ever told of a value that is wrong; a copy of each, one in
    /// the other, would be much work.
    fn lazy_value(&self) -> LazyInstance<'d> {
        let items = match self.data() {
            Data::Array(items) => *items,
            _ => 0,
        };
        let make = |_: &[u8], items: u32| Value::Array(vec![Value::Null; items as usize]);
        LazyInstance::Deferred { bytes: &[], tag: items, make, cell: OnceLock::new() }
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
    ordered: u32,
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
            return self.of.inside(self.members).find(|element| {
                let entry = element.entry();
                entry.mark == key.mark && *entry.name == *key.name
            });
        }
        let all = document.ordered.get(self.ordered as usize..)?.get(..self.len())?;
        let mark = u64::from(key.mark);
        let from = &all[all.partition_point(|one| *one < ordered(key.mark, 0))..];
        let first = *from.first().filter(|one| marked(**one) == mark)?;
        if document.name(first) == &*key.name {
            return Some(Element { document, at: placed(first) });
        }
        // Marks that are the same are few, unless somebody made the names so.
        let alike = &from[..from.partition_point(|one| marked(*one) == mark)];
        let found = alike.binary_search_by(|one| document.name(*one).cmp(&key.name)).ok()?;
        Some(Element { document, at: placed(alike[found]) })
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
        Some((&element.entry().name, element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonschema_value::{Node as _, Object as _};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_document_is_what_the_library_takes_for_json() {
        let value = jsonschema_value::conformance::document();
        let text = value.to_string();
        for document in [Document::of(&value), Document::parse(text.as_bytes()).unwrap()] {
            jsonschema_value::conformance::assert_conformance::<Documents>(&document.root());
        }
    }

    #[test]
    fn members_that_stand_twice_are_found_among_few_and_many() {
        for count in [1, FEW - 1, FEW, FEW + 1, 1000] {
            let members = (0..count).map(|i| format!(r#""m{i}": {{"m0": [1, {{}}]}}"#));
            let members: Vec<_> = members.collect();
            let once = format!("{{{}}}", members.join(","));
            assert!(Document::parse(once.as_bytes()).is_ok(), "{count}");
            for twice in [r#""m0""#, r#""\u006d0""#] {
                let twice = format!("{{{},{twice}: 1}}", members.join(","));
                let why = Document::parse(twice.as_bytes()).unwrap_err();
                assert!(why.starts_with("a member stands twice"), "{why}");
                assert!(why.ends_with(&format!("at line 1 column {}", twice.len())), "{why}");
            }
        }
    }

    #[test]
    fn members_with_the_same_mark_are_told_apart() {
        let mut document = Document::default();
        let at = document.open(Cow::Borrowed(""), 0);
        let names: Vec<String> = (0..100).map(|i| format!("m{}", i * 7 % 100)).collect();
        for name in &names {
            document.push(Cow::Borrowed(name), 5, Data::String(Cow::Borrowed(name)));
        }
        assert!(document.close_object(at, names.len()));
        let members = document.root().as_object().unwrap();
        for name in &names {
            let found = members.get(&Key { name: name.as_str().into(), mark: 5 }).unwrap();
            assert_eq!(found.as_string().as_deref(), Some(name.as_str()));
        }
        assert!(members.get(&Key { name: "m100".into(), mark: 5 }).is_none());
        let mut twice = Document::default();
        let at = twice.open(Cow::Borrowed(""), 0);
        for name in names.iter().chain(&names[50..51]) {
            twice.push(Cow::Borrowed(name), 5, Data::Null);
        }
        assert!(!twice.close_object(at, names.len() + 1));
    }

    #[test]
    fn what_is_no_utf_8_says_where() {
        let why = Document::parse(b"{\n  \"a\": \"\xff\"}").unwrap_err();
        assert_eq!(why, "no JSON at line 2 column 9: it is not UTF-8");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 120, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::hash_map(".{0,3}", inner, 0..20)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(value in values()) {
            let text = value.to_string();
            let read = Document::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&*read.root().to_value(), &value);
            let made = Document::of(&value);
            prop_assert_eq!(&*made.root().to_value(), &value);
            if let (Some(members), Value::Object(object)) = (read.root().as_object(), &value) {
                for (name, value) in object {
                    let found = members.get(&Documents::prepare_key(name)).unwrap();
                    prop_assert_eq!(&*found.to_value(), value);
                    let other = Documents::prepare_key(&format!("{name}-"));
                    prop_assert_eq!(members.get(&other).is_some(), object.contains_key(&format!("{name}-")));
                }
            }
        }
    }

    #[test]
    fn equal_is_what_is_equal_as_json() {
        let values = [
            json!(null),
            json!(false),
            json!(0),
            json!(1),
            json!("1"),
            json!([]),
            json!([1]),
            json!({}),
            json!({"a": [1]}),
        ];
        for (i, one) in values.iter().enumerate() {
            for (j, other) in values.iter().enumerate() {
                assert_eq!(Document::of(one).root().equals_value(other), i == j, "{one} {other}");
            }
        }
        assert!(Document::of(&json!(1)).root().equals_value(&json!(1.0)));
    }
}
