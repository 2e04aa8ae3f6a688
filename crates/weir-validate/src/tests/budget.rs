//! Tests of budgets: schemas that multiply work or memory are aborted, in both passes; all others
//! are validated as before.

use super::{Body, SCHEMA, compiled, schemas};
use crate::document::VALUES;
use crate::{Fault, MAX_VIOLATIONS, RequestParts, keywords, weights};
use serde_json::{Map, Value, json};
use weir_config::validation::{
    BodyCheck, Content, MAX_BODY_BYTES, Parameter, Place, Style, Violation,
};

/// A body that is compared with this schema.
fn content(mut schema: Value) -> Body {
    let plain = schema.clone();
    weights::take_patterns(&mut schema);
    weights::add(&mut schema);
    let validator = keywords::validator(&schema).expect("a schema");
    let check = BodyCheck::Json(Some(SCHEMA));
    Body(Content { range: "application/json".to_owned(), check }, compiled(validator, &plain))
}

fn is_over_budget(content: &Body, body: &str) -> bool {
    match content.check(body.as_bytes()) {
        Err(Fault::OverBudget(_)) => true,
        Err(Fault::Violations(_)) | Ok(()) => false,
        Err(Fault::Malformed(why)) => panic!("{why}"),
    }
}

fn violations(content: &Body, body: &str) -> Vec<Violation> {
    match content.check(body.as_bytes()) {
        Err(Fault::Violations(violations)) => violations,
        other => panic!("{other:?}"),
    }
}

/// `one` once for each level, around `leaf`.
fn nested(levels: usize, one: &str, leaf: &str, end: &str) -> String {
    format!("{}{leaf}{}", one.repeat(levels), end.repeat(levels))
}

/// A schema that refers to itself from several branches.
fn doubling() -> Value {
    let branch = || json!({"properties": {"a": {"$ref": "#/$defs/0"}}});
    let node = json!({"anyOf": [branch(), branch(), branch()], "type": ["object", "integer"]});
    json!({"$ref": "#/$defs/0", "$defs": {"0": node}})
}

#[test]
fn a_schema_that_doubles_the_work_with_each_level_is_given_up() {
    let content = content(doubling());
    let nested = |leaf: &str| nested(50, "{\"a\":", leaf, "}");
    assert_eq!(content.check(nested("1").as_bytes()), Ok(()));
    // Without a budget this would take 3 to the 50th steps.
    assert!(is_over_budget(&content, &nested("\"x\"")));
    // The next validation has a new budget.
    assert_eq!(content.check(nested("1").as_bytes()), Ok(()));
}

#[test]
fn the_errors_of_branches_are_bounded() {
    // A list whose items are all invalid in every branch; the errors are kept as a tree.
    let branches: Vec<_> = (0..20).map(|i| json!({"required": [format!("m{i}")]})).collect();
    let list = content(json!({"items": {"oneOf": branches}}));
    let found = violations(&list, &format!("[{}{{}}]", "{},".repeat(100_000)));
    assert_eq!(found.len(), MAX_VIOLATIONS);
    assert_eq!((found[3].pointer.as_str(), found[3].place), ("/3", Place::Body));
    // Errors that copy the schema of `not`.
    let long: Vec<_> = (0..2000).map(|i| json!({"const": format!("{i:0>100}")})).collect();
    let list = content(json!({"items": {"not": {"not": {"anyOf": long}}}}));
    let found = violations(&list, &format!("[{}1]", "1,".repeat(900)));
    assert!((5..=MAX_VIOLATIONS).contains(&found.len()), "{}", found.len());
    // Unexpected names, in every branch.
    let branches: Vec<_> = (0..200)
        .map(|i| json!({"additionalProperties": false, "properties": {format!("p{i}"): true, "q": true}}))
        .collect();
    let members: Vec<_> = (0..5000).map(|i| format!("\"m{i}\":1")).collect();
    let object = content(json!({"allOf": [{"anyOf": branches}]}));
    assert!(is_over_budget(&object, &format!("{{{}}}", members.join(","))));
}

