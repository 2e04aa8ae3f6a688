//! Reading the members of a mapping whose shape has been checked.

use crate::draft::{Data, Meaning, Member, Node};
use crate::shape::Shape;
use crate::units;
use std::time::Duration;

/// A mapping and its shape. Everything malformed reads as absent: the check has reported it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'n> {
    node: &'n Node,
    shape: &'static Shape,
}

impl<'n> Fields<'n> {
    pub(super) fn new(node: &'n Node, shape: &'static Shape) -> Self {
        Self { node, shape }
    }

    /// The mapping itself.
    pub(super) fn node(&self) -> &'n Node {
        self.node
    }

    /// The value of a key, if there is one.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key).filter(|n| !n.is_null() && !n.is_lost())
    }

    /// The value of a key, also null: a JSON value can be that.
    pub(super) fn raw(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.key(key).is_some(), "{} has no key {key}", self.shape.name);
        self.node.get(key)
    }

    /// The mapping under a key.
    pub(super) fn object(&self, key: &str, shape: &'static Shape) -> Option<Self> {
        self.get(key).filter(|n| n.members().is_some()).map(|n| Fields::new(n, shape))
    }

    pub(super) fn text(&self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    /// A text that is one line or a secret: the line break at the end of a file is no part of it.
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

    /// The whole numbers of a list, or the one that stands for it.
    pub(super) fn numbers<T: TryFrom<u64>>(&self, key: &str) -> Option<Vec<T>> {
        self.get(key)?;
        let numbers = self.many(key).iter().filter_map(|n| n.scalar()?.integer()?.try_into().ok());
        Some(numbers.collect())
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        units::duration(self.text(key)?).ok()
    }

    pub(super) fn seconds(&self, key: &str, default: u64) -> Duration {
        self.duration(key).unwrap_or(Duration::from_secs(default))
    }

    pub(super) fn size(&self, key: &str) -> Option<u64> {
        units::size(self.text(key)?).ok()
    }

    /// The items of a list, or the one item that stands for a list.
    pub(super) fn many(&self, key: &str) -> &'n [Node] {
        match self.get(key) {
            Some(Node { data: Data::List(items), .. }) => items,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        }
    }

    /// The texts of a list, or the one text that stands for it.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.many(key).iter().filter_map(|n| n.text()).map(str::to_owned).collect()
    }

    /// The members of the mapping under a key.
    pub(super) fn members(&self, key: &str) -> &'n [Member] {
        self.get(key).and_then(Node::members).unwrap_or_default()
    }
}

/// An empty mapping, to read defaults from.
pub(super) fn nothing() -> &'static Node {
    static NOTHING: Node = Node {
        at: crate::source_map::Span {
            file: crate::source_map::FileId(0),
            line: 1,
            column: 1,
            width: 1,
            until: None,
        },
        data: Data::Map(Vec::new()),
    };
    &NOTHING
}
