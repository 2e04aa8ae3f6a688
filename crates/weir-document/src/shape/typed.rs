//! Keys with the type of their value. The parser of the value also parses the default, which is a
//! string as users write it: check, schema, reference and value come from one description.

use super::{Key, Kind, format};
use crate::draft::{Data, Meaning, Member, Node, Scalar};
use crate::source_map::Span;
use crate::units;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;
use weir_model::Choice;

/// Parses a checked value: malformed values read as absent.
pub type Parse<T> = fn(&Node) -> Option<T>;

/// A key with a value of type `T`, if written.
pub struct Typed<T> {
    /// The description for check, schema and reference.
    pub key: Key,
    parse: Parse<T>,
}

/// A key with a value of type `T`, written or by default.
pub struct Defaulted<T> {
    /// The description for check, schema and reference.
    pub key: Key,
    parse: Parse<T>,
    default: &'static str,
}

impl<T> Typed<T> {
    /// A key whose value is parsed by `parse`.
    pub const fn new(key: Key, parse: Parse<T>) -> Self {
        Self { key, parse }
    }

    /// Makes the key required.
    pub const fn required(mut self) -> Self {
        self.key.required = true;
        self
    }

    /// Sets the default, as written.
    pub const fn default(mut self, default: &'static str) -> Defaulted<T> {
        self.key.default = Some(default);
        Defaulted { key: self.key, parse: self.parse, default }
    }

    /// The value at a node.
    pub fn parse(&self, node: &Node) -> Option<T> {
        (self.parse)(node)
    }
}

impl<T> Defaulted<T> {
    /// The value at a node, or the default.
    pub fn parse(&self, written: Option<&Node>) -> T {
        written
            .and_then(self.parse)
            .or_else(|| (self.parse)(&literal(self.default)))
            .expect("the default of a key is valid")
    }
}

/// A default as a node: a scalar, `[a, b]` or `{key: a, key: b}`.
pub fn literal(text: &str) -> Node {
    let at = Span::NOWHERE;
    let within = |open, close| Some(text.strip_prefix(open)?.strip_suffix(close)?.split(", "));
    let data = if let Some(items) = within('[', ']') {
        Data::List(items.map(literal).collect())
    } else if let Some(members) = within('{', '}') {
        let pairs = members.filter_map(|member| member.split_once(": "));
        let member =
            |(key, value): (&str, &str)| Member { key: key.to_owned(), at, value: literal(value) };
        Data::Map(pairs.map(member).collect())
    } else {
        let text = text.to_owned();
        Data::Scalar(Scalar { text, plain: true, from_file: false, lost: false })
    };
    Node { at, data }
}

/// Maximum number of names of a [`Choice`].
const MAX_NAMES: usize = 8;

/// The names of a [`Choice`].
struct Words<T>(PhantomData<T>);

impl<T: Choice> Words<T> {
    const PADDED: [&'static str; MAX_NAMES] = {
        let mut words = [""; MAX_NAMES];
        let mut at = 0;
        while at < T::CHOICES.len() {
            words[at] = T::CHOICES[at].0;
            at += 1;
        }
        words
    };
    const ALL: &'static [&'static str] = Self::PADDED.split_at(T::CHOICES.len()).0;
    const KIND: &'static Kind = &Kind::Enum(Self::ALL);
}

fn choice_of<T: Choice>(node: &Node) -> Option<T> {
    let text = node.text()?;
    T::CHOICES.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

/// The items of a list, or a single item.
pub fn items(node: &Node) -> &[Node] {
    node.items().unwrap_or(std::slice::from_ref(node))
}

/// The names of an enumeration.
pub const fn words<T: Choice>() -> &'static [&'static str] {
    Words::<T>::ALL
}

/// A value of an enumeration.
pub const fn choice<T: Choice>(name: &'static str, doc: &'static str) -> Typed<T> {
    Typed::new(Key::new(name, Kind::Enum(Words::<T>::ALL), doc), choice_of)
}

