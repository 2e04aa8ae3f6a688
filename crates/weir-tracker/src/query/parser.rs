//! A recursive descent parser.

use super::error::QueryError;
use super::field::Field;
use super::value::{self, Value};
use super::{MAX_DEPTH, MAX_QUERY_BYTES, MAX_TERMS, Node, Scope, Term};
use crate::tokenizer::phrase;

pub(super) fn parse(text: &str, now: u64) -> Result<Node, QueryError> {
    if text.len() > MAX_QUERY_BYTES {
        let message = format!("the query has {} bytes", text.len());
        return Err(QueryError::new(0, 0, message).hint(format!("it may have {MAX_QUERY_BYTES}")));
    }
    let mut parser = Parser { text, at: 0, now, terms: 0, depth: 0 };
    let root = parser.disjunction()?;
    parser.space();
    if parser.at < text.len() {
        return Err(QueryError::new(parser.at, parser.at + 1, "`)` closes nothing")
            .hint("put the value in quotes if it belongs to it"));
    }
    Ok(root)
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) now: u64,
    terms: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Accepts an operator that is a separate word.
    pub(super) fn operator(&mut self, word: &str) -> bool {
        self.space();
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        let ends =
            after.chars().next().is_none_or(|next| next.is_whitespace() || "()]}".contains(next));
        if ends {
            self.at += word.len();
        }
        ends
    }

    /// Accepts one character.
    pub(super) fn accept(&mut self, expected: char) -> bool {
        let there = self.rest().starts_with(expected);
        if there {
            self.at += expected.len_utf8();
        }
        there
    }

    fn disjunction(&mut self) -> Result<Node, QueryError> {
        let mut nodes = vec![self.conjunction()?];
        loop {
            let at = self.at;
            if !self.operator("OR") {
                break;
            }
            let next = self.conjunction()?;
            if matches!(&next, Node::And(none) if none.is_empty()) || is_empty(&nodes[0]) {
                return Err(self.missing_operand(at, "OR"));
            }
            nodes.push(next);
        }
        Ok(single(nodes, Node::Or))
    }

    fn conjunction(&mut self) -> Result<Node, QueryError> {
        let mut nodes = Vec::new();
        loop {
            self.space();
            let at = self.at;
            let and = self.operator("AND");
            self.space();
            if self.at == self.text.len() || self.rest().starts_with(')') || self.peek("OR") {
                if and {
                    return Err(self.missing_operand(at, "AND"));
                }
                return Ok(single(nodes, Node::And));
            }
            if and && nodes.is_empty() {
                return Err(self.missing_operand(at, "AND"));
            }
            nodes.push(self.negation()?);
        }
    }

    fn peek(&mut self, word: &str) -> bool {
        let at = self.at;
        let there = self.operator(word);
        self.at = at;
        there
    }

    fn missing_operand(&self, at: usize, word: &str) -> QueryError {
        let begin = at + self.text[at..].find(word).unwrap_or(0);
        QueryError::new(begin, begin + word.len(), format!("`{word}` stands without a term"))
            .hint(format!("write a term on both sides, or \"{word}\" to search for the word"))
    }

    fn negation(&mut self) -> Result<Node, QueryError> {
        let at = self.at;
        if !self.operator("NOT") && !self.accept('-') {
            return self.primary();
        }
        self.space();
        if self.at == self.text.len() || self.rest().starts_with(')') {
            return Err(QueryError::new(at, self.at, "nothing to negate")
                .hint("write a term or a parenthesis after it"));
        }
        self.nest(at)?;
        let node = self.negation()?;
        self.depth -= 1;
        Ok(Node::Not(Box::new(node)))
    }

    fn nest(&mut self, at: usize) -> Result<(), QueryError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(QueryError::new(at, at + 1, "nested too deeply")
                .hint(format!("at most {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<Node, QueryError> {
        let at = self.at;
        if !self.accept('(') {
            return self.term();
        }
        self.nest(at)?;
        let node = self.disjunction()?;
        self.depth -= 1;
        self.space();
        if !self.accept(')') {
            return Err(QueryError::new(at, at + 1, "`(` is not closed").hint("write `)`"));
        }
        if is_empty(&node) {
            return Err(QueryError::new(at, self.at, "nothing in the parentheses"));
        }
        Ok(node)
    }

    fn term(&mut self) -> Result<Node, QueryError> {
        self.terms += 1;
        let at = self.at;
        if self.terms > MAX_TERMS {
            return Err(
                QueryError::new(at, at, "too many terms").hint(format!("at most {MAX_TERMS}"))
            );
        }
        let name = self.rest();
        let length = name
            .find(|letter: char| !(letter.is_alphanumeric() || "._-".contains(letter)))
            .unwrap_or(name.len());
        let name = &name[..length];
        let named = length > 0 && self.rest()[length..].starts_with(':');
        if !named {
            let value = self.value()?;
            let id = match &value {
                Value::Bare(text) => value::bare_id(text),
                _ => None,
            };
            let words = self.phrase_term(at, Scope::Anywhere, value)?;
            return Ok(match id {
                Some(id) => Node::Or(vec![Node::Term(id), words]),
                None => words,
            });
        }
        let Some(field) = Field::parse(name) else {
            let error = QueryError::new(at, at + length, format!("there is no field `{name}`"));
            return Err(error.hint(match Field::nearest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "put the text in quotes to search for it as words".to_owned(),
            }));
        };
        self.at += length + 1;
        self.field(at, field)
    }

    fn field(&mut self, at: usize, field: Field) -> Result<Node, QueryError> {
        let begin = self.at;
        let value = self.value()?;
        let bad = |error: QueryError| QueryError { at: begin, end: self.at.max(begin), ..error };
        let present = value == Value::Bare("*".to_owned());
        let term = match field {
            Field::Words(scope) if present => Term::Exists(scope),
            Field::Key(name) if present => Term::Key(name, None),
            Field::Words(scope) => return self.phrase_term(at, scope, value),
            Field::Key(name) => Term::Key(name, Some(value.text().map_err(bad)?)),
            Field::Name(name) => Term::Name(name, value.name().map_err(bad)?),
            Field::State => value::state(&value).map_err(bad)?,
            Field::Resolution => value::resolution(&value).map_err(bad)?,
            Field::Status => value::status(&value).map_err(bad)?,
            Field::Elapsed => value::elapsed(&value).map_err(bad)?,
            Field::Time => value::time(&value, self.now).map_err(bad)?,
            Field::After => value::after(&value, self.now).map_err(bad)?,
            Field::Before => value::before(&value, self.now).map_err(bad)?,
            Field::Since => value::since(&value, self.now).map_err(bad)?,
            Field::Id => value::id(&value).map_err(bad)?,
        };
        Ok(Node::Term(term))
    }

    /// A phrase: words next to each other.
    fn phrase_term(&self, at: usize, scope: Scope, value: Value) -> Result<Node, QueryError> {
        let bad = |error: QueryError| QueryError { at, end: self.at, ..error };
        if let Value::Bare(text) = &value
            && text.ends_with('*')
        {
            return Err(bad(QueryError::new(0, 0, "words in payloads are searched whole")
                .hint("leave `*` away, or put the text in quotes")));
        }
        let words = phrase(&value.text().map_err(bad)?);
        if words.is_empty() {
            return Err(bad(QueryError::new(0, 0, "there is no word in it")
                .hint("a word is made of letters and digits")));
        }
        Ok(Node::Term(Term::Words(scope, words)))
    }
}

fn is_empty(node: &Node) -> bool {
    matches!(node, Node::And(nodes) if nodes.is_empty())
}

fn single(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            many(nodes)
        }
        None => Node::And(nodes),
    }
}
