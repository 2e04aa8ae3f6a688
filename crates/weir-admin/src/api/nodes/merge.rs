//! Pages of several nodes as one page, newest first, with a cursor for each node.
//!
//! A node that has not responded keeps its position: a later page has its transactions, out of order.

use crate::problem::{Problem, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;
use weir_tracker::document::{Hit, Page};

/// How far the pages of a node were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::api) enum Position {
    /// Not at all.
    Start,
    /// Up to the cursor of a page of this node.
    After(String),
    /// There are no more.
    End,
}

impl Position {
    /// The cursor for the next page of the node; `None` for its first.
    pub(in crate::api) fn cursor(&self) -> Option<&str> {
        match self {
            Self::After(cursor) => Some(cursor),
            Self::Start | Self::End => None,
        }
    }
}

/// The cursor of a page of several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::api) struct Cursor {
    /// Position of the last transaction, for nodes that have joined since.
    after: Option<String>,
    nodes: BTreeMap<Uuid, Position>,
}

impl Cursor {
    /// Reads the cursor of a previous page; `None`: that of the first one.
    pub(in crate::api) fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::default()) };
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let cursor = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        cursor.ok_or_else(|| {
            Problem::bad("`cursor` must be the cursor of a previous page of the same nodes.")
        })
    }

    /// How far a node was read.
    pub(in crate::api) fn position(&self, node: Uuid) -> Position {
        let joined = || self.after.clone().map_or(Position::Start, Position::After);
        self.nodes.get(&node).cloned().unwrap_or_else(joined)
    }

    /// The cursor after what was read of nodes: up to `last`, and of each up to its position. Of other nodes
    /// it is where this one is.
    pub(in crate::api) fn continued(
        &self,
        last: Option<String>,
        positions: BTreeMap<Uuid, Position>,
    ) -> Self {
        let mut nodes = self.nodes.clone();
        nodes.extend(positions);
        Self { after: last.or_else(|| self.after.clone()), nodes }
    }

    /// The cursor as text.
    pub(in crate::api) fn text(&self) -> Option<String> {
        serde_json::to_vec(self).ok().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// A page of a node.
#[derive(Debug)]
pub(in crate::api) struct Positioned {
    pub(in crate::api) node: Uuid,
    pub(in crate::api) name: String,
    /// Where it starts.
    pub(in crate::api) position: Position,
    pub(in crate::api) page: Page,
}

/// Merges the pages of all nodes that have responded, with at most `limit` transactions. One that
/// several nodes have is shown once, with the name of the first of them. `before` is the cursor that
/// the pages start at, `silent` are the nodes that have not responded.
pub(in crate::api) fn merge(
    pages: Vec<Positioned>,
    silent: &[Uuid],
    limit: usize,
    before: &Cursor,
) -> Page {
    let mut merged = Page::default();
    let mut ends = Vec::new();
    let mut hits: Vec<(usize, Hit)> = Vec::new();
    for (index, Positioned { node, name, position, page }) in pages.into_iter().enumerate() {
        merged.cut |= page.cut;
        merged.incomplete |= page.incomplete;
        merged.payload |= page.payload;
        merged.missing = merged.missing.plus(&page.missing);
        ends.push(End { node, position, left: page.transactions.len(), next: page.next });
        hits.extend(page.transactions.into_iter().map(|mut hit| {
            hit.summary.node.clone_from(&name);
            (index, hit)
        }));
    }
    // Stable: of the same transaction, that of the first node comes first.
    hits.sort_by_key(|(_, hit)| std::cmp::Reverse((hit.summary.time, hit.summary.id.0)));
    let mut cursor = before.clone();
    for (index, hit) in hits {
        let is_shown =
            merged.transactions.last().is_some_and(|last| last.summary.id == hit.summary.id);
        if !is_shown && merged.transactions.len() == limit {
            break;
        }
        let at = hit.cursor().to_string();
        let end = &mut ends[index];
        end.left -= 1;
        end.position = Position::After(at.clone());
        if !is_shown {
            cursor.after = Some(at);
            merged.transactions.push(hit);
        }
    }
    for node in silent {
        cursor.nodes.insert(*node, before.position(*node));
    }
    // A node that stays silent does not make further pages.
    let mut is_over = true;
    for end in ends {
        let position = end.position();
        is_over &= position == Position::End;
        cursor.nodes.insert(end.node, position);
    }
    merged.next = if is_over { None } else { cursor.text() };
    merged
}

/// How far the page of a node is used up.
struct End {
    node: Uuid,
    position: Position,
    /// Transactions that are not shown yet.
    left: usize,
    /// Cursor after the page.
    next: Option<String>,
}

impl End {
    fn position(&self) -> Position {
        match (self.left, &self.next) {
            (0, Some(next)) => Position::After(next.clone()),
            (0, None) => Position::End,
            _ => self.position.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::{TransactionId, UnixMicros};
    use weir_tracker::document::Summary;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    fn hit(time: u64, id: u128) -> Hit {
        let (time, id) = (UnixMicros(time), TransactionId(id));
        Hit { summary: Summary { time, id, ..Summary::default() }, ..Hit::default() }
    }

    /// Nodes with their transactions by time, newest first; ids are times, unless they are given.
    struct Node(Uuid, &'static str, Vec<(u64, u128)>);

    impl Node {
        /// A page after a position, as a node would make it.
        fn page(&self, position: Position, limit: usize) -> Positioned {
            let after = position.cursor().map(str::to_owned);
            let is_next =
                |hit: &Hit| after.as_ref().is_none_or(|at| hit.cursor().to_string() < *at);
            let all = self.2.iter().map(|(time, id)| hit(*time, *id));
            let mut rest: Vec<Hit> = all.filter(is_next).collect();
            let more = rest.len() > limit;
            rest.truncate(limit);
            let next = rest.last().filter(|_| more).map(|last| last.cursor().to_string());
            let page = Page { transactions: rest, next, ..Page::default() };
            Positioned { node: self.0, name: self.1.to_owned(), position, page }
        }
    }

    /// All pages of a query, as times with nodes.
    fn pages(nodes: &[Node], limit: usize) -> Vec<Vec<String>> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let before = Cursor::parse(cursor.as_deref()).ok().unwrap();
            let positions = nodes.iter().map(|node| (node, before.position(node.0)));
            let open = positions.filter(|(_, position)| *position != Position::End);
            let parts = open.map(|(node, position)| node.page(position, limit)).collect();
            let page = merge(parts, &[], limit, &before);
            let shown = |hit: &Hit| format!("{}{}", hit.summary.time.0, hit.summary.node);
            all.push(page.transactions.iter().map(shown).collect());
            cursor = page.next;
            if cursor.is_none() || all.len() > 20 {
                return all;
            }
        }
    }

    fn same(times: &[u64]) -> Vec<(u64, u128)> {
        times.iter().map(|time| (*time, u128::from(*time))).collect()
    }

    #[test]
    fn pages_are_in_order_and_each_transaction_is_shown_once() {
        let nodes = [Node(A, "a", same(&[9, 7, 5, 3, 1])), Node(B, "b", same(&[8, 7, 6, 2]))];
        let expected: Vec<&str> = vec!["9a", "8b", "7a", "6b", "5a", "3a", "2b", "1a"];
        for limit in 1..10 {
            let pages = pages(&nodes, limit);
            assert_eq!(pages.concat(), expected, "{limit}");
            let full = &pages[..pages.len() - 1];
            assert!(full.iter().all(|page| page.len() == limit), "{limit}: {pages:?}");
        }
        assert_eq!(pages(&[Node(A, "a", Vec::new())], 5), [Vec::<String>::new()]);
    }

    #[test]
    fn a_node_that_was_silent_or_has_joined_is_not_lost() {
        let [one, other] = [Node(A, "a", same(&[9, 7])), Node(B, "b", same(&[8, 6]))];
        let start = Cursor::default();
        // Only one responds.
        let page = merge(vec![one.page(Position::Start, 1)], &[B], 1, &start);
        let cursor = Cursor::parse(page.next.as_deref()).ok().unwrap();
        let after = Position::After(hit(9, 9).cursor().to_string());
        assert_eq!((cursor.position(A), cursor.position(B)), (after.clone(), Position::Start));
        // One that has joined starts after what was shown.
        assert_eq!(cursor.position(Uuid::from_u128(3)), after);
        // Nobody has to ask again and again for one that stays silent.
        let page = merge(vec![other.page(Position::Start, 9)], &[A], 9, &start);
        assert_eq!((page.transactions.len(), page.next), (2, None));
    }

    #[test]
    fn a_cursor_of_something_else_is_an_error() {
        let plain = hit(1, 1).cursor().to_string();
        for wrong in ["", "!", "e30x", plain.as_str()] {
            assert!(Cursor::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
