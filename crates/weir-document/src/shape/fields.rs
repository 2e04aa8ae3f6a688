//! Reads the members of a mapping whose shape has been checked.

use super::Shape;
use super::settings::literal;
use crate::draft::{Data, Meaning, Member, Node};
use crate::source_map::Span;
use crate::units;
use std::borrow::Cow;
use std::time::Duration;

/// A mapping and its shape. Malformed values read as absent: the check has reported them.
#[derive(Clone, Copy)]
pub struct Fields<'n> {
    node: &'n Node,
    shape: &'static Shape,
}

impl<'n> Fields<'n> {
    /// A checked mapping.
    pub fn new(node: &'n Node, shape: &'static Shape) -> Self {
        Self { node, shape }
    }

    /// An empty mapping, to read defaults from.
    pub fn empty(shape: &'static Shape) -> Self {
        static NOTHING: Node = Node { at: Span::NOWHERE, data: Data::Map(Vec::new()) };
        Self { node: &NOTHING, shape }
    }

    /// The mapping itself.
    pub fn node(&self) -> &'n Node {
        self.node
    }

    /// The value of a key, if present.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key).filter(|n| !n.is_null() && !n.is_lost())
    }

    /// The value of a key, also null, which is a JSON value.
    pub fn raw(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key)
    }

    /// The node of a key, or its default as a node.
    pub fn or_default(&self, key: &str) -> Cow<'n, Node> {
        let default = || self.shape.key(key).and_then(|key| key.default).unwrap_or_default();
        self.get(key).map_or_else(|| Cow::Owned(literal(default())), Cow::Borrowed)
    }

    /// A string, or the default of the key.
    pub fn text_or_default(&self, key: &str) -> String {
        self.or_default(key).text().unwrap_or_default().to_owned()
    }

    /// A string of one line, or the default of the key: without the line break at the end of a
    /// file.
    pub fn line_or_default(&self, key: &str) -> String {
        self.text_or_default(key).trim_end_matches(['\r', '\n']).to_owned()
    }

    /// The mapping under a key, or an empty one, to read defaults from.
    pub fn object_or_empty(&self, key: &str, shape: &'static Shape) -> Self {
        self.object(key, shape).unwrap_or_else(|| Self::empty(shape))
    }

    /// The mapping under a key.
    pub fn object(&self, key: &str, shape: &'static Shape) -> Option<Self> {
        self.get(key).filter(|n| n.members().is_some()).map(|n| Fields::new(n, shape))
    }

    /// A string.
    pub fn text(&self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    /// A string of one line, or a secret: without the line break at the end of a file.
    pub fn line(&self, key: &str) -> Option<&'n str> {
        self.text(key).map(|t| t.trim_end_matches(['\r', '\n']))
    }

    /// `true` or `false`.
    pub fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)?.scalar()?.meaning() {
            Meaning::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// An integer.
    pub fn integer(&self, key: &str) -> Option<u64> {
        self.get(key)?.scalar()?.integer()
    }

    /// An integer, or `default`.
    pub fn number<T: TryFrom<u64>>(&self, key: &str, default: T) -> T {
        self.integer(key).and_then(|n| n.try_into().ok()).unwrap_or(default)
    }

    /// The integers of a list, or a single one.
    pub fn numbers<T: TryFrom<u64>>(&self, key: &str) -> Option<Vec<T>> {
        self.get(key)?;
        let numbers = self.many(key).iter().filter_map(|n| n.scalar()?.integer()?.try_into().ok());
        Some(numbers.collect())
    }

    /// A duration, or the default of the key.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        units::duration(self.or_default(key).text()?).ok()
    }

    /// The items of a list, or a single value as the only item.
    pub fn many(&self, key: &str) -> &'n [Node] {
        match self.get(key) {
            Some(Node { data: Data::List(items), .. }) => items,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        }
    }

    /// The strings of a list, or a single one.
    pub fn texts(&self, key: &str) -> Vec<String> {
        self.many(key).iter().filter_map(|n| n.text()).map(str::to_owned).collect()
    }

    /// The members of the mapping under a key.
    pub fn members(&self, key: &str) -> &'n [Member] {
        self.get(key).and_then(Node::members).unwrap_or_default()
    }
}
