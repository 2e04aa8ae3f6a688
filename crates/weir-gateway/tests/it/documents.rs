//! The generated documents are current, and the schema says what the check says.

use std::path::Path;

fn current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        std::fs::write(&path, text).expect("writable");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == text, "{} is not current: WEIR_BLESS=1 rewrites it", path.display());
}

#[test]
fn the_configuration_reference_is_current() {
    current("configuration.md", &weir_config::reference());
}

#[test]
fn the_list_of_findings_is_current() {
    current("findings.md", &weir_config::findings_reference());
}

/// Every mapping with keys refuses others, and every reference leads somewhere.
#[test]
fn the_schema_is_closed_and_whole() {
    let schema = weir_config::schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let definitions = schema["$defs"].as_object().expect("definitions");
    assert!(definitions.len() > 30);
    let mut open = vec![&schema];
    let mut objects = 0;
    while let Some(value) = open.pop() {
        if let Some(members) = value.as_object() {
            if members.contains_key("properties")
                && members.get("type").is_some_and(|t| t == "object")
            {
                objects += 1;
                assert_eq!(members["additionalProperties"], false, "{value}");
            }
            if let Some(target) = members.get("$ref").and_then(|r| r.as_str()) {
                let name = target.strip_prefix("#/$defs/").expect("local");
                assert!(definitions[name].is_object(), "{name}");
            }
            open.extend(members.values());
        } else if let Some(items) = value.as_array() {
            open.extend(items);
        }
    }
    assert!(objects > 30, "{objects}");
}

/// A key that is described and used in no good case may be read by nothing.
#[test]
fn every_key_is_in_a_good_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/good");
    let mut text = String::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                text.push_str(&std::fs::read_to_string(path).expect("readable"));
            }
        }
    }
    let schema = weir_config::schema();
    let mut shapes: Vec<(&str, &serde_json::Value)> = vec![("root", &schema)];
    shapes.extend(
        schema["$defs"].as_object().expect("definitions").iter().map(|(n, s)| (n.as_str(), s)),
    );
    // These are read in tests that make certificates first.
    let elsewhere = ["ca", "cert", "server_name"];
    let mut missing = Vec::new();
    for (name, shape) in shapes {
        for key in shape["properties"].as_object().expect("properties").keys() {
            let here = text.contains(&format!("{key}:")) || text.contains(&format!("{key}\":"));
            if !here && !elsewhere.contains(&key.as_str()) {
                missing.push(format!("{name}.{key}"));
            }
        }
    }
    assert!(missing.is_empty(), "no good case has {missing:?}");
}
