//! Queries of the Tracker in the query DSL of OpenSearch.

use super::{header_name, key_value};
use crate::field::{Number, cut};
use crate::query::{NameMatch, Node, Query, Scope, Term};
use serde_json::{Value, json};
use weir_model::search_sink::Content;
use weir_model::{Outcome, TransactionId};

/// A query in the query DSL, in the context of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The query.
    pub query: Value,
    /// Terms that documents cannot answer: hits match the rest of the query, and whether they match
    /// these is unknown. Empty if the translation is complete.
    pub untranslated: Vec<String>,
}

impl Query {
    /// The query for documents with this content. What cannot be translated is left out, so that the
    /// hits are at least those of the query.
    #[must_use]
    pub fn translate(&self, content: Content) -> Translation {
        let mut translator = Translator { content, untranslated: Vec::new() };
        let query = translator.node(&self.root).query.unwrap_or_else(all);
        Translation { query, untranslated: translator.untranslated }
    }
}

struct Translator {
    content: Content,
    untranslated: Vec<String>,
}

/// Part of a translation.
struct Part {
    /// None if nothing of it could be translated.
    query: Option<Value>,
    /// Whether all of it could be.
    complete: bool,
}

impl Part {
    fn complete(query: Value) -> Self {
        Self { query: Some(query), complete: true }
    }

    fn unknown() -> Self {
        Self { query: None, complete: false }
    }
}

fn all() -> Value {
    json!({"match_all": {}})
}

impl Translator {
    fn node(&mut self, node: &Node) -> Part {
        match node {
            Node::And(nodes) => {
                let parts: Vec<_> = nodes.iter().map(|node| self.node(node)).collect();
                let complete = parts.iter().all(|part| part.complete);
                let queries: Vec<_> = parts.into_iter().filter_map(|part| part.query).collect();
                let query = (complete || !queries.is_empty()).then(|| match queries.is_empty() {
                    true => all(),
                    false => json!({"bool": {"filter": queries}}),
                });
                Part { query, complete }
            }
            Node::Or(nodes) => {
                let parts: Vec<_> = nodes.iter().map(|node| self.node(node)).collect();
                let complete = parts.iter().all(|part| part.complete);
                // One unknown alternative may match anything.
                let queries: Option<Vec<_>> = parts.into_iter().map(|part| part.query).collect();
                let query = queries.map(|queries| any_of(&queries));
                Part { query, complete }
            }
            Node::Not(node) => match self.node(node) {
                Part { query: Some(query), complete: true } => Part::complete(not(query)),
                // A part of it matches too much: its negation would match too little.
                _ => Part::unknown(),
            },
            Node::Term(term) => self.term(term),
        }
    }

    fn term(&mut self, term: &Term) -> Part {
        let payload = self.content == Content::Payload;
        let query = match term {
            Term::Name(name, text) => match text {
                NameMatch::Equals(value) if value.is_empty() => not(exists(name.as_str())),
                NameMatch::Equals(value) => json!({"term": {name.as_str(): cut(value)}}),
                NameMatch::Prefix(begin) => json!({"prefix": {name.as_str(): cut(begin)}}),
                NameMatch::Present => exists(name.as_str()),
            },
            Term::Number(Number::State, low, high) => {
                let states = [Outcome::Completed, Outcome::Failed, Outcome::Interrupted];
                let states = states.into_iter().filter(|state| {
                    let code = *state as u64;
                    (*low..=*high).contains(&code)
                });
                let states: Vec<&str> = states.map(Into::into).collect();
                json!({"terms": {"state": states}})
            }
            Term::Number(Number::Time, low, high) => range("time_us", *low, *high),
            Term::Number(Number::Elapsed, low, high) => range("took_us", *low, *high),
            // A status has 16 bits; the field 32.
            Term::Number(Number::Status, low, high) => {
                range("status", *low, (*high).min(u64::from(u16::MAX)))
            }
            Term::Id(low, high) => {
                let [low, high] = [*low, *high].map(|id| TransactionId(id).to_string());
                json!({"range": {"id": {"gte": low, "lte": high}}})
            }
            Term::Key(name, Some(value)) => json!({"term": {"keys": key_value(name, Some(value))}}),
            Term::Key(name, None) => json!({"prefix": {"keys": key_value(name, None)}}),
            Term::Exists(Scope::Anywhere) => all(),
            Term::Exists(scope) if payload => has(scope),
            Term::Words(scope, words) if payload => phrase(scope, words),
            Term::Exists(scope) => return self.untranslated(&format!("{}*", field(scope))),
            Term::Words(scope, words) => {
                return self.untranslated(&format!("{}\"{}\"", field(scope), words.join(" ")));
            }
            Term::Resolution(resolution) => {
                let value = resolution.map_or_else(|| "*".to_owned(), |value| value.to_string());
                return self.untranslated(&format!("resolution:{value}"));
            }
        };
        Part::complete(query)
    }

