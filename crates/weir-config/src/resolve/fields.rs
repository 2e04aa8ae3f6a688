//! Reads the members of a mapping whose shape has been checked.

use std::borrow::Cow;
use std::time::Duration;
use weir_document::draft::{Data, Meaning, Member, Node};
use weir_document::shape::typed::{Defaulted, Typed, literal};
use weir_document::shape::{Key, Shape};
use weir_document::source_map::Span;
use weir_document::units;

/// A mapping and its shape. Malformed values read as absent: the check has reported them.
#[derive(Clone, Copy)]
pub(super) struct Fields<'n> {
    node: &'n Node,
    shape: &'static Shape,
}

impl<'n> Fields<'n> {
    pub(super) fn new(node: &'n Node, shape: &'static Shape) -> Self {
        Self { node, shape }
    }

    /// An empty mapping, to read defaults from.
    pub(super) fn empty(shape: &'static Shape) -> Self {
        static NOTHING: Node = Node { at: Span::NOWHERE, data: Data::Map(Vec::new()) };
        Self { node: &NOTHING, shape }
    }

    /// The mapping itself.
    pub(super) fn node(&self) -> &'n Node {
        self.node
    }

    /// The value of a key, if present.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key).filter(|n| !n.is_null() && !n.is_lost())
    }

    /// The value of a key, also null, which is a JSON value.
    pub(super) fn raw(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key)
    }

    /// The value of a key, or its default.
    pub(super) fn read<T>(&self, key: &Defaulted<T>) -> T {
        key.parse(self.get(key.key.name))
    }

    /// The value of a key, if present.
    pub(super) fn written<T>(&self, key: &Defaulted<T>) -> Option<T> {
        self.get(key.key.name).map(|node| key.parse(Some(node)))
    }

    /// The value of a key without a default, if present.
    pub(super) fn optional<T>(&self, key: &Typed<T>) -> Option<T> {
        key.parse(self.get(key.key.name)?)
    }

    /// The node of a key, or its default as a node.
    pub(super) fn or_default(&self, key: &Key) -> Cow<'n, Node> {
        match self.get(key.name) {
            Some(node) => Cow::Borrowed(node),
            None => Cow::Owned(literal(key.default.unwrap_or_default())),
        }
    }

    /// The mapping under a key, or an empty one, to read defaults from.
    pub(super) fn object_or_empty(&self, key: &str, shape: &'static Shape) -> Self {
        self.object(key, shape).unwrap_or_else(|| Self::empty(shape))
    }

    /// The mapping under a key.
    pub(super) fn object(&self, key: &str, shape: &'static Shape) -> Option<Self> {
        self.get(key).filter(|n| n.members().is_some()).map(|n| Fields::new(n, shape))
    }

    pub(super) fn text(&self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    /// A string of one line, or a secret: without the line break at the end of a file.
    pub(super) fn line(&self, key: &str) -> Option<&'n str> {
        self.text(key).map(|t| t.trim_end_matches(['\r', '\n']))
    }

    pub(super) fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)?.scalar()?.meaning() {
            Meaning::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        self.get(key)?.scalar()?.integer()
    }

    pub(super) fn number<T: TryFrom<u64>>(&self, key: &str, default: T) -> T {
        self.integer(key).and_then(|n| n.try_into().ok()).unwrap_or(default)
    }

    /// The integers of a list, or a single one.
    pub(super) fn numbers<T: TryFrom<u64>>(&self, key: &str) -> Option<Vec<T>> {
        self.get(key)?;
        let numbers = self.many(key).iter().filter_map(|n| n.scalar()?.integer()?.try_into().ok());
        Some(numbers.collect())
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        units::duration(self.text(key)?).ok()
    }

    pub(super) fn size(&self, key: &str) -> Option<u64> {
        units::size(self.text(key)?).ok()
    }

    /// The items of a list, or a single value as the only item.
    pub(super) fn many(&self, key: &str) -> &'n [Node] {
        match self.get(key) {
            Some(Node { data: Data::List(items), .. }) => items,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        }
    }

    /// The strings of a list, or a single one.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.many(key).iter().filter_map(|n| n.text()).map(str::to_owned).collect()
    }

    /// The members of the mapping under a key.
    pub(super) fn members(&self, key: &str) -> &'n [Member] {
        self.get(key).and_then(Node::members).unwrap_or_default()
    }
}
