//! Evaluation with JEXL's conversions.

use super::{Environment, Expression, Object, Operator, Value};
use crate::budget::{fits_value, replaced};
use crate::pattern::Pattern;
use std::cmp::Ordering;

/// Version of JEXL, by JMeter's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `__jexl2`
    Two,
    /// `__jexl3`
    Three,
}

impl Value {
    /// The text of a value as Java writes it; empty for null.
    pub(super) fn text(self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 1e7 => {
                format!("{value:.1}")
            }
            Self::Float(value) => value.to_string(),
            Self::Text(text) => text,
        }
    }

    fn truth(&self) -> Result<bool, String> {
        match self {
            Self::Null => Err(NULL.to_owned()),
            Self::Bool(value) => Ok(*value),
            Self::Integer(value) => Ok(*value != 0),
            Self::Float(value) => Ok(*value != 0.0 && !value.is_nan()),
            Self::Text(text) => Ok(!text.is_empty() && text != "false"),
        }
    }

    fn integer(&self) -> Result<i64, String> {
        match self {
            Self::Null => Err(NULL.to_owned()),
            Self::Bool(value) => Ok(i64::from(*value)),
            Self::Integer(value) => Ok(*value),
            Self::Float(value) => Ok(*value as i64),
            Self::Text(text) if text.is_empty() => Ok(0),
            Self::Text(text) => text.parse().map_err(|_| no_number(text)),
        }
    }

    fn float(&self) -> Result<f64, String> {
        match self {
            Self::Float(value) => Ok(*value),
            Self::Text(text) if text.is_empty() => Ok(0.0),
            Self::Text(text) => text.parse().map_err(|_| no_number(text)),
            other => other.integer().map(|value| value as f64),
        }
    }

    /// A number with a fraction, or a text of one.
    fn is_float(&self) -> bool {
        match self {
            Self::Float(_) => true,
            Self::Text(text) => text.contains(['.', 'e', 'E']),
            _ => false,
        }
    }
}

const NULL: &str = "a value is null";

fn no_number(text: &str) -> String {
    format!("{text:?} is not a number")
}

/// Evaluates an expression.
pub(super) fn evaluate(
    expression: &Expression,
    dialect: Dialect,
    environment: &mut dyn Environment,
) -> Result<Value, String> {
    let mut value = |inner: &Expression| evaluate(inner, dialect, environment);
    Ok(match expression {
        Expression::Value(value) => value.clone(),
        Expression::Unknown(name) => return Err(format!("the variable `{name}` is undefined")),
        Expression::ThreadName => Value::Text(environment.thread_name()),
        Expression::Not(inner) => Value::Bool(!value(inner)?.truth()?),
        Expression::Negative(inner) => match value(inner)? {
            number if number.is_float() => Value::Float(-number.float()?),
            number => Value::Integer(number.integer()?.wrapping_neg()),
        },
        // An undefined name is empty, too.
        Expression::Empty(inner) => Value::Bool(match value(inner) {
            Ok(Value::Text(text)) => text.is_empty(),
            Ok(Value::Integer(number)) => dialect == Dialect::Three && number == 0,
            Ok(Value::Null) | Err(_) => true,
            Ok(_) => false,
        }),
        Expression::Size(inner) => match value(inner)? {
            Value::Text(text) => Value::Integer(length(&text)),
            _ => return Err("only a text has a size".to_owned()),
        },
        Expression::Binary(operator @ (Operator::And | Operator::Or), both) => {
            let left = value(&both.0)?.truth()?;
            let is_decided = left == (*operator == Operator::Or);
            Value::Bool(if is_decided { left } else { value(&both.1)?.truth()? })
        }
        Expression::Binary(operator, both) => {
            let (left, right) = (value(&both.0)?, value(&both.1)?);
            binary(*operator, left, right, dialect)?
        }
        Expression::Choice(parts) => {
            let (condition, yes, no) = &**parts;
            let found = value(condition)?;
            match (found != Value::Null && found.truth()?, yes) {
                (true, Some(yes)) => value(yes)?,
                (true, None) => found,
                (false, _) => value(no)?,
            }
        }
        Expression::Coalesce(both) => match value(&both.0)? {
            Value::Null => value(&both.1)?,
            found => found,
        },
        Expression::Method(inner, name, arguments) => {
            let inner = value(inner)?;
            let arguments: Result<Vec<Value>, String> = arguments.iter().map(value).collect();
            method(inner, name, &arguments?)?
        }
        Expression::ObjectMethod(object, name, arguments) => {
            let arguments: Result<Vec<Value>, String> = arguments.iter().map(value).collect();
            let arguments = arguments?.into_iter().map(Value::text).collect();
            object_method(*object, name, arguments, environment)
        }
    })
}

