//! Configuration keys: each is described, in the schema and in the reference.

use super::{assert_none, root};
use crate::harness::weir;
use serde_json::Value;

/// Keys of a schema, at any depth, with their descriptions.
fn keys(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    match schema {
        Value::Object(members) => {
            for (name, key) in
                members.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                let description = key["description"].as_str().unwrap_or_default();
                found.push((name.clone(), description.to_owned()));
            }
            found.extend(members.values().flat_map(keys));
        }
        Value::Array(items) => found.extend(items.iter().flat_map(keys)),
        _ => {}
    }
    found
}

fn problems(schema: &Value, reference: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, description) in keys(schema) {
        if !description.ends_with('.') {
            problems.push(format!("`{name}` has no description: {description:?}"));
        }
        if !reference.contains(&format!("| `{name}` |")) {
            problems.push(format!("`{name}` is not in docs/reference/configuration.md"));
        }
    }
    problems
}

#[test]
fn an_undocumented_key_is_seen() {
    let schema = |name: &str, description: &str| serde_json::json!({"$defs": {"a": {"properties": {name: {"description": description}}}}});
    assert_eq!(problems(&schema("a", "Does it."), "| `a` |").len(), 0);
    assert_eq!(problems(&schema("a", ""), "| `a` |").len(), 1);
    assert_eq!(problems(&schema("b", "Does it."), "| `a` |").len(), 1);
}

#[test]
fn every_key_is_documented() {
    let output = weir(&root(), &["schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let reference = std::fs::read_to_string(root().join("docs/reference/configuration.md"))
        .expect("the reference is there");
    assert!(keys(&schema).len() > 80, "the keys are found");
    assert_none(&problems(&schema, &reference));
}
