//! Conversion of weir's values to CEL, limited to the parts that an expression uses.

use super::uses::Uses;
use super::{CallFacts, RequestFacts};
use cel::Value;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// Members of `request`.
pub(super) const MEMBERS: [&str; 7] =
    ["address", "headers", "host", "method", "path", "query", "target"];

/// Members of `call`.
pub(super) const FACTS: [&str; 7] =
    ["api", "consumer", "duration_ms", "operation", "request_bytes", "response_bytes", "status"];

/// `call`.
pub(super) fn call(facts: &CallFacts) -> Value {
    // Larger numbers of bytes or milliseconds do not occur.
    let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let members: HashMap<String, Value> = HashMap::from([
        ("api".to_owned(), facts.api.as_str().into()),
        ("consumer".to_owned(), facts.consumer.as_str().into()),
        ("duration_ms".to_owned(), int(facts.duration_ms)),
        ("operation".to_owned(), facts.operation.as_str().into()),
        ("request_bytes".to_owned(), int(facts.request_bytes)),
        ("response_bytes".to_owned(), int(facts.response_bytes)),
        ("status".to_owned(), int(facts.status.into())),
    ]);
    members.into()
}

/// `request`.
pub(super) fn request(facts: &RequestFacts, uses: &Uses) -> Value {
    let mut members: HashMap<String, Value> = HashMap::new();
    for name in MEMBERS {
        let Some(uses) = uses.wants(name) else { continue };
        let value = match name {
            "address" => facts.address.as_str().into(),
            "host" => facts.host.as_str().into(),
            "method" => facts.method.as_str().into(),
            "target" => facts.target.as_str().into(),
            "path" => pairs(&facts.path, uses),
            "query" => pairs(&facts.query, uses),
            _ => pairs(&facts.headers, uses),
        };
        members.insert(name.to_owned(), value);
    }
    members.into()
}

/// Names and their first values.
fn pairs(pairs: &[(String, String)], uses: Option<&Uses>) -> Value {
    let mut members: HashMap<String, Value> = HashMap::new();
    for (name, value) in pairs {
        if uses.is_none_or(|u| u.wants(name).is_some()) && !members.contains_key(name) {
            members.insert(name.clone(), value.as_str().into());
        }
    }
    members.into()
}

/// A JSON value; of an object only the used members (`None`: all).
pub(super) fn json(value: &Json, uses: Option<&Uses>) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::Int(i),
            (None, Some(u)) => Value::UInt(u),
            (None, None) => n.as_f64().map_or(Value::Null, Value::Float),
        },
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => {
            Value::List(Arc::new(items.iter().map(|item| json(item, None)).collect()))
        }
        Json::Object(object) => {
            let used = object.iter().filter_map(|(name, value)| {
                let uses = uses.map_or(Some(None), |uses| uses.wants(name))?;
                Some((name.clone(), json(value, uses)))
            });
            used.collect::<HashMap<String, Value>>().into()
        }
    }
}
