//! What distinguishes a group of transactions from the others.

mod attribute;
mod merge;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{Address, Transaction};

use crate::error::Error;
use crate::index::Index;
use crate::nodes::Nodes;
use crate::part::bitmap::Bitmap;
use crate::query::{Node, Query};
use crate::search::check::Subject;
use crate::search::difference::attribute::{ATTRIBUTES, is_part_of};
use crate::search::evaluate::View;
use crate::search::visit::Visitor;

/// Most transactions of each side that are compared: the newest.
const MAX_COMPARED: usize = 50_000;
/// Transactions that are read from the journal together.
const BATCH: usize = 1024;
/// Most values of an attribute that are counted, and most business keys.
const MAX_COUNTED: usize = 1 << 14;
const MAX_KEYS: usize = 64;
/// Most values of an attribute in the result.
const MAX_VALUES: usize = 20;
/// A difference of shares counts if it is this many times its standard error: chance alone makes one of some
/// hundred values differ so much.
const SIGNIFICANT: f64 = 3.5;

/// What distinguishes the hits of a query from other transactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// Number of transactions of the group that were compared, the newest first, at most 50,000 of a node.
    pub group: u64,
    /// Number of the other ones.
    pub rest: u64,
    /// Attributes in the order of their difference, those without a significant one last.
    pub attributes: Vec<Attribute>,
    /// There are more transactions than were compared.
    pub cut: bool,
    /// As in [`super::Hits`].
    pub incomplete: bool,
    /// A query searches payloads, or business keys were requested.
    pub payload: bool,
    /// The nodes that the counts are from, in a query over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// An attribute of transactions on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attribute {
    /// A field of the query language, or `path`, `request_size`, `retries`.
    pub field: String,
    /// The largest significant difference of the shares of a value, 0 to 1; 0 without one.
    pub difference: f64,
    /// Values, those that differ most first, at most 20.
    pub values: Vec<Share>,
    /// There are more values.
    pub more: bool,
}

/// Numbers of transactions with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The value; empty: the attribute is absent.
    pub value: String,
    /// Transactions of the group with it.
    pub group: u64,
    /// Other transactions with it.
    pub rest: u64,
}

impl Share {
    /// The difference of the shares on both sides, and whether it is significant: by the z-test for two
    /// proportions with a pooled variance.
    fn difference(&self, group: u64, rest: u64) -> (f64, bool) {
        let (all_group, all_rest) = (group as f64, rest as f64);
        let difference = self.group as f64 / all_group - self.rest as f64 / all_rest;
        let pooled = (self.group + self.rest) as f64 / (all_group + all_rest);
        let error = (pooled * (1.0 - pooled) * (1.0 / all_group + 1.0 / all_rest)).sqrt();
        (difference, error > 0.0 && difference.abs() >= SIGNIFICANT * error)
    }
}

impl Attribute {
    /// From the values on both sides, `group` and `rest` transactions.
    fn new(field: &str, mut values: Vec<Share>, more: bool, (group, rest): (u64, u64)) -> Self {
        let difference = |share: &Share| match share.difference(group, rest) {
            (difference, true) => difference.abs(),
            _ => 0.0,
        };
        let largest = values.iter().map(difference).fold(0.0, f64::max);
        values.sort_by_cached_key(|share| {
            let (difference, is_significant) = share.difference(group, rest);
            let size = (difference.abs() * 1e9).round() as u64;
            // Of equal differences first what the group has more often.
            (!is_significant, Reverse(size), difference < 0.0, share.value.clone())
        });
        let more = more || values.len() > MAX_VALUES;
        values.truncate(MAX_VALUES);
        Self { field: field.to_owned(), difference: largest, values, more }
    }
}

/// Numbers of transactions by the values of an attribute.
#[derive(Debug, Default)]
struct Values {
    counts: HashMap<String, u64>,
    more: bool,
}

impl Values {
    fn count(&mut self, value: &str) {
        if let Some(count) = self.counts.get_mut(value) {
            *count += 1;
        } else if self.counts.len() < MAX_COUNTED {
            self.counts.insert(value.to_owned(), 1);
        } else {
            self.more = true;
        }
    }

    /// Counts those of `all` transactions that have no value.
    fn count_absent(&mut self, all: u64) {
        let present: u64 = self.counts.values().sum();
        if present < all && !self.more {
            self.counts.insert(String::new(), all - present);
        }
    }
}

/// The values of one side.
struct Side<'a> {
    index: &'a Index,
    compared: usize,
    attributes: [Values; ATTRIBUTES.len()],
    /// By business key, if requested.
    keys: Option<HashMap<String, Values>>,
    /// Rows of the part that is being visited, which are read when it is passed.
    unread: Vec<Address>,
    /// There were more hits than are compared.
    is_truncated: bool,
}

impl<'a> Side<'a> {
    fn new(index: &'a Index, keys: bool) -> Self {
        let keys = keys.then(HashMap::new);
        Self {
            index,
            compared: 0,
            attributes: std::array::from_fn(|_| Values::default()),
            keys,
            unread: Vec::new(),
            is_truncated: false,
        }
    }