#[test]
fn paths_with_long_names_are_told_as_a_whole() {
    let content = content(json!({"additionalProperties": {"items": {"type": "integer"}}}));
    let found =
        violations(&content, &format!("{{\"{}\": [{}1]}}", "k".repeat(1 << 20), "\"\",".repeat(9)));
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].pointer.as_str(), found[0].detail.as_str()),
        ("", "the value does not match the schema")
    );
}

#[test]
fn schemas_that_multiply_without_coming_back_are_given_up() {
    let mut defs = Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        defs.insert(level.to_string(), json!({"allOf": [{"anyOf": [next.clone(), next]}]}));
    }
    defs.insert("60".to_owned(), json!({"type": "string"}));
    let content = content(json!({"$ref": "#/$defs/0", "$defs": defs}));
    assert!(is_over_budget(&content, "0"));
    assert!(!is_over_budget(&content, "\"text\""));
}

#[test]
fn long_bodies_and_many_values_are_over_budget() {
    let content = content(json!({"type": "array"}));
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    assert_eq!(content.check(zeros(VALUES - 1).as_bytes()), Ok(()));
    assert!(is_over_budget(&content, &zeros(VALUES)));
    assert!(is_over_budget(&content, &nested(60, "[", &zeros(VALUES), "]")));
    let text = |length: usize| format!("[\"{}\"]", "x".repeat(length - 4));
    assert_eq!(content.check(text(MAX_BODY_BYTES).as_bytes()), Ok(()));
    assert!(is_over_budget(&content, &text(MAX_BODY_BYTES + 1)));
}

#[test]
fn lists_without_equals_are_found_in_any_order_and_size() {
    let content = content(json!({"items": {"uniqueItems": true}}));
    let unique = |body: &str| content.check(body.as_bytes()).is_ok();
    let many: Vec<String> =
        (0..20_000).map(|i| format!("{{\"a\":{i},\"b\":[1,\"{i}\"]}}")).collect();
    assert!(unique(&format!("[[{}]]", many.join(","))));
    assert!(!unique(&format!("[[{},{}]]", many.join(","), "{\"b\":[1.0,\"77\"],\"a\":77.0}")));
    // Integers that are equal to floating-point numbers.
    let large: Vec<String> = (0..5000).map(|i| (u64::MAX / 2 - i).to_string()).collect();
    assert!(unique(&format!("[[{}]]", large.join(","))));
    assert!(!unique(&format!("[[{},{}]]", large.join(","), large[2500])));
    assert!(!unique("[[0,1,2,3,4,5,6,7,8,9,10,11,12,13,-0.0]]"));
}

#[test]
fn a_text_that_is_too_long_is_not_matched() {
    let pattern = r"(?:(.*)a)*\1c";
    let long = format!("{{\"t\": \"{}\"}}", "a".repeat(1 << 20));
    let schema = |limit: Value| content(json!({"properties": {"t": limit}}));
    assert!(is_over_budget(&schema(json!({"pattern": pattern})), &long));
    let limited = schema(json!({"pattern": pattern, "maxLength": 20}));
    let found = violations(&limited, &long);
    assert_eq!(found.len(), 1);
    assert!(found[0].detail.contains("longer than 20 characters"), "{found:?}");
    assert_eq!(limited.check("{\"t\": \"ääääääaääääääc\"}".as_bytes()), Ok(()));
    assert_eq!(violations(&limited, "{\"t\": \"aab\"}").len(), 1);
    let both = schema(json!({"pattern": "^b$", "maxLength": 3}));
    assert_eq!(violations(&both, "{\"t\": \"äääa\"}").len(), 1);
    assert_eq!(violations(&both, "{\"t\": \"äää\"}").len(), 1);
}