    fn untranslated(&mut self, term: &str) -> Part {
        if !self.untranslated.iter().any(|known| known == term) {
            self.untranslated.push(term.to_owned());
        }
        Part::unknown()
    }
}

fn not(query: Value) -> Value {
    json!({"bool": {"must_not": [query]}})
}

fn any_of(queries: &[Value]) -> Value {
    json!({"bool": {"should": queries, "minimum_should_match": 1}})
}

fn exists(field: &str) -> Value {
    json!({"exists": {"field": field}})
}

/// Numbers are stored with a sign.
fn range(field: &str, low: u64, high: u64) -> Value {
    let [low, high] = [low, high].map(|number| number.min(i64::MAX as u64));
    json!({"range": {field: {"gte": low, "lte": high}}})
}

fn has(scope: &Scope) -> Value {
    match scope {
        Scope::Anywhere => all(),
        Scope::Target => json!({"term": {"has": "target"}}),
        Scope::AnyHeader => json!({"term": {"has": "headers"}}),
        Scope::Body => json!({"term": {"has": "body"}}),
        Scope::Header(name) => json!({"term": {"header_names": header_name(name.as_bytes())}}),
    }
}

fn phrase(scope: &Scope, words: &[String]) -> Value {
    let in_field = |field: &str| json!({"match_phrase": {field: words.join(" ")}});
    match scope {
        Scope::Anywhere => {
            any_of(&["words.target", "words.headers", "words.body", "words.other"].map(in_field))
        }
        Scope::Target => in_field("words.target"),
        Scope::AnyHeader => in_field("words.headers"),
        Scope::Body => in_field("words.body"),
        Scope::Header(name) => {
            let name = header_name(name.as_bytes());
            let words: Vec<_> = words.iter().map(|word| format!("{name}={word}")).collect();
            json!({"match_phrase": {"words.header": words.join(" ")}})
        }
    }
}

/// The field of a scope as written in a query.
fn field(scope: &Scope) -> String {
    match scope {
        Scope::Anywhere => String::new(),
        Scope::Body => "body:".to_owned(),
        Scope::Target => "target:".to_owned(),
        Scope::AnyHeader => "header:".to_owned(),
        Scope::Header(name) => format!("header.{name}:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(text: &str, content: Content) -> Translation {
        Query::parse(text, 1_000_000_000).unwrap().translate(content)
    }

    #[test]
    fn what_documents_do_not_have_is_left_out_and_named() {
        let one = translate("api:x resolution:open", Content::Payload);
        assert_eq!(one.query, json!({"bool": {"filter": [{"term": {"api": "x"}}]}}));
        assert_eq!(one.untranslated, ["resolution:open"]);
        // Never fewer hits: neither an alternative nor a negation is decided by what is left.
        for text in ["api:x OR resolution:open", "-(api:x resolution:open)", "-resolution:open"] {
            let found = translate(text, Content::Payload);
            assert_eq!(found.query, all(), "{text}");
            assert_eq!(found.untranslated.len(), 1);
        }
        let words = translate("api:x refund body:\"acme corp\" header.x-a:*", Content::Keys);
        assert_eq!(words.untranslated, ["\"refund\"", "body:\"acme corp\"", "header.x-a:*"]);
        assert!(
            translate("refund -body:acme header.x-a:*", Content::Payload).untranslated.is_empty()
        );
    }

    #[test]
    fn an_empty_query_matches_everything() {
        let empty = translate("", Content::Keys);
        assert_eq!((empty.query, empty.untranslated.len()), (all(), 0));
    }
}