fn object_method(
    object: Object,
    name: &str,
    arguments: Vec<String>,
    environment: &mut dyn Environment,
) -> Value {
    let text = |value: Option<String>| value.map_or(Value::Null, Value::Text);
    let mut arguments = arguments.into_iter();
    let key = arguments.next().unwrap_or_default();
    let second = arguments.next();
    match (object, name) {
        (Object::Log, _) => Value::Null,
        (Object::Variables, "get") => text(environment.variable(&key)),
        (Object::Variables, "remove") => {
            let old = environment.variable(&key);
            environment.set_variable(&key, None);
            text(old)
        }
        (Object::Variables, _) => {
            environment.set_variable(&key, second);
            Value::Null
        }
        (Object::Properties, "get" | "getProperty") => text(environment.property(&key).or(second)),
        (Object::Properties, _) => {
            let old = environment.property(&key);
            environment.set_property(&key, second.unwrap_or_default());
            text(old)
        }
    }
}

fn binary(
    operator: Operator,
    left: Value,
    right: Value,
    dialect: Dialect,
) -> Result<Value, String> {
    let order = |accepted: &[Ordering]| -> Result<Value, String> {
        Ok(Value::Bool(accepted.contains(&compare(&left, &right)?)))
    };
    Ok(match operator {
        Operator::Equal => Value::Bool(equal(&left, &right)?),
        Operator::NotEqual => Value::Bool(!equal(&left, &right)?),
        Operator::Less => order(&[Ordering::Less])?,
        Operator::LessEqual => order(&[Ordering::Less, Ordering::Equal])?,
        Operator::Greater => order(&[Ordering::Greater])?,
        Operator::GreaterEqual => order(&[Ordering::Greater, Ordering::Equal])?,
        Operator::Matches => Value::Bool(matches(&left, &right)?),
        Operator::MatchesNot => Value::Bool(!matches(&left, &right)?),
        Operator::StartsWith => Value::Bool(left.text().starts_with(&right.text())),
        Operator::EndsWith => Value::Bool(left.text().ends_with(&right.text())),
        Operator::Add => add(left, right, dialect)?,
        _ => arithmetic(operator, &left, &right, dialect)?,
    })
}

fn equal(left: &Value, right: &Value) -> Result<bool, String> {
    match (left, right) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        (Value::Bool(_), _) | (_, Value::Bool(_)) => Ok(left.truth()? == right.truth()?),
        _ => Ok(compare(left, right)? == Ordering::Equal),
    }
}

fn compare(left: &Value, right: &Value) -> Result<Ordering, String> {
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return Err(NULL.to_owned()),
        (Value::Float(_), _) | (_, Value::Float(_)) => {
            left.float()?.partial_cmp(&right.float()?).unwrap_or(Ordering::Less)
        }
        (Value::Integer(_), _) | (_, Value::Integer(_)) => left.integer()?.cmp(&right.integer()?),
        _ => left.clone().text().cmp(&right.clone().text()),
    })
}

fn matches(text: &Value, pattern: &Value) -> Result<bool, String> {
    let (text, pattern) = (text.clone().text(), pattern.clone().text());
    Pattern::cached(&pattern)?.matches(text.as_bytes())
}