#[test]
fn long_names_are_matched_each_by_itself() {
    let content =
        content(json!({"propertyNames": {"pattern": "^a+$"}, "items": {"pattern": "^a+$"}}));
    let (good, bad) = ("a".repeat(5000), format!("{}b", "a".repeat(4999)));
    assert_eq!(content.check(format!("{{\"{good}\": 1, \"{good}a\": 1}}").as_bytes()), Ok(()));
    assert_eq!(violations(&content, &format!("{{\"{good}\": 1, \"{bad}\": 1}}")).len(), 1);
    assert_eq!(content.check(format!("[\"{good}\", \"{good}\"]").as_bytes()), Ok(()));
    let found = violations(&content, &format!("[\"{good}\", \"{bad}\", \"{good}\\n\"]"));
    assert_eq!(found.iter().map(|v| v.pointer.as_str()).collect::<Vec<_>>(), ["/1", "/2"]);
    // Possibly at the same address.
    for text in [&good, &bad, &good] {
        assert_eq!(content.check(format!("[\"{text}\"]").as_bytes()).is_ok(), text == &good);
    }
}

#[test]
fn a_pattern_that_is_given_up_refuses_and_says_so() {
    let pattern = "^(?=(x+)+$)(a|a|aa|b)+$(?!c)";
    let content = content(json!({"type": "object", "required": ["z"], "properties": {
        "text": {"pattern": pattern}, "names": {"patternProperties": {pattern: {"type": "null"}}}}}));
    let long = "x".repeat(3000);
    let bodies = [
        format!("{{\"text\": \"{long}y\", \"z\": 1}}"),
        format!("{{\"names\": {{\"{long}y\": 1}}, \"z\": 1}}"),
        format!("{{\"names\": {{\"{long}y\": 1}}, \"text\": \"{long}\"}}"),
        format!("{{\"text\": \"{long}y\", \"z\": \"{}\"}}", "z".repeat(1 << 20)),
    ];
    for body in bodies {
        // Any result is valid, but no panic, and bounded work.
        let _ = content.check(body.as_bytes());
    }
}

#[test]
fn forms_and_queries_with_too_many_fields_are_over_budget() {
    let schemas = schemas(&json!({"properties": {"p": {"type": "integer"}}}));
    let range = "application/x-www-form-urlencoded".to_owned();
    let form = Body(Content { range, check: BodyCheck::Form(SCHEMA) }, schemas.clone());
    // Fields after the last validated one would pass unvalidated.
    let fields: String = (0..10_000).map(|i| format!("f{i}&")).collect();
    assert!(is_over_budget(&form, &format!("{fields}p=x")));
    assert!(form.check(&vec![b'x'; MAX_BODY_BYTES + 1]).is_err());
    let parameter = Parameter {
        name: "p".to_owned(),
        place: Place::Query,
        required: false,
        empty: false,
        style: Style::Form,
        explode: true,
        schema: SCHEMA,
    };
    let query = format!("{}p=x", "f&".repeat(10_000));
    let parts = RequestParts { path: &[], query: &query, headers: &|_| Vec::new() };
    assert!(matches!(schemas.check_parameters(&[parameter], &parts), Err(Fault::OverBudget(_))));
}

#[test]
fn only_schemas_that_multiply_work_are_counted() {
    let mut plain = json!({"$ref": "#/$defs/0", "$defs": {
        "0": {"items": {"$ref": "#/$defs/1"}}, "1": {"type": "string", "format": "uuid"}}});
    let before = plain.clone();
    assert!(!weights::add(&mut plain));
    assert_eq!(plain, before);
    let mut round = json!({"$ref": "#/$defs/0", "$defs": {
        "0": {"items": {"$ref": "#/$defs/1"}}, "1": {"not": {"$ref": "#/$defs/0"}}}});
    assert!(weights::add(&mut round));
    let mut costly = json!({"format": "regex", "$defs": {"0": true}});
    assert!(weights::add(&mut costly));
    assert_eq!((&costly["then"]["format"], &costly["$defs"]["0"]), (&json!("regex"), &json!(true)));
}