/// A value of an enumeration described by `kind`.
pub const fn choice_among<T: Choice>(
    name: &'static str,
    kind: Kind,
    doc: &'static str,
) -> Typed<T> {
    Typed::new(Key::new(name, kind, doc), choice_of)
}

/// Values of an enumeration, or a single one.
pub const fn choices<T: Choice>(name: &'static str, doc: &'static str) -> Typed<Vec<T>> {
    Typed::new(Key::new(name, Kind::OneOrMany(Words::<T>::KIND), doc), |node| {
        Some(items(node).iter().filter_map(choice_of).collect())
    })
}

/// `true` or `false`.
pub const fn boolean(name: &'static str, doc: &'static str) -> Typed<bool> {
    Typed::new(Key::new(name, Kind::Bool, doc), |node| match node.scalar()?.meaning() {
        Meaning::Bool(value) => Some(value),
        _ => None,
    })
}

fn number_of<T: TryFrom<u64>>(node: &Node) -> Option<T> {
    node.scalar()?.integer()?.try_into().ok()
}

/// An integer in a range, including both ends.
pub const fn integer<T: TryFrom<u64>>(
    name: &'static str,
    (min, max): (u64, u64),
    doc: &'static str,
) -> Typed<T> {
    Typed::new(Key::new(name, Kind::Integer(min, max), doc), number_of)
}

/// Integers, or a single one.
pub fn integers_of<T: TryFrom<u64>>(node: &Node) -> Option<Vec<T>> {
    Some(items(node).iter().filter_map(number_of).collect())
}

fn duration_of(node: &Node) -> Option<Duration> {
    units::duration(node.text()?).ok()
}

/// A duration, possibly zero.
pub const fn duration(name: &'static str, doc: &'static str) -> Typed<Duration> {
    Typed::new(Key::new(name, Kind::Format(format::DURATION), doc), duration_of)
}

/// A duration above zero.
pub const fn positive(name: &'static str, doc: &'static str) -> Typed<Duration> {
    Typed::new(Key::new(name, Kind::Format(format::POSITIVE_DURATION), doc), duration_of)
}

/// A duration above zero; `none` means no limit.
pub const fn time_limit(name: &'static str, doc: &'static str) -> Typed<Option<Duration>> {
    const KIND: Kind =
        Kind::Either(&[Kind::Enum(&["none"]), Kind::Format(format::POSITIVE_DURATION)]);
    Typed::new(Key::new(name, KIND, doc), |node| match node.text()? {
        "none" => Some(None),
        _ => duration_of(node).map(Some),
    })
}

/// A size in bytes.
pub const fn size<T: TryFrom<u64>>(name: &'static str, doc: &'static str) -> Typed<T> {
    Typed::new(Key::new(name, Kind::Format(format::SIZE), doc), |node| {
        units::size(node.text()?).ok()?.try_into().ok()
    })
}

/// A percentage, in hundredths of a percent.
pub const fn percent(name: &'static str, doc: &'static str) -> Typed<u32> {
    Typed::new(Key::new(name, Kind::Format(format::PERCENT), doc), |node| {
        units::percent(node.text()?).ok()
    })
}

/// An address with a port.
pub const fn address(name: &'static str, doc: &'static str) -> Typed<SocketAddr> {
    Typed::new(Key::new(name, Kind::Format(format::ADDRESS), doc), |node| node.text()?.parse().ok())
}

fn text_of(node: &Node) -> Option<String> {
    node.text().map(str::to_owned)
}

/// A string of any kind.
pub const fn text(name: &'static str, kind: Kind, doc: &'static str) -> Typed<String> {
    Typed::new(Key::new(name, kind, doc), text_of)
}

/// Strings, or a single one.
pub fn texts_of(node: &Node) -> Option<Vec<String>> {
    Some(items(node).iter().filter_map(text_of).collect())
}

/// Strings, or a single one; `kind` describes both.
pub const fn texts(name: &'static str, kind: Kind, doc: &'static str) -> Typed<Vec<String>> {
    Typed::new(Key::new(name, kind, doc), texts_of)
}
