//! Conditions of filters.

use super::{Pattern, Step, evaluate, text};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    /// A path leads to a value.
    Exists(Operand),
    Compare(Comparison, Operand, Operand),
}

/// A side of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Value(Value),
    Regex(Pattern),
    Path { from_root: bool, steps: Vec<Step> },
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Comparison {
    #[strum(disabled)]
    Equal,
    #[strum(disabled)]
    NotEqual,
    #[strum(disabled)]
    Less,
    #[strum(disabled)]
    LessEqual,
    #[strum(disabled)]
    Greater,
    #[strum(disabled)]
    GreaterEqual,
    #[strum(disabled)]
    Matches,
    In,
    Nin,
    SubsetOf,
    AnyOf,
    NoneOf,
    All,
    Contains,
    Size,
    Empty,
}

/// The value of an operand; `None` if its path leads nowhere.
type Side<'v> = Option<Cow<'v, Value>>;

impl Condition {
    /// Whether the condition holds for a value.
    pub(super) fn holds(
        &self,
        value: &Value,
        root: &Value,
        visits: &mut usize,
    ) -> Result<bool, String> {
        Ok(match self {
            Self::Any(all) => {
                for condition in all {
                    if condition.holds(value, root, visits)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::All(all) => {
                for condition in all {
                    if !condition.holds(value, root, visits)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Not(inner) => !inner.holds(value, root, visits)?,
            Self::Exists(Operand::Path { from_root, steps }) => {
                let start = if *from_root { root } else { value };
                !evaluate::find(steps, start, root, visits)?.is_empty()
            }
            Self::Exists(Operand::Value(Value::Bool(value))) => *value,
            Self::Exists(_) => true,
            Self::Compare(Comparison::Matches, left, right) => {
                let (pattern, other) = match (left, right) {
                    (Operand::Regex(pattern), other) | (other, Operand::Regex(pattern)) => {
                        (pattern, other)
                    }
                    _ => return Ok(false),
                };
                match other.value(value, root, visits)?.as_deref() {
                    None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => false,
                    Some(scalar) => pattern.matches(text(scalar).as_bytes())?,
                }
            }
            Self::Compare(comparison, left, right) => {
                let left = left.value(value, root, visits)?;
                let right = right.value(value, root, visits)?;
                compare(*comparison, &left, &right)
            }
        })
    }
}

impl Operand {
    fn value<'v>(
        &'v self,
        value: &'v Value,
        root: &'v Value,
        visits: &mut usize,
    ) -> Result<Side<'v>, String> {
        Ok(match self {
            Self::Value(value) => Some(Cow::Borrowed(value)),
            Self::Regex(_) => None,
            Self::Path { from_root, steps } => {
                let start = if *from_root { root } else { value };
                let mut found = evaluate::find(steps, start, root, visits)?;
                match evaluate::is_definite(steps) {
                    true => found.drain(..).next(),
                    false => {
                        let items = found.into_iter().map(Cow::into_owned).collect();
                        Some(Cow::Owned(Value::Array(items)))
                    }
                }
            }
        })
    }
}

fn compare(comparison: Comparison, left: &Side<'_>, right: &Side<'_>) -> bool {
    use Comparison as Is;
    let (Some(left), Some(right)) = (left.as_deref(), right.as_deref()) else {
        let both_missing = left.is_none() && right.is_none();
        return match comparison {
            Is::Equal => both_missing,
            Is::NotEqual => !both_missing,
            Is::Nin | Is::NoneOf => left.is_some() || right.is_some(),
            _ => false,
        };
    };
    let order = || order(left, right);
    let any = |items: &[Value], other: &[Value]| {
        items.iter().any(|item| other.iter().any(|other| equal(item, other)))
    };
    let every = |items: &[Value], other: &[Value]| {
        items.iter().all(|item| other.iter().any(|other| equal(item, other)))
    };
    match (comparison, left, right) {
        (Is::Equal, ..) => equal(left, right),
        (Is::NotEqual, ..) => !equal(left, right),
        (Is::Less, ..) => order() == Some(Ordering::Less),
        (Is::LessEqual, ..) => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
        (Is::Greater, ..) => order() == Some(Ordering::Greater),
        (Is::GreaterEqual, ..) => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
        (Is::In, value, Value::Array(items)) => items.iter().any(|item| equal(value, item)),
        (Is::Nin, value, Value::Array(items)) => !items.iter().any(|item| equal(value, item)),
        (Is::SubsetOf, Value::Array(items), Value::Array(other)) => every(items, other),
        (Is::All, Value::Array(items), Value::Array(other)) => every(other, items),
        (Is::AnyOf, Value::Array(items), Value::Array(other)) => any(items, other),
        (Is::NoneOf, Value::Array(items), Value::Array(other)) => !any(items, other),
        (Is::Contains, Value::String(text), Value::String(part)) => text.contains(part),
        (Is::Contains, Value::Array(items), value) => items.iter().any(|item| equal(item, value)),
        (Is::Size, value, Value::Number(size)) => {
            length(value).is_some_and(|l| size.as_i64() == Some(l))
        }
        (Is::Empty, value, Value::Bool(empty)) => {
            length(value).is_some_and(|length| (length == 0) == *empty)
        }
        _ => false,
    }
}

fn length(value: &Value) -> Option<i64> {
    let length = match value {
        Value::String(text) => text.encode_utf16().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => return None,
    };
    i64::try_from(length).ok()
}

/// A number equals its text.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::String(text), Value::Number(number))
        | (Value::Number(number), Value::String(text)) => {
            text.parse().is_ok_and(|parsed: f64| number.as_f64() == Some(parsed))
        }
        _ => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
