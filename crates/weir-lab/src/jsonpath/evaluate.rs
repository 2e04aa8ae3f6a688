//! Evaluation of steps.

use super::{Found, Function, Step};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Values that steps lead to from `start`. `visits` is the number of values that may be visited.
pub(super) fn find<'v>(
    steps: &[Step],
    start: &'v Value,
    root: &Value,
    visits: &mut usize,
) -> Result<Found<'v>, String> {
    let mut found = Vec::new();
    // A function after a deep scan takes all its values together.
    if let Some((Step::Function(function), before)) = steps.split_last()
        && before.iter().any(|step| matches!(step, Step::Deep))
    {
        let values = find(before, start, root, visits)?.into_iter().map(Cow::into_owned);
        found.extend(function.apply(&Value::Array(values.collect())).map(Cow::Owned));
        return Ok(found);
    }
    walk(steps, start, root, visits, &mut found)?;
    Ok(found)
}

/// Whether steps lead to one value at most.
pub(super) fn is_definite(steps: &[Step]) -> bool {
    steps.iter().all(|step| match step {
        Step::Names(names) => names.len() == 1,
        Step::Indexes(indexes) => indexes.len() == 1,
        Step::Function(_) => true,
        Step::All | Step::Slice(..) | Step::Filter(_) | Step::Deep => false,
    })
}

fn walk<'v>(
    steps: &[Step],
    value: &'v Value,
    root: &Value,
    visits: &mut usize,
    found: &mut Found<'v>,
) -> Result<(), String> {
    *visits = visits.checked_sub(1).ok_or("the path visits too many values")?;
    let Some((step, rest)) = steps.split_first() else {
        found.push(Cow::Borrowed(value));
        return Ok(());
    };
    match step {
        Step::Names(names) => {
            let Value::Object(members) = value else { return Ok(()) };
            if names.len() > 1 && rest.is_empty() {
                // The library merges several members at the end of a path.
                let members = names.iter().filter_map(|name| members.get_key_value(name));
                let merged: Map<String, Value> =
                    members.map(|(name, value)| (name.clone(), value.clone())).collect();
                found.push(Cow::Owned(Value::Object(merged)));
                return Ok(());
            }
            for member in names.iter().filter_map(|name| members.get(name)) {
                walk(rest, member, root, visits, found)?;
            }
        }
        Step::All => {
            for inner in inside(value) {
                walk(rest, inner, root, visits, found)?;
            }
        }
        Step::Indexes(indexes) => {
            let Value::Array(items) = value else { return Ok(()) };
            for item in indexes.iter().filter_map(|index| items.get(position(*index, items.len())?))
            {
                walk(rest, item, root, visits, found)?;
            }
        }
        Step::Slice(from, to) => {
            let Value::Array(items) = value else { return Ok(()) };
            let bound = |index: i64| match index {
                ..0 => items.len().saturating_sub(index.unsigned_abs() as usize),
                _ => usize::try_from(index).unwrap_or(usize::MAX).min(items.len()),
            };
            let (from, to) = (from.map_or(0, bound), to.map_or(items.len(), bound));
            for item in items.get(from..to).unwrap_or_default() {
                walk(rest, item, root, visits, found)?;
            }
        }
        Step::Filter(condition) => match value {
            Value::Array(items) => {
                for item in items {
                    if condition.holds(item, root, visits)? {
                        walk(rest, item, root, visits, found)?;
                    }
                }
            }
            Value::Object(_) if condition.holds(value, root, visits)? => {
                walk(rest, value, root, visits, found)?;
            }
            _ => {}
        },
        Step::Deep => deep(rest, value, root, visits, found)?,
        Step::Function(function) => found.extend(function.apply(value).map(Cow::Owned)),
    }
    Ok(())
}

/// Applies steps to a value, then to everything inside it.
fn deep<'v>(
    rest: &[Step],
    value: &'v Value,
    root: &Value,
    visits: &mut usize,
    found: &mut Found<'v>,
) -> Result<(), String> {
    // serde_json limits the depth of documents, and so of this recursion.
    let has_names = match (rest.first(), value) {
        (Some(Step::Names(names)), Value::Object(members)) => {
            names.iter().all(|name| members.contains_key(name))
        }
        (Some(Step::Names(_)), _) => false,
        // Inside of objects an object would be found with and without its parent.
        (Some(Step::Filter(_)), value) => value.is_array(),
        _ => value.is_array() || value.is_object(),
    };
    if has_names {
        walk(rest, value, root, visits, found)?;
    }
    for inner in inside(value) {
        *visits = visits.checked_sub(1).ok_or("the path visits too many values")?;
        deep(rest, inner, root, visits, found)?;
    }
    Ok(())
}

fn inside(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let at = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { length.checked_sub(at) } else { Some(at) }
}

impl Function {
    /// The result; `None` if the function has none for this value.
    fn apply(self, value: &Value) -> Option<Value> {
        let numbers = || -> Option<Vec<f64>> {
            let Value::Array(items) = value else { return None };
            let numbers: Vec<f64> = items.iter().filter_map(Value::as_f64).collect();
            (!numbers.is_empty()).then_some(numbers)
        };
        let number = |number: f64| Some(Value::from(number));
        match self {
            Self::Length => match value {
                Value::Array(items) => Some(items.len().into()),
                Value::Object(members) => Some(members.len().into()),
                _ => None,
            },
            Self::Min => number(numbers()?.into_iter().fold(f64::INFINITY, f64::min)),
            Self::Max => number(numbers()?.into_iter().fold(f64::NEG_INFINITY, f64::max)),
            Self::Sum => number(numbers()?.into_iter().sum()),
            Self::Avg => {
                let numbers = numbers()?;
                number(numbers.iter().sum::<f64>() / numbers.len() as f64)
            }
            Self::Stddev => {
                let numbers = numbers()?;
                let count = numbers.len() as f64;
                let mean = numbers.iter().sum::<f64>() / count;
                let squares: f64 = numbers.iter().map(|number| number * number).sum();
                number((squares / count - mean * mean).sqrt())
            }
            Self::Keys => {
                let Value::Object(members) = value else { return None };
                Some(Value::Array(members.keys().map(|name| name.as_str().into()).collect()))
            }
            Self::First => value.as_array()?.first().cloned(),
            Self::Last => value.as_array()?.last().cloned(),
        }
    }
}
