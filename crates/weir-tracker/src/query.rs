//! The query language.
//!
//! ```text
//! status:>=500 api:orders key.order:A-17 body:"acme corp" took:>200ms -method:GET
//! time:[2026-11-20T10:00 TO now] header.x-foo:bar (consumer:acme OR consumer:beta) refund
//! ```
//!
//! Adjacent terms must all match; `AND` may be written between them. `OR` binds weaker. `NOT` or `-`
//! negates a term or a parenthesis. These operators are written in capitals.
//!
//! | term | matches if |
//! |---|---|
//! | `api:` `operation:` `type:` `method:` `consumer:` `principal:` `sender:` `receiver:` `upstream_target:` `plan:` `problem:` `detail:` `configuration:` | the name is the value; `orders*`: has this prefix; `*`: is present. The sender is the address of the client (`client:` is the same), the receiver is the upstream (`upstream:`) with its target, the detail is the auth method, limit or rule of the problem, the configuration is the digest of the one that handled it |
//! | `state:` | `completed`, `failed` or `interrupted` |
//! | `resolution:` | the resolution of a failed transaction: `open`, `resubmitted`, `resolved`, `dismissed`; `*`: any |
//! | `status:` | the number; `5xx`: the class; `*`: there was a response |
//! | `took:` | the duration, with a unit: `us`, `ms`, `s`, `m`, `h`, `d` |
//! | `time:` | the time received: `2026-11-20`, `2026-11-20T10`, `…T10:30`, `…T10:30:15Z`, an offset, else UTC; `now`, `now-15m` |
//! | `after:` `before:` | received at or after the beginning of such a time; before it |
//! | `since:` | received within this last duration: `1h` |
//! | `id:` | the id, or its first four or more digits |
//! | `key.NAME:` | the business key has exactly this value (256 bytes are compared); `*`: any |
//! | `header.NAME:` | the words are next to each other in a header of this name, of request or response |
//! | `header:` `target:` `body:` | the words are next to each other in any header line, the request target, a body |
//! | any other text | the words are next to each other in target, headers, bodies, keys, properties or logs; a text that can be an id or its beginning (eight digits or more) also matches ids |
//!
//! `*` after any of these fields: the field is present. `status`, `took` and `time` accept `>`, `>=`,
//! `<`, `<=`, and ranges `[a TO b]`, or `{a TO b}` without the ends; `*` leaves an end open. A value
//! in quotes may contain any characters; `\"` and `\\` are escapes. Words are matched whole: payloads
//! have no prefix search.

mod error;
mod field;
mod parser;
#[cfg(test)]
mod tests;
mod value;

use crate::field::{Name, Number, cut};
use weir_store::ledger::Resolution;

pub use error::QueryError;

/// Longest query, in bytes.
pub const MAX_QUERY_BYTES: usize = 4096;
/// Most terms of a query.
const MAX_TERMS: usize = 64;
/// Deepest nesting of parentheses and negations.
pub const MAX_DEPTH: usize = 32;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub(crate) root: Node,
}

/// A combination of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// All match; an empty list always matches.
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Term(Term),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Name(Name, NameMatch),
    /// From the first to the last number, both included.
    Number(Number, u64, u64),
    /// From the first to the last id, both included.
    Id(u128, u128),
    Key(String, Option<String>),
    /// Its resolution; none for any.
    Resolution(Option<Resolution>),
    Words(Scope, Vec<String>),
    /// The scope is not empty.
    Exists(Scope),
}

/// How a name is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameMatch {
    Equals(String),
    Prefix(String),
    Present,
}

impl NameMatch {
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Equals(value) => cut(value) == name,
            Self::Prefix(begin) => name.starts_with(cut(begin)),
            Self::Present => !name.is_empty(),
        }
    }
}

/// The texts in which words are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Anywhere,
    Body,
    Target,
    AnyHeader,
    Header(String),
}

impl Query {
    /// Parses a query; `now` is in microseconds since 1970. An empty query matches everything.
    ///
    /// # Errors
    /// [`QueryError`], with location and hint.
    pub fn parse(text: &str, now: u64) -> Result<Self, QueryError> {
        parser::parse(text, now).map(|root| Self { root })
    }

