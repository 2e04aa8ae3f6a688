//! Checks a transaction against a query, and finds the highlights.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{Outcome, Transaction};

use crate::content::{self, BodyType};
use crate::field::cut;
use crate::part::row::Row;
use crate::query::{Node, Query, Scope, Term};
use crate::tokenizer;
use weir_store::ledger::{Ledger, Resolution};

/// Most highlights of a hit.
const MAX_HIGHLIGHTS: usize = 8;
/// Bytes shown on each side of a highlight.
const CONTEXT_BYTES: usize = 60;

/// A match of words of the query. It is untrusted data: escape it before it is displayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Highlight {
    /// `target`, `request.header`, `response.header`, `request.body`, `response.body`, `key`,
    /// `property` or `log`.
    #[serde(rename = "place")]
    pub location: String,
    /// The surrounding text.
    pub text: String,
    /// Positions of the words in the text: pairs of start and end (exclusive) in bytes.
    pub marks: Vec<[usize; 2]>,
}

/// A transaction that is checked, with its decoded bodies.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) transaction: &'a Transaction,
    pub(crate) row: Row,
    bodies: [OnceCell<Option<Cow<'a, [u8]>>>; 2],
    /// Has the resolutions.
    ledger: Option<&'a Ledger>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(transaction: &'a Transaction, ledger: Option<&'a Ledger>) -> Self {
        Self { transaction, row: Row::of(transaction), bodies: Default::default(), ledger }
    }

    /// Its resolution; a failed transaction is open at first. An attempt has none: its original has
    /// it.
    fn resolution(&self) -> Option<Resolution> {
        let is_attempt = self.transaction.resubmission_of != [0; 16];
        if is_attempt || self.row.outcome == Outcome::Completed {
            return None;
        }
        // If the database fails, the resolution is the initial one.
        let stored = self.ledger.and_then(|ledger| ledger.resolution(self.row.id).ok().flatten());
        let failed = self.row.outcome == Outcome::Failed;
        stored.or_else(|| failed.then_some(Resolution::Open))
    }

    fn body(&self, side: usize) -> Option<&[u8]> {
        let transaction = self.transaction;
        let (head, body) = match side {
            0 => (&transaction.request_head, &transaction.request_body),
            _ => (&transaction.response_head, &transaction.response_body),
        };
        self.bodies[side].get_or_init(|| content::text(BodyType::from_head(head), body)).as_deref()
    }

    pub(crate) fn matches(&self, node: &Node) -> bool {
        match node {
            Node::And(nodes) => nodes.iter().all(|node| self.matches(node)),
            Node::Or(nodes) => nodes.iter().any(|node| self.matches(node)),
            Node::Not(node) => !self.matches(node),
            Node::Term(term) => self.holds_term(term),
        }
    }

    fn holds_term(&self, term: &Term) -> bool {
        let transaction = self.transaction;
        match term {
            Term::Name(name, text) => text.matches(self.row.name(*name)),
            Term::Number(number, low, high) => (*low..=*high).contains(&self.row.number(*number)),
            Term::Id(low, high) => (*low..=*high).contains(&self.row.id),
            Term::Key(name, value) => transaction.keys.iter().any(|(other, found)| {
                cut(other) == cut(name)
                    && value.as_ref().is_none_or(|value| cut(value) == cut(found))
            }),
            Term::Resolution(expected) => {
                let found = self.resolution();
                found.is_some() && expected.is_none_or(|expected| found == Some(expected))
            }
            Term::Exists(scope) => self.has(scope),
            Term::Words(scope, words) => {
                let mut found = false;
                self.texts(scope, &mut |_, text| {
                    found = found || !tokenizer::find(text, words, 1).is_empty();
                    !found
                });
                found
            }
        }
    }

    fn has(&self, scope: &Scope) -> bool {
        let transaction = self.transaction;
        match scope {
            Scope::Anywhere => true,
            Scope::Target => !transaction.target.is_empty(),
            Scope::AnyHeader => self.headers().next().is_some(),
            Scope::Header(name) => self.headers().any(|(_, other, _)| is_name(other, name)),
            Scope::Body => {
                !transaction.request_body.is_empty() || !transaction.response_body.is_empty()
            }
        }
    }

    /// Header lines with their location.
    fn headers(&self) -> impl Iterator<Item = (&'static str, &[u8], &[u8])> {
        let request = content::lines(&self.transaction.request_head);
        let response = content::lines(&self.transaction.response_head);
        let request = request.map(|(name, value)| ("request.header", name, value));
        request.chain(response.map(|(name, value)| ("response.header", name, value)))
    }

    /// Calls `each` with the texts of a scope and their location until it returns false.
    fn texts(&self, scope: &Scope, each: &mut dyn FnMut(&'static str, &[u8]) -> bool) {
        let transaction = self.transaction;
        let anywhere = *scope == Scope::Anywhere;
        if anywhere {
            let pairs = [("key", &transaction.keys), ("property", &transaction.properties)];
            for (kind, (name, value)) in pairs
                .into_iter()
                .flat_map(|(kind, pairs)| pairs.iter().map(move |pair| (kind, pair)))
            {
                if !each(kind, name.as_bytes()) || !each(kind, value.as_bytes()) {
                    return;
                }
            }
        }
        if anywhere || *scope == Scope::Target {
            let target = content::percent_decode(transaction.target.as_bytes());
            if !each("target", &target) {
                return;
            }
        }
        for (location, name, value) in self.headers() {
            let searched = match scope {
                Scope::Header(expected) => is_name(name, expected),
                Scope::AnyHeader | Scope::Anywhere => true,
                Scope::Body | Scope::Target => break,
            };
            let also_name = !matches!(scope, Scope::Header(_));
            if searched && (!each(location, value) || (also_name && !each(location, name))) {
                return;
            }
        }
        if anywhere || *scope == Scope::Body {
            for (side, location) in ["request.body", "response.body"].into_iter().enumerate() {
                if let Some(text) = self.body(side)
                    && !each(location, text)
                {
                    return;
                }
            }
        }
        if anywhere {
            let _ = transaction.logs.iter().all(|line| each("log", line.as_bytes()));
        }
    }

    /// Occurrences of the words of a query.
    pub(crate) fn highlights(&self, query: &Query) -> Vec<Highlight> {
        let mut highlights = Vec::new();
        self.collect(&query.root, &mut highlights);
        highlights
    }

    fn collect(&self, node: &Node, out: &mut Vec<Highlight>) {
        match node {
            Node::And(nodes) | Node::Or(nodes) => {
                nodes.iter().for_each(|node| self.collect(node, out));
            }
            Node::Term(Term::Words(scope, words)) => self.texts(scope, &mut |location, text| {
                for found in tokenizer::find(text, words, MAX_HIGHLIGHTS.saturating_sub(out.len()))
                {
                    out.push(excerpt(location, text, found));
                }
                out.len() < MAX_HIGHLIGHTS
            }),
            // A negated term cannot be shown, and metadata is shown anyway.
            Node::Not(_) | Node::Term(_) => {}
        }
    }
}

fn is_name(name: &[u8], expected: &str) -> bool {
    name.eq_ignore_ascii_case(expected.as_bytes())
}

fn excerpt(location: &str, text: &[u8], found: Range<usize>) -> Highlight {
    // A phrase may span many separators: a long one is truncated.
    let end = found.end.min(found.start + 4 * CONTEXT_BYTES);
    let before =
        String::from_utf8_lossy(&text[found.start.saturating_sub(CONTEXT_BYTES)..found.start]);
    let inside = String::from_utf8_lossy(&text[found.start..end]);
    let after = String::from_utf8_lossy(&text[end..text.len().min(end + CONTEXT_BYTES)]);
    let mark = [before.len(), before.len() + inside.len()];
    let text = [before, inside, after].concat();
    Highlight { location: location.to_owned(), text, marks: vec![mark] }
}
