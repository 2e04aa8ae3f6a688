//! Properties of maps that hold for any template and any body.
//!
//! - Compiling and applying never panic, however deep the body.
//! - What is written is JSON; when the body is refused, nothing is.
//! - A body that a map reads is accepted only if it is JSON as a whole.
//! - One pass gives what a tree gives.

use serde_json::Value;
use serde_json::value::RawValue;
use serde_json_path::JsonPath;
use weir_config::expr::Scope;
use weir_config::map::JsonMap;

/// Checks every property on `bytes`: the template up to the first line break, then the body.
pub fn map(bytes: &[u8]) {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let Ok(template) = serde_json::from_slice::<Value>(&bytes[..end]) else { return };
    let Ok(map) = JsonMap::compile(&template) else { return };
    let body = bytes.get(end + 1..).unwrap_or_default();
    let mut out = b"before".to_vec();
    match map.apply(body, &Scope::default(), &mut out) {
        Err(_) => assert_eq!(out, b"before"),
        Ok(()) => {
            let written = out.strip_prefix(b"before").expect("only appended");
            serde_json::from_slice::<&RawValue>(written).expect("JSON");
            if map.reads_body() {
                serde_json::from_slice::<&RawValue>(body).expect("accepted, so JSON");
                compare(&template, body, written);
            }
        }
    }
}

/// Compares the members that are singular paths with what a tree gives for them.
fn compare(template: &Value, body: &[u8], written: &[u8]) {
    let (Value::Object(members), Ok(tree), Ok(Value::Object(written))) =
        (template, serde_json::from_slice::<Value>(body), serde_json::from_slice(written))
    else {
        return;
    };
    if members.contains_key("literal") || members.contains_key("cel") {
        return;
    }
    for (name, path) in members {
        let Some(path) = path.as_str().filter(|p| !p.contains(['*', '?', ':', ','])) else {
            continue;
        };
        let Ok(compiled) = JsonPath::parse(path) else { continue };
        if path.contains("..") {
            continue;
        }
        let expected = compiled.query(&tree).at_most_one().expect("singular");
        assert_eq!(written.get(name), expected, "{path}");
    }
}
