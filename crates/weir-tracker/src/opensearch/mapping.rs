//! The template of the indexes.

use crate::field::Name;
use serde_json::{Map, Value, json};

/// Version of the template. A node replaces an older one, never a newer one.
const VERSION: u64 = 5;
/// Longest keyword that is indexed, in characters; names and keys are cut before.
const MAX_KEYWORD: u32 = 1024;

/// The index template of a sink, for `PUT /_index_template/weir-NAME`. Fields that it does not name
/// are stored and not indexed, so that no content of a transaction can create a field.
///
/// Words stay in `_source`: to leave them out, OpenSearch parses and writes each document once more and
/// keeps the original beside for recovery, which costs a fifth of its time.
#[must_use]
pub fn index_template(name: &str) -> Value {
    let keyword = json!({"type": "keyword", "ignore_above": MAX_KEYWORD});
    // Found, never sorted or counted by.
    let set = json!({"type": "keyword", "ignore_above": MAX_KEYWORD, "doc_values": false});
    let words = json!({"type": "text", "analyzer": "whitespace", "norms": false});
    let long = json!({"type": "long"});
    let mut properties = Map::new();
    for field in ["id", "node", "node_name", "state"] {
        properties.insert(field.to_owned(), keyword.clone());
    }
    for field in ["keys", "has", "header_names", "resubmission_of"] {
        properties.insert(field.to_owned(), set.clone());
    }
    for name in Name::ALL {
        properties.insert(name.as_str().to_owned(), keyword.clone());
    }
    for field in ["time_us", "took_us"] {
        properties.insert(field.to_owned(), long.clone());
    }
    properties.insert("time".to_owned(), json!({"type": "date"}));
    properties.insert("status".to_owned(), json!({"type": "integer"}));
    properties.insert("payload".to_owned(), json!({"type": "object", "enabled": false}));
    let fields = ["target", "headers", "header", "body", "other"];
    let fields: Map<String, Value> =
        fields.into_iter().map(|field| (field.to_owned(), words.clone())).collect();
    properties.insert("words".to_owned(), json!({"properties": fields}));
    json!({
        "index_patterns": [format!("weir-{name}-done-*"), format!("weir-{name}-failed-*")],
        "priority": 500,
        "version": VERSION,
        "_meta": {"owner": "weir"},
        "template": {
            "settings": {"number_of_shards": 1, "refresh_interval": "5s"},
            "mappings": {
                "dynamic": false,
                "properties": properties,
            },
        },
    })
}

/// Whether a template, as OpenSearch returns it, was written by weir; and whether it is as new as
/// that of this version.
#[must_use]
pub fn is_own_template(template: &Value) -> (bool, bool) {
    let own = template["_meta"]["owner"] == "weir";
    (own, template["version"].as_u64().is_some_and(|version| version >= VERSION))
}
