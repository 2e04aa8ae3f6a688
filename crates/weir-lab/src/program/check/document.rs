//! Checks of a response as a whole: CEL expressions and JSON Schema.

use super::{Response, json_text, shortened};
use serde_json::Value;
use weir_expr::Expr;

/// Variables of CEL expressions: status, header fields by lower-case name, body as JSON (null if it is
/// none) and as text, bytes of the body, and milliseconds to the end of the response.
pub const CEL_VARIABLES: [&str; 6] = ["status", "headers", "body", "text", "size", "duration_ms"];

/// Evaluates a CEL expression. Returns why the check fails.
pub(super) fn cel(expression: &Expr, not: bool, reply: &Response<'_>) -> Option<String> {
    let headers = || {
        let fields = reply.headers.iter().map(|(_, name, value)| {
            (name.to_ascii_lowercase(), Value::from(String::from_utf8_lossy(value)))
        });
        Value::Object(fields.collect())
    };
    let of = |name: &str| match name {
        "status" => Value::from(reply.status),
        "headers" => headers(),
        "body" => serde_json::from_slice(reply.body).unwrap_or_default(),
        "text" => Value::from(reply.decoded()),
        "size" => Value::from(reply.body.len()),
        _ => Value::from(u64::try_from(reply.elapsed.as_millis()).unwrap_or(u64::MAX)),
    };
    let used = CEL_VARIABLES.into_iter().filter(|name| expression.refers_to(name));
    let values: Vec<(&str, Value)> = used.map(|name| (name, of(name))).collect();
    let values: Vec<(&str, &Value)> = values.iter().map(|(name, value)| (*name, value)).collect();
    let source = shortened(expression.source());
    match expression.value_of(&values) {
        Ok(Value::Bool(holds)) if holds != not => None,
        Ok(value) => {
            let scalars = values.iter().filter(|(name, _)| *name == "status" || *name == "size");
            let came: String =
                scalars.map(|(name, value)| format!(", {name} is {value}")).collect();
            let found = shortened(&json_text(&value));
            Some(format!("{source} is {found} instead of {}{came}", !not))
        }
        Err(why) => Some(format!("{source} cannot be evaluated: {}", shortened(&why))),
    }
}

/// Whether a body is JSON.
pub(super) fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

/// Validates a body. Returns the first violation, with its place.
pub(super) fn conforms(schema: &jsonschema::Validator, body: &[u8]) -> Option<String> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return Some("the body is not JSON".to_owned());
    };
    let error = schema.validate(&value).err()?;
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "the body".to_owned() } else { place };
    Some(format!("{place} does not conform to the schema: {}", shortened(&error.to_string())))
}
