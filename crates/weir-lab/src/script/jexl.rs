//! The part of Apache Commons JEXL that conditions of plans use: comparisons, logic, arithmetic,
//! strings, regular expressions, variables of the thread.
//!
//! Conversions are those of JEXL's arithmetic: two values are compared as numbers if one of them is
//! a number, a sum of a number and a text that is none is a text.

mod evaluate;
mod parse;

pub(crate) use evaluate::Dialect;

use super::Environment;

/// Longest expression.
const MAX_BYTES: usize = 64 * 1024;

/// Operators with two operands.
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
    Matches,
    MatchesNot,
    StartsWith,
    EndsWith,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Value(Value),
    /// A name that is no object of JMeter.
    Unknown(String),
    ThreadName,
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Empty(Box<Expression>),
    Size(Box<Expression>),
    Binary(Operator, Box<(Expression, Expression)>),
    /// Condition, value if true (the condition's if `None`: `a ?: b`), value if false.
    Choice(Box<(Expression, Option<Expression>, Expression)>),
    /// `a ?? b`: the first value, or the second one if the first is null.
    Coalesce(Box<(Expression, Expression)>),
    /// A method of a value.
    Method(Box<Expression>, String, Vec<Expression>),
    /// A method of `vars`, `props` or `log`.
    ObjectMethod(Object, String, Vec<Expression>),
}

/// An object of JMeter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Variables,
    Properties,
    Log,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

/// Evaluates an expression. Returns the text of its value; empty for null.
///
/// # Errors
/// The expression is invalid or unsupported, or its evaluation failed.
pub(crate) fn evaluate(
    source: &str,
    dialect: Dialect,
    environment: &mut dyn Environment,
) -> Result<String, String> {
    let expression = parse::parse(source)?;
    Ok(evaluate::evaluate(&expression, dialect, environment)?.text())
}

/// Checks an expression without an evaluation.
///
/// # Errors
/// The expression is invalid or unsupported.
pub(crate) fn check(source: &str) -> Result<(), String> {
    parse::parse(source).map(drop)
}

#[cfg(test)]
mod tests;
