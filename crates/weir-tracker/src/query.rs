//! The query language.
//!
//! ```text
//! status:>=500 api:orders key.order:A-17 body:"acme corp" took:>200ms -method:GET
//! time:[2026-11-20T10:00 TO now] header.x-foo:bar (consumer:acme OR consumer:beta) refund
//! ```
//!
//! Terms side by side must all hold; `OR` binds weaker than that, `AND` may be written, `NOT` or
//! `-` before a term or a parenthesis turns it round. These words count in capitals only.
//!
//! | term | holds when |
//! |---|---|
//! | `api:` `operation:` `type:` `method:` `consumer:` `principal:` `sender:` `receiver:` `problem:` | the name is the value; `orders*` any that begins so; `*` any at all. The sender is the client's address (`client:` means the same), the receiver the upstream (`upstream:`) |
//! | `state:` | `completed`, `failed` or `interrupted` |
//! | `resolution:` | what became of what failed: `open`, `resubmitted`, `resolved`, `dismissed`; `*` any of them |
//! | `status:` | the number; `5xx` a class; `*` there was an answer |
//! | `took:` | the duration, with a unit: `us`, `ms`, `s`, `m`, `h`, `d` |
//! | `time:` | when it was received: `2026-11-20`, `2026-11-20T10`, `…T10:30`, `…T10:30:15Z`, an offset, else UTC; `now`, `now-15m` |
//! | `after:` `before:` | it was received from the beginning of such a time on; before it |
//! | `since:` | it was received within that last duration: `1h` |
//! | `id:` | the id, or four or more of the digits it begins with |
//! | `key.NAME:` | the business key has exactly this value (256 bytes of it count); `*` any |
//! | `header.NAME:` | the words stand in a row in a header of this name, asked or answered |
//! | `header:` `target:` `body:` | the words stand in a row in any header line, the request target, a body |
//! | anything else | the words stand in a row somewhere in target, headers, bodies, keys, properties or logs |
//!
//! `*` after any of these fields means that there is one. `status`, `took` and `time` take `>`, `>=`, `<`, `<=`, and ranges `[a TO b]`, `{a TO b}` without
//! the ends; `*` leaves an end open. A value in quotes may hold anything, `\"` and `\\` stand for
//! themselves. Words are whole: there are no prefixes in payloads.

mod error;
mod field;
mod parser;
#[cfg(test)]
mod tests;
mod value;

use crate::field::{Name, Number, cut};
use weir_store::ledger::Resolution;

pub use error::QueryError;

/// Longest query in bytes.
pub const LONGEST_QUERY: usize = 4096;
/// Most terms of a query.
pub const MOST_TERMS: usize = 64;
/// Deepest nesting of parentheses and negations.
pub const DEEPEST: usize = 32;

/// A query that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub(crate) root: Node,
}

/// How terms are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// All hold; an empty list holds always.
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Term(Term),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Name(Name, Text),
    /// Both ends belong to it.
    Number(Number, u64, u64),
    /// From the least to the greatest id.
    Id(u128, u128),
    Key(String, Option<String>),
    /// What became of it; any of them.
    Resolution(Option<Resolution>),
    Words(Scope, Vec<String>),
    /// There is something where words can be looked for.
    Has(Scope),
}

/// What a name has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Is(String),
    Begins(String),
    Present,
}

impl Text {
    pub(crate) fn holds(&self, name: &str) -> bool {
        match self {
            Self::Is(value) => cut(value) == name,
            Self::Begins(begin) => name.starts_with(cut(begin)),
            Self::Present => !name.is_empty(),
        }
    }
}

/// Where words are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Anywhere,
    Body,
    Target,
    AnyHeader,
    Header(String),
}

impl Query {
    /// Reads a query; `now` is in microseconds since 1970. An empty one holds for everything.
    ///
    /// # Errors
    /// [`QueryError`], with the place and what would be right.
    pub fn parse(text: &str, now: u64) -> Result<Self, QueryError> {
        parser::parse(text, now).map(|root| Self { root })
    }

    /// Whether answering it tells something of payloads, so that whoever asks needs the right to
    /// see them.
    #[must_use]
    pub fn needs_payload(&self) -> bool {
        self.root.any(&|term| {
            !matches!(term, Term::Name(..) | Term::Number(..) | Term::Id(..) | Term::Resolution(_))
        })
    }
}

impl Query {
    /// Whether it asks for business keys.
    pub(crate) fn names_keys(&self) -> bool {
        self.root.any(&|term| matches!(term, Term::Key(..)))
    }

    /// Whether it asks for words, which a hit then shows.
    pub(crate) fn names_words(&self) -> bool {
        self.root.any(&|term| matches!(term, Term::Words(..)))
    }

    /// Whether it can be answered only by who has heads and bodies.
    pub(crate) fn reads_payload(&self) -> bool {
        self.root.any(&|term| matches!(term, Term::Words(..) | Term::Has(..) | Term::Key(..)))
    }

    /// The least and greatest time that a hit can have, in microseconds since 1970.
    #[must_use]
    pub fn times(&self) -> (u64, u64) {
        let mut range = (0, u64::MAX);
        let terms = match &self.root {
            Node::And(nodes) => nodes.as_slice(),
            node => std::slice::from_ref(node),
        };
        for term in terms {
            if let Node::Term(Term::Number(Number::Time, low, high)) = term {
                range = (range.0.max(*low), range.1.min(*high));
            }
        }
        range
    }
}

impl Node {
    fn any(&self, holds: &impl Fn(&Term) -> bool) -> bool {
        match self {
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().any(|node| node.any(holds)),
            Self::Not(node) => node.any(holds),
            Self::Term(term) => holds(term),
        }
    }
}
