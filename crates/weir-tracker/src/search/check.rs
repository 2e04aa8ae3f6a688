//! Whether a query holds for a transaction itself, and where its words stand in it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use weir_journal::{Outcome, Transaction};

use crate::content::{self, Kind};
use crate::field::cut;
use crate::part::row::Row;
use crate::query::{Node, Query, Scope, Term};
use crate::tokenizer;
use weir_store::ledger::{Ledger, Resolution};

/// Most highlights of a hit.
const HIGHLIGHTS: usize = 8;
/// Bytes shown on each side of what was found.
const AROUND: usize = 60;

/// A place where words of the query stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlight {
    /// `target`, `request.header`, `response.header`, `request.body`, `response.body`, `key`,
    /// `property` or `log`.
    pub place: &'static str,
    /// The text around it. It is data: escape it where it is shown.
    pub text: String,
    /// Where in `text` the words stand, in bytes.
    pub marks: Vec<Range<usize>>,
}

/// A transaction with what was read out of it so far.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) transaction: &'a Transaction,
    pub(crate) row: Row,
    bodies: [OnceCell<Option<Cow<'a, [u8]>>>; 2],
    /// Where it stands what became of it.
    ledger: Option<&'a Ledger>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(transaction: &'a Transaction, whole: u8) -> Self {
        let row = Row::of(transaction, whole);
        Self { transaction, row, bodies: Default::default(), ledger: None }
    }

    /// With what stands in the database.
    pub(crate) fn told_by(self, ledger: Option<&'a Ledger>) -> Self {
        Self { ledger, ..self }
    }

    /// What became of it; what failed is open until somebody deals with it. An attempt is dealt with
    /// where it began.
    fn resolution(&self) -> Option<Resolution> {
        let is_attempt = self.transaction.resubmission_of != [0; 16];
        if is_attempt || self.row.outcome == Outcome::Completed {
            return None;
        }
        // If the database fails, nothing is known that it would say.
        let told = self.ledger.and_then(|ledger| ledger.resolution(self.row.id).ok().flatten());
        let failed = self.row.outcome == Outcome::Failed;
        told.or_else(|| failed.then_some(Resolution::Open))
    }

    fn body(&self, side: usize) -> Option<&[u8]> {
        let transaction = self.transaction;
        let read = || match side {
            0 => content::text(Kind::of(&transaction.request_head), &transaction.request_body),
            _ => content::text(Kind::of(&transaction.response_head), &transaction.response_body),
        };
        self.bodies[side].get_or_init(read).as_deref()
    }

    pub(crate) fn holds(&self, node: &Node) -> bool {
        match node {
            Node::And(nodes) => nodes.iter().all(|node| self.holds(node)),
            Node::Or(nodes) => nodes.iter().any(|node| self.holds(node)),
            Node::Not(node) => !self.holds(node),
            Node::Term(term) => self.holds_term(term),
        }
    }

    fn holds_term(&self, term: &Term) -> bool {
        let transaction = self.transaction;
        match term {
            Term::Name(name, text) => text.holds(self.row.name(*name)),
            Term::Number(number, low, high) => (*low..=*high).contains(&self.row.number(*number)),
            Term::Id(low, high) => (*low..=*high).contains(&self.row.id),
            Term::Key(name, value) => transaction.keys.iter().any(|(other, found)| {
                cut(other) == cut(name)
                    && value.as_ref().is_none_or(|value| cut(value) == cut(found))
            }),
            Term::Resolution(wanted) => {
                let found = self.resolution();
                found.is_some() && wanted.is_none_or(|wanted| found == Some(wanted))
            }
            Term::Has(scope) => self.has(scope),
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

    /// Header lines with their place.
    fn headers(&self) -> impl Iterator<Item = (&'static str, &[u8], &[u8])> {
        let asked = content::lines(&self.transaction.request_head);
        let answered = content::lines(&self.transaction.response_head);
        let asked = asked.map(|(name, value)| ("request.header", name, value));
        asked.chain(answered.map(|(name, value)| ("response.header", name, value)))
    }

    /// Calls `each` with every text of a scope and its place until it gives false.
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
        for (place, name, value) in self.headers() {
            let wanted = match scope {
                Scope::Header(wanted) => is_name(name, wanted),
                Scope::AnyHeader | Scope::Anywhere => true,
                Scope::Body | Scope::Target => break,
            };
            let also_name = !matches!(scope, Scope::Header(_));
            if wanted && (!each(place, value) || (also_name && !each(place, name))) {
                return;
            }
        }
        if anywhere || *scope == Scope::Body {
            for (side, place) in ["request.body", "response.body"].into_iter().enumerate() {
                if let Some(text) = self.body(side)
                    && !each(place, text)
                {
                    return;
                }
            }
        }
        if anywhere {
            let _ = transaction.logs.iter().all(|line| each("log", line.as_bytes()));
        }
    }

    /// Where the words that the query asks for stand.
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
            Node::Term(Term::Words(scope, words)) => self.texts(scope, &mut |place, text| {
                for found in tokenizer::find(text, words, HIGHLIGHTS.saturating_sub(out.len())) {
                    out.push(excerpt(place, text, found));
                }
                out.len() < HIGHLIGHTS
            }),
            // What is not to be there cannot be shown, and columns are shown anyway.
            Node::Not(_) | Node::Term(_) => {}
        }
    }
}

fn is_name(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

fn excerpt(place: &'static str, text: &[u8], found: Range<usize>) -> Highlight {
    // A phrase may span many separators; its end is cut rather than shown without bound.
    let end = found.end.min(found.start + 4 * AROUND);
    let before = String::from_utf8_lossy(&text[found.start.saturating_sub(AROUND)..found.start]);
    let inside = String::from_utf8_lossy(&text[found.start..end]);
    let after = String::from_utf8_lossy(&text[end..text.len().min(end + AROUND)]);
    let mark = before.len()..before.len() + inside.len();
    let text = [before, inside, after].concat();
    Highlight { place, text, marks: vec![mark] }
}