fn add(left: Value, right: Value, dialect: Dialect) -> Result<Value, String> {
    let is_text = |value: &Value| matches!(value, Value::Text(_));
    if left == Value::Null || right == Value::Null {
        return Err(NULL.to_owned());
    }
    let concatenate = match dialect {
        Dialect::Two => false,
        Dialect::Three => is_text(&left) || is_text(&right),
    };
    if !concatenate && let Ok(sum) = arithmetic(Operator::Add, &left, &right, dialect) {
        return Ok(sum);
    }
    concatenated(left.text(), &right.text())
}

fn concatenated(left: String, right: &str) -> Result<Value, String> {
    fits_value(left.len() + right.len())?;
    Ok(Value::Text(left + right))
}

fn arithmetic(
    operator: Operator,
    left: &Value,
    right: &Value,
    dialect: Dialect,
) -> Result<Value, String> {
    // JEXL 2 divides whole numbers as such, too.
    let _ = dialect;
    if left.is_float() || right.is_float() {
        let (left, right) = (left.float()?, right.float()?);
        if matches!(operator, Operator::Divide | Operator::Remainder) && right == 0.0 {
            return Err("a division by zero".to_owned());
        }
        return Ok(Value::Float(match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            _ => left % right,
        }));
    }
    let (left, right) = (left.integer()?, right.integer()?);
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    result.map(Value::Integer).ok_or_else(|| "a division by zero, or too large".to_owned())
}

/// Number of characters as Java counts them.
fn length(text: &str) -> i64 {
    i64::try_from(text.encode_utf16().count()).unwrap_or(i64::MAX)
}

/// A method of a text; other values are converted, as their methods have other names.
fn method(value: Value, name: &str, arguments: &[Value]) -> Result<Value, String> {
    if value == Value::Null {
        return Err(NULL.to_owned());
    }
    let is_equal = arguments.first().is_some_and(|other| *other == value);
    let text = value.text();
    let wrong = || format!("`{name}` has other arguments");
    let argument = |at: usize| arguments.get(at).cloned().map(Value::text).ok_or_else(wrong);
    let number = |at: usize| {
        let number = arguments.get(at).ok_or_else(wrong)?.integer()?;
        usize::try_from(number).map_err(|_| wrong())
    };
    let place = |found: Option<usize>| Value::Integer(found.map_or(-1, |at| length(&text[..at])));
    Ok(match name {
        "length" | "size" => Value::Integer(length(&text)),
        "isEmpty" => Value::Bool(text.is_empty()),
        "isBlank" => Value::Bool(text.trim().is_empty()),
        "equals" => Value::Bool(is_equal),
        "equalsIgnoreCase" => Value::Bool(text.to_lowercase() == argument(0)?.to_lowercase()),
        "contains" => Value::Bool(text.contains(&argument(0)?)),
        "startsWith" => Value::Bool(text.starts_with(&argument(0)?)),
        "endsWith" => Value::Bool(text.ends_with(&argument(0)?)),
        "indexOf" => place(text.find(&argument(0)?)),
        "lastIndexOf" => place(text.rfind(&argument(0)?)),
        "substring" | "charAt" => {
            let units: Vec<u16> = text.encode_utf16().collect();
            let start = number(0)?;
            let end = match (name, arguments.len()) {
                ("charAt", _) => start + 1,
                (_, 1) => units.len(),
                _ => number(1)?,
            };
            let part =
                units.get(start..end).ok_or_else(|| "beyond the end of a text".to_owned())?;
            Value::Text(String::from_utf16_lossy(part))
        }
        "toUpperCase" => Value::Text(text.to_uppercase()),
        "toLowerCase" => Value::Text(text.to_lowercase()),
        "trim" => Value::Text(text.trim().to_owned()),
        "matches" => Value::Bool(Pattern::cached(&argument(0)?)?.matches(text.as_bytes())?),
        "replace" => Value::Text(replaced(&text, &argument(0)?, &argument(1)?)?),
        "replaceAll" => Value::Text(Pattern::cached(&argument(0)?)?.replace(&text, &argument(1)?)?),
        "concat" => concatenated(text, &argument(0)?)?,
        "compareTo" => Value::Integer(text.cmp(&argument(0)?) as i64),
        "intValue" | "longValue" => Value::Integer(Value::Text(text.clone()).integer()?),
        _ => Value::Text(text.clone()),
    })
}