    fn room(&self) -> usize {
        MAX_COMPARED.saturating_sub(self.compared)
    }

    fn count(&mut self, transaction: &Transaction) {
        self.compared += 1;
        for (values, attribute) in self.attributes.iter_mut().zip(&ATTRIBUTES) {
            values.count(&(attribute.value)(transaction));
        }
    }

    fn count_key(&mut self, name: &str, value: &str) {
        let Some(keys) = &mut self.keys else { return };
        if !keys.contains_key(name) && keys.len() < MAX_KEYS {
            keys.insert(name.to_owned(), Values::default());
        }
        if let Some(values) = keys.get_mut(name) {
            values.count(value);
        }
    }
}

impl Visitor for Side<'_> {
    fn uses_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn rows(&mut self, view: &View<'_>, rows: &Bitmap) -> Result<(), Error> {
        let rows: Vec<usize> = rows.rows().collect();
        let newest = &rows[rows.len().saturating_sub(self.room())..];
        self.is_truncated |= newest.len() < rows.len();
        self.unread = view.addresses(newest)?;
        if let (true, Some(first)) = (self.keys.is_some(), newest.first()) {
            let mut counted = Bitmap::none(view.rows());
            newest.iter().for_each(|row| counted.add(*row));
            let keys = view.keys()?;
            let of_hits = keys.iter().filter(|(row, ..)| row >= first && counted.contains(*row));
            of_hits.for_each(|(_, name, value)| self.count_key(name, value));
        }
        Ok(())
    }

    fn hit(&mut self, subject: &Subject<'_>) {
        if self.room() == 0 {
            self.is_truncated = true;
            return;
        }
        self.count(subject.transaction);
        for (name, value) in &subject.transaction.keys {
            self.count_key(name, value);
        }
    }

    fn part_ends(&mut self, deadline: Instant) -> Result<bool, Error> {
        let mut addresses = std::mem::take(&mut self.unread);
        addresses.sort_unstable();
        for addresses in addresses.rchunks(BATCH) {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            for transaction in self.index.shared.transactions(addresses, false)? {
                self.count(&transaction);
            }
        }
        Ok(true)
    }

    fn is_full(&self) -> bool {
        self.room() == 0
    }
}

impl Index {
    /// Compares the hits of `group` with the other hits of `among` for up to `budget`; business keys only if
    /// `keys`. Fields that `group` has a condition for are left out.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn difference(
        &self,
        group: &Query,
        among: &Query,
        budget: Duration,
        keys: bool,
    ) -> Result<Difference, Error> {
        let own = among.and(group.root.clone());
        let others = among.and(Node::Not(Box::new(group.root.clone())));
        let mut sides = [Side::new(self, keys), Side::new(self, keys)];
        let (mut cut, mut incomplete) = (false, false);
        for (side, query) in sides.iter_mut().zip([&own, &others]) {
            let visited = self.visit(query, budget / 2, side)?;
            cut |= visited.cut || side.is_truncated;
            incomplete |= visited.incomplete;
        }
        let [group_side, rest_side] = sides;
        let compared = (group_side.compared as u64, rest_side.compared as u64);
        let pairs = group_side.attributes.into_iter().zip(rest_side.attributes);
        let of_records = ATTRIBUTES.iter().zip(pairs).filter(|(one, _)| !is_part_of(one, group));
        let mut attributes: Vec<_> = of_records
            .map(|(attribute, (group, rest))| joined(attribute.field, group, rest, compared))
            .collect();
        let (mut group_keys, mut rest_keys) =
            (group_side.keys.unwrap_or_default(), rest_side.keys.unwrap_or_default());
        let names: BTreeSet<String> = group_keys.keys().chain(rest_keys.keys()).cloned().collect();
        for name in names.into_iter().filter(|name| !group.uses_key(name)) {
            let of = |keys: &mut HashMap<String, Values>| keys.remove(&name).unwrap_or_default();
            let (mut group, mut rest) = (of(&mut group_keys), of(&mut rest_keys));
            group.count_absent(compared.0);
            rest.count_absent(compared.1);
            attributes.push(joined(&format!("key.{name}"), group, rest, compared));
        }
        let (group, rest) = compared;
        Ok(Difference { group, rest, attributes, cut, incomplete, ..Difference::default() }
            .ranked())
    }
}

/// An attribute from its values on both sides.
fn joined(field: &str, group: Values, mut rest: Values, compared: (u64, u64)) -> Attribute {
    let more = group.more || rest.more;
    let mut values: Vec<Share> = group
        .counts
        .into_iter()
        .map(|(value, group)| {
            let rest = rest.counts.remove(&value).unwrap_or(0);
            Share { value, group, rest }
        })
        .collect();
    values.extend(rest.counts.into_iter().map(|(value, rest)| Share { value, group: 0, rest }));
    Attribute::new(field, values, more, compared)
}

impl Difference {
    /// With the attributes in the order of their difference. Those without one stay: of several nodes they may
    /// have one in all.
    fn ranked(mut self) -> Self {
        self.attributes.sort_by(|one, other| {
            other.difference.total_cmp(&one.difference).then_with(|| one.field.cmp(&other.field))
        });
        self
    }
}
