//! Reads the members of a checked mapping. Invalid values are absent here; the check reports them.

use std::str::FromStr;
use std::time::Duration;
use weir_document::draft::{Meaning, Member, Node};
use weir_document::units;

/// A mapping.
#[derive(Clone, Copy)]
pub(super) struct Fields<'n>(pub(super) &'n Node);

impl<'n> Fields<'n> {
    /// The value of a key, unless missing or null.
    pub(super) fn get(self, key: &str) -> Option<&'n Node> {
        self.0.get(key).filter(|node| !node.is_null())
    }

    /// The mapping under a key.
    pub(super) fn object(self, key: &str) -> Option<Fields<'n>> {
        self.get(key).filter(|node| node.members().is_some()).map(Fields)
    }

    /// The members of the mapping under a key.
    pub(super) fn members(self, key: &str) -> &'n [Member] {
        self.get(key).and_then(Node::members).unwrap_or_default()
    }

    /// The items of a list, or a single item.
    pub(super) fn many(self, key: &str) -> &'n [Node] {
        match self.get(key) {
            Some(node) => node.items().unwrap_or(std::slice::from_ref(node)),
            None => &[],
        }
    }

    pub(super) fn text(self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    pub(super) fn choice<T: FromStr>(self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    pub(super) fn owned(self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    pub(super) fn bool(self, key: &str, default: bool) -> bool {
        match self.get(key).and_then(Node::scalar).map(|scalar| scalar.meaning()) {
            Some(Meaning::Bool(value)) => value,
            _ => default,
        }
    }

    pub(super) fn integer<T: TryFrom<u64>>(self, key: &str) -> Option<T> {
        self.get(key)?.scalar()?.integer()?.try_into().ok()
    }

    pub(super) fn duration(self, key: &str) -> Option<Duration> {
        units::duration(self.text(key)?).ok()
    }

    /// Bytes, with a unit or without.
    pub(super) fn size(self, key: &str) -> Option<u64> {
        self.integer(key).or_else(|| units::size(self.text(key)?).ok())
    }

    /// A share: 0.05 for `5%`; a number is used as is.
    pub(super) fn share(self, key: &str) -> Option<f64> {
        let text = self.text(key)?;
        let percent = units::percent(text).ok().map(|hundredths| f64::from(hundredths) / 10_000.0);
        percent.or_else(|| text.parse().ok())
    }

    /// A rate in iterations per second.
    pub(super) fn rate(self, key: &str) -> Option<f64> {
        rate(self.get(key)?)
    }

    /// Texts of a list of scalars.
    pub(super) fn texts(self, key: &str) -> Vec<String> {
        self.many(key).iter().filter_map(Node::text).map(str::to_owned).collect()
    }

    /// Names and values of a mapping of scalars.
    pub(super) fn pairs(self, key: &str) -> Vec<(String, String)> {
        let pairs = self.members(key).iter();
        pairs.filter_map(|m| Some((m.key.clone(), m.value.text()?.to_owned()))).collect()
    }
}

/// `100/s`, or a number per second.
pub(super) fn rate(node: &Node) -> Option<f64> {
    if let Some(number) = node.scalar()?.integer() {
        return Some(number as f64);
    }
    let (count, per) = units::rate(node.text()?).ok()?;
    Some(count as f64 / per.as_secs_f64())
}
