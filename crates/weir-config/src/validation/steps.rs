//! How much work a validation may be: a schema that refers to itself from several branches of an
//! `anyOf` or `oneOf` could double it with each level of a body. So the schemas that others refer to
//! count each visit, and nothing is looked at once the steps are used up.

use super::document::{Documents, Element};
use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value, json};
use std::cell::Cell;

/// Steps of every value.
pub(super) const LEAST: usize = 10_000;
/// Steps of a body for each of its bytes.
const PER_BYTE: usize = 8;

/// Keyword that counts a step. No document can have it: members with `x-` are left out of copies.
pub(crate) const KEYWORD: &str = "x-weir-step";

thread_local! {
    /// Steps left to the validation that this thread is at.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Steps of a body of this length.
pub(super) fn of_body(bytes: usize) -> usize {
    LEAST + bytes.saturating_mul(PER_BYTE)
}

/// Does something within so many steps; `None` if they were not enough.
pub(super) fn within<T>(steps: usize, work: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(steps);
    let done = work();
    (LEFT.get() > 0).then_some(done)
}

struct Step;

impl<'i> Keyword<'i, Documents> for Step {
    fn validate(&self, instance: Element<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom("too much work"))
    }

    fn is_valid(&self, _instance: Element<'i>) -> bool {
        let left = LEFT.get().saturating_sub(1);
        LEFT.set(left);
        left > 0
    }
}

/// Makes the keyword.
pub(crate) fn keyword<'a>(
    _parent: &'a Map<String, Value>,
    _value: &'a Value,
    _path: Location,
) -> Result<Box<dyn for<'i> Keyword<'i, Documents>>, ValidationError<'a>> {
    Ok(Box::new(Step))
}

/// Has the `$defs` of a schema count their visits, if any of them comes back to itself. Says
/// whether it does.
pub(crate) fn count(schema: &mut Value) -> bool {
    let Some(Value::Object(defs)) = schema.get_mut("$defs") else { return false };
    if !comes_back(defs) {
        return false;
    }
    for def in defs.values_mut() {
        let counted = def.take();
        *def = json!({"if": {KEYWORD: true}, "then": counted, "else": false});
    }
    true
}

/// Whether any of the schemas refers to itself, directly or through others.
fn comes_back(defs: &Map<String, Value>) -> bool {
    let targets: Vec<Vec<usize>> = defs
        .values()
        .map(|def| {
            let mut found = Vec::new();
            references(def, &mut found);
            found
        })
        .collect();
    // Those that lead nowhere are taken away until none does; a circle is what is left.
    let mut left = vec![true; targets.len()];
    loop {
        let leads = |at: &usize| targets[*at].iter().any(|to| left.get(*to) == Some(&true));
        let gone: Vec<usize> = (0..targets.len()).filter(|at| left[*at] && !leads(at)).collect();
        if gone.is_empty() {
            return left.contains(&true);
        }
        gone.into_iter().for_each(|at| left[at] = false);
    }
}

fn references(schema: &Value, found: &mut Vec<usize>) {
    match schema {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|t| t.strip_prefix("#/$defs/")?.parse::<usize>().ok()));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}
