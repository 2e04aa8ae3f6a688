//! Properties of maps that hold for any template and body.
//!
//! An input is the template on its first line and the body behind it.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;
use weir_expr::Scope;
use weir_expr::map::JsonMap;

/// Maps the body: never a panic; what is no JSON is refused; what is mapped is what a tree gives.
pub fn map(bytes: &[u8]) {
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let Ok(template) = serde_json::from_slice::<Value>(&bytes[..end]) else { return };
    let body = bytes.get(end + 1..).unwrap_or_default();
    let Ok(map) = JsonMap::compile(&template) else { return };
    let mut out = b"before".to_vec();
    let applied = map.apply(body, &Scope::default(), &mut out);
    assert!(out.starts_with(b"before"));
    let out = &out[6..];
    match (applied, serde_json::from_slice::<Value>(body)) {
        (Err(_), tree) => {
            assert!(out.is_empty(), "refused, with output");
            assert!(map.reads_body(), "refused without looking");
            assert!(tree.is_err(), "refused what is JSON");
        }
        (Ok(()), Err(_)) => {
            serde_json::from_slice::<&RawValue>(out).expect("a map writes JSON");
            // A tree cannot hold every number, depth and escape that JSON can write.
            let is_json = serde_json::from_slice::<&RawValue>(body).is_ok();
            assert!(!map.reads_body() || is_json, "mapped what is no JSON");
        }
        (Ok(()), Ok(tree)) => {
            let got: Value = serde_json::from_slice(out).expect("a map writes JSON");
            if !map.reads_request() {
                assert_eq!(got, expected(&template, &tree).unwrap_or(Value::Null));
            }
        }
    }
}

/// The same by way of a tree, as the guide describes maps.
fn expected(template: &Value, tree: &Value) -> Option<Value> {
    match template {
        Value::Object(members) => {
            if members.len() == 1
                && let Some(literal) = members.get("literal")
            {
                return Some(literal.clone());
            }
            let members = members.iter().filter_map(|(name, value)| {
                expected(value, tree).map(|value| (name.clone(), value))
            });
            Some(Value::Object(members.collect::<Map<_, _>>()))
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| expected(item, tree).unwrap_or(Value::Null));
            Some(Value::Array(items.collect()))
        }
        Value::String(path) => {
            let found = JsonPath::parse(path).expect("a compiled path").query(tree).all();
            if is_singular(path) {
                found.first().map(|value| (*value).clone())
            } else {
                Some(Value::Array(found.into_iter().cloned().collect()))
            }
        }
        constant => Some(constant.clone()),
    }
}

/// Nothing in it, outside of names, selects more than one value.
fn is_singular(path: &str) -> bool {
    let (mut quote, mut escaped, mut before) = (None, false, ' ');
    for c in path.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if matches!(c, '*' | '?' | ':' | ',') || (c == '.' && before == '.') => {
                return false;
            }
            None => {}
        }
        before = c;
    }
    true
}