    /// Without the words of texts that are an id or its beginning, which then only match ids.
    #[must_use]
    pub(crate) fn ids_only(self) -> Self {
        Self { root: self.root.ids_only() }
    }

    /// Whether its hits reveal something about payloads, so that the caller needs the right to see
    /// them.
    #[must_use]
    pub fn needs_payload(&self) -> bool {
        self.root.any(&|term| {
            !matches!(term, Term::Name(..) | Term::Number(..) | Term::Id(..) | Term::Resolution(_))
        })
    }
}

impl Query {
    /// Both this query and `node`.
    pub(crate) fn and(&self, node: Node) -> Self {
        let mut nodes = self.required().to_vec();
        match node {
            // Times and ids of a query are found at the top.
            Node::And(own) => nodes.extend(own),
            node => nodes.push(node),
        }
        Self { root: Node::And(nodes) }
    }

    /// Only transactions of these APIs; all if there are none.
    pub(crate) fn of_apis(self, apis: &[String]) -> Self {
        if apis.is_empty() {
            return self;
        }
        let equals = |api: &String| Term::Name(Name::Api, NameMatch::Equals(api.clone()));
        self.and(Node::Or(apis.iter().map(|api| Node::Term(equals(api))).collect()))
    }

    /// Whether it names no API but these; any if there are none.
    pub(crate) fn names_only(&self, apis: &[String]) -> bool {
        let is_other = |term: &Term| match term {
            Term::Name(Name::Api, NameMatch::Equals(api)) => !apis.contains(api),
            Term::Name(Name::Api, _) => true,
            _ => false,
        };
        apis.is_empty() || !self.root.any(&is_other)
    }

    /// Whether it has a term for business keys.
    pub(crate) fn uses_keys(&self) -> bool {
        self.root.any(&|term| matches!(term, Term::Key(..)))
    }

    /// Whether it has a term for this business key.
    pub(crate) fn uses_key(&self, name: &str) -> bool {
        self.root.any(&|term| matches!(term, Term::Key(key, _) if key == name))
    }

    /// Whether it has words, which a hit then highlights.
    pub(crate) fn uses_words(&self) -> bool {
        self.root.any(&|term| matches!(term, Term::Words(..)))
    }

    /// First and last possible time of a hit, in microseconds since 1970.
    #[must_use]
    pub fn times(&self) -> (u64, u64) {
        let mut range = (0, u64::MAX);
        for term in self.required() {
            if let Node::Term(Term::Number(Number::Time, low, high)) = term {
                range = (range.0.max(*low), range.1.min(*high));
            }
        }
        range
    }

    /// The range of ids that a hit must have, if the query has one.
    pub(crate) fn ids(&self) -> Option<(u128, u128)> {
        self.required().iter().find_map(|term| match term {
            Node::Term(Term::Id(low, high)) => Some((*low, *high)),
            _ => None,
        })
    }

    /// Nodes that all must match.
    fn required(&self) -> &[Node] {
        match &self.root {
            Node::And(nodes) => nodes,
            node => std::slice::from_ref(node),
        }
    }
}

impl Node {
    fn ids_only(self) -> Self {
        let all = |nodes: Vec<Self>| nodes.into_iter().map(Self::ids_only).collect();
        match self {
            Self::Or(nodes) => match nodes.as_slice() {
                [
                    Self::Term(Term::Id(low, high)),
                    Self::Term(Term::Words(Scope::Anywhere, words)),
                ] if value::ids_of(&words.concat()) == Some((*low, *high)) => {
                    Self::Term(Term::Id(*low, *high))
                }
                _ => Self::Or(all(nodes)),
            },
            Self::And(nodes) => Self::And(all(nodes)),
            Self::Not(node) => Self::Not(Box::new(node.ids_only())),
            Self::Term(term) => Self::Term(term),
        }
    }

    pub(crate) fn any(&self, matches: &impl Fn(&Term) -> bool) -> bool {
        match self {
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().any(|node| node.any(matches)),
            Self::Not(node) => node.any(matches),
            Self::Term(term) => matches(term),
        }
    }
}
