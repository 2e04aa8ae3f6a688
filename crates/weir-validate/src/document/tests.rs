//! Tests of documents: parsing, lookup, equality, rejection.

use super::compare::Key;
use super::*;
use jsonschema_value::{Json as _, Node as _, Object as _};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_document_is_what_the_library_takes_for_json() {
    let value = jsonschema_value::conformance::document();
    let text = value.to_string();
    for document in [Document::of(&value).unwrap(), Document::parse(text.as_bytes()).unwrap()] {
        jsonschema_value::conformance::assert_conformance::<Documents>(&document.root());
    }
}

fn malformed(text: &[u8]) -> String {
    match Document::parse(text) {
        Err(Unread::Malformed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_that_stand_twice_are_found_among_few_and_many() {
    for count in [1, FEW - 1, FEW, FEW + 1, 1000] {
        let members = (0..count).map(|i| format!(r#""m{i}": {{"m0": [1, {{}}]}}"#));
        let members: Vec<_> = members.collect();
        let once = format!("{{{}}}", members.join(","));
        assert!(Document::parse(once.as_bytes()).is_ok(), "{count}");
        for twice in [r#""m0""#, r#""\u006d0""#] {
            let twice = format!("{{{},{twice}: 1}}", members.join(","));
            let why = malformed(twice.as_bytes());
            assert!(why.starts_with("duplicate member"), "{why}");
            assert!(why.ends_with(&format!("at line 1 column {}", twice.len())), "{why}");
        }
    }
}

#[test]
fn members_with_the_same_mark_are_told_apart() {
    let mut document = Document::default();
    let at = document.open(Span::default(), 0);
    let names: Vec<String> = (0..100).map(|i| format!("m{}", i * 7 % 100)).collect();
    for name in &names {
        let name = document.span(name);
        document.push(name, 5, Data::String(name));
    }
    assert!(document.close_object(at, names.len()));
    let members = document.root().as_object().unwrap();
    for name in &names {
        let found = members.get(&Key { name: name.as_str().into(), mark: 5 }).unwrap();
        assert_eq!(found.as_string().as_deref(), Some(name.as_str()));
    }
    assert!(members.get(&Key { name: "m100".into(), mark: 5 }).is_none());
    let mut twice = Document::default();
    let at = twice.open(Span::default(), 0);
    for name in names.iter().chain(&names[50..51]) {
        let name = twice.span(name);
        twice.push(name, 5, Data::Null);
    }
    assert!(!twice.close_object(at, names.len() + 1));
}

#[test]
fn what_is_no_utf_8_says_where() {
    let why = malformed(b"{\n  \"a\": \"\xff\"}");
    assert_eq!(why, "not JSON at line 2 column 9: invalid UTF-8");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 120, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::hash_map(".{0,3}", inner, 0..20)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(value in values()) {
        let text = value.to_string();
        let read = Document::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&*read.root().to_value(), &value);
        let made = Document::of(&value).unwrap();
        prop_assert_eq!(&*made.root().to_value(), &value);
        if let (Some(members), Value::Object(object)) = (read.root().as_object(), &value) {
            for (name, value) in object {
                let found = members.get(&Documents::prepare_key(name)).unwrap();
                prop_assert_eq!(&*found.to_value(), value);
                let other = Documents::prepare_key(&format!("{name}-"));
                prop_assert_eq!(members.get(&other).is_some(), object.contains_key(&format!("{name}-")));
            }
        }
    }
}

#[test]
fn equal_is_what_is_equal_as_json() {
    let values = [
        json!(null),
        json!(false),
        json!(0),
        json!(1),
        json!("1"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a": [1]}),
    ];
    for (i, one) in values.iter().enumerate() {
        for (j, other) in values.iter().enumerate() {
            assert_eq!(
                Document::of(one).unwrap().root().equals_value(other),
                i == j,
                "{one} {other}"
            );
        }
    }
    assert!(Document::of(&json!(1)).unwrap().root().equals_value(&json!(1.0)));
}

/// Schemas with every keyword that applies to nested values.
fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "integer"}, "b": {"minLength": 1, "maxLength": 2}}}),
        json!({"required": ["a", "b", "n1"], "minProperties": 3, "maxProperties": 11}),
        json!({"uniqueItems": true, "minItems": 1, "maxItems": 3}),
        json!({"enum": [null, 1, 2.5, "a", [1], {"a": 1}]}),
        json!({"const": {"a": [1, 2.5]}}),
        json!({"const": 1.0}),
        json!({"patternProperties": {"^n": {"type": "number", "multipleOf": 0.5}},
            "properties": {"a": true}, "unevaluatedProperties": false}),
        json!({"propertyNames": {"maxLength": 1}, "additionalProperties": {"type": "string"}}),
        json!({"contains": {"type": "string"}, "minContains": 1, "maxContains": 2}),
        json!({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}),
        json!({"prefixItems": [{"type": "null"}], "unevaluatedItems": {"pattern": "^a"}}),
        json!({"type": ["array", "integer", "boolean"], "items": {"$ref": "#"}}),
        json!({"anyOf": [{"type": "string"}, {"minProperties": 2}, {"exclusiveMinimum": 0}]}),
        json!({"oneOf": [{"type": "integer"}, {"maximum": 1}, {"type": "object"}]}),
        json!({"not": {"type": ["object", "null"]}, "minimum": -1, "exclusiveMaximum": 2.5}),
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]},
            "else": {"maxProperties": 2}}),
        json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {"required": ["c"]}}}),
    ]
}

/// Values that the schemas above distinguish; some have more than `FEW` members.
fn telling() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2..4_i64).prop_map(Value::from),
        prop::sample::select(vec![json!(0.5), json!(1.0), json!(2.5)]),
        prop::sample::select(vec!["", "a", "ab", "é", "abcdef"]).prop_map(Value::from),
    ];
    let names = ["a", "b", "c", "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];
    leaf.prop_recursive(3, 40, 12, move |inner| {
        let members =
            prop::collection::hash_map(prop::sample::select(names.to_vec()), inner.clone(), 0..12);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| {
                let named = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(named.collect())
            }),
        ]
    })
}

/// Locations and explanations, sorted.
fn told(errors: jsonschema::ErrorIterator<'_>) -> Vec<(String, String)> {
    let told = |error: jsonschema::ValidationError<'_>| {
        (error.instance_path().to_string(), error.masked_with("it").to_string())
    };
    let mut told: Vec<_> = errors.map(told).collect();
    told.sort();
    told
}

proptest! {
    #[test]
    fn the_library_finds_in_a_document_what_it_finds_in_a_tree(value in telling()) {
        let text = value.to_string();
        let document = Document::parse(text.as_bytes()).unwrap();
        for schema in schemas() {
            let tree = jsonschema::draft202012::new(&schema).unwrap();
            let ours: jsonschema::Validator<Documents> = jsonschema::ValidationOptions::default()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&schema)
                .unwrap();
            prop_assert_eq!(ours.is_valid(document.root()), tree.is_valid(&value), "{}", schema);
            let (found, expected) =
                (told(ours.iter_errors(document.root())), told(tree.iter_errors(&value)));
            prop_assert_eq!(found, expected, "{}", schema);
        }
    }
}
