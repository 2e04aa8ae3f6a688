//! XPath 1.0, with the functions of later versions that plans use.

mod evaluate;
mod parse;

use super::document::Document;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest expression.
const MAX_BYTES: usize = 64 * 1024;
/// Visited nodes of an evaluation.
const MAX_VISITED: usize = if cfg!(test) { 500_000 } else { 5_000_000 };

/// A compiled expression with the options of its element.
#[derive(Clone, Debug)]
pub struct XPath {
    source: String,
    expression: Arc<Expression>,
    options: Options,
}

/// How a document is read, and how names are compared.
#[derive(Clone, Debug, Default)]
struct Options {
    /// HTML as browsers read it.
    tolerant: bool,
    /// Names have namespaces.
    namespaces: bool,
    /// Texts of elements are those of XPath 2: of all nodes inside.
    version2: bool,
    /// Namespaces by prefix.
    prefixes: BTreeMap<String, String>,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
enum Axis {
    Child,
    Descendant,
    DescendantOrSelf,
    Parent,
    Ancestor,
    AncestorOrSelf,
    #[strum(serialize = "self")]
    Itself,
    Attribute,
    FollowingSibling,
    PrecedingSibling,
    Following,
    Preceding,
}

/// Which nodes of an axis are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// `prefix:name`, `name`, `*`, `prefix:*`.
    Name {
        prefix: String,
        local: String,
    },
    Any,
    Text,
    Comment,
}

#[derive(Clone, Debug)]
struct Step {
    axis: Axis,
    test: Test,
    predicates: Vec<Expression>,
}

/// An expression.
#[derive(Clone, Debug)]
enum Expression {
    Text(String),
    Number(f64),
    /// The start (the context node if `None`, or a filtered expression), whether from the root,
    /// and the steps.
    Path {
        start: Option<Box<(Expression, Vec<Expression>)>>,
        absolute: bool,
        steps: Vec<Step>,
    },
    Call(Function, Vec<Expression>),
    Negative(Box<Expression>),
    Binary(Operator, Box<(Expression, Expression)>),
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Union,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
enum Function {
    Last,
    Position,
    Count,
    Name,
    LocalName,
    NamespaceUri,
    String,
    Concat,
    StartsWith,
    EndsWith,
    Contains,
    Matches,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    LowerCase,
    UpperCase,
    Boolean,
    Not,
    True,
    False,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
}

/// Whether an expression selects nodes, or its value is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Nodes(bool),
    Value(bool),
}

impl Holds {
    pub(crate) fn holds(self) -> bool {
        match self {
            Self::Nodes(holds) | Self::Value(holds) => holds,
        }
    }
}

impl XPath {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The expression is invalid or unsupported.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let expression = Arc::new(parse::parse(source)?);
        Ok(Self { source: source.to_owned(), expression, options: Options::default() })
    }

    /// Reads documents as browsers read HTML.
    pub(crate) fn tolerant(mut self, tolerant: bool) -> Self {
        self.options.tolerant = tolerant;
        self
    }

    /// Compares names with their namespaces.
    pub(crate) fn with_namespaces(mut self, namespaces: bool) -> Self {
        self.options.namespaces = namespaces;
        self
    }

    /// Follows XPath 2, with namespaces in lines `prefix=namespace`.
    pub(crate) fn version2(mut self, prefixes: &str) -> Self {
        let pairs = prefixes.lines().filter_map(|line| line.split_once('='));
        let trimmed = |text: &str| text.trim().trim_matches('"').to_owned();
        self.options.prefixes = pairs.map(|(p, ns)| (trimmed(p), trimmed(ns))).collect();
        self.options.version2 = true;
        self.options.namespaces = true;
        self
    }

    /// The expression as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Texts of the first selected nodes, or the text of another value. A node may have none.
    ///
    /// # Errors
    /// Too many nodes are visited, the texts are too large together, or a regular expression took too
    /// long.
    pub(crate) fn texts(&self, text: &str, most: usize) -> Result<Vec<Option<String>>, String> {
        // JMeter has no match in a text that is no document.
        let Ok(document) = self.document(text) else { return Ok(Vec::new()) };
        evaluate::texts(&self.expression, &document, &self.options, most)
    }

    /// Whether a node is selected, or the value is true.
    ///
    /// # Errors
    /// The text is no document, or an error of [`Self::texts`].
    pub(crate) fn holds(&self, text: &str) -> Result<Holds, String> {
        let document = self.document(text)?;
        evaluate::holds(&self.expression, &document, &self.options)
    }

    fn document(&self, text: &str) -> Result<Document, String> {
        if self.options.tolerant { Document::html(text) } else { Document::xml(text.trim_start()) }
    }
}

#[cfg(test)]
mod tests;
