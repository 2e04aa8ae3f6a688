//! Tests of validation: parameters by style, bodies by media type, reported violations.

mod budget;

use super::*;
use crate::document::Documents;
use crate::weights::Traits;
use jsonschema::Validator;
use serde_json::{Value, json};
use weir_config::validation::{MAX_TEXT_CHARS, Shape, Style};

/// The one with the id [`SCHEMA`].
fn schemas(schema: &Value) -> Schemas {
    let options =
        jsonschema::ValidationOptions::default().with_draft(jsonschema::Draft::Draft202012);
    compiled(options.build(schema).unwrap(), schema)
}

fn compiled(validator: Validator<Documents>, schema: &Value) -> Schemas {
    let (shape, traits) = (Shape::of(schema), Traits::of(schema));
    Schemas([Schema { validator, shape, traits }].into())
}

const SCHEMA: SchemaId = SchemaId(0);

fn parameter(place: Place, style: Style, explode: bool, value: Value) -> (Parameter, Schemas) {
    let (name, required, empty) = ("p".to_owned(), true, false);
    let schema = SCHEMA;
    (Parameter { name, place, required, empty, style, explode, schema }, schemas(&value))
}

/// The violations of a query, header, cookie or path segment.
fn wrong((parameter, schemas): &(Parameter, Schemas), text: &str) -> Vec<(String, String)> {
    let fields = |name: &str| match (parameter.place, name) {
        (Place::Header, "p") | (Place::Cookie, "cookie") => vec![text.to_owned()],
        _ => Vec::new(),
    };
    let is = |place| parameter.place == place;
    let mut out = Vec::new();
    let parts = RequestParts {
        path: if is(Place::Path) { &[("p", text)] } else { &[] },
        query: if is(Place::Query) { text } else { "" },
        headers: &fields,
    };
    match schemas.check_parameters(std::slice::from_ref(parameter), &parts) {
        Ok(()) => {}
        Err(Fault::Violations(violations)) => out = violations,
        Err(other) => panic!("{other:?}"),
    }
    out.into_iter().map(|v| (v.pointer, v.detail)).collect()
}

#[test]
fn values_are_read_as_their_style_writes_them() {
    let numbers = json!({"const": [1, 2, 3]});
    let numbers = || json!({"allOf": [numbers], "type": "array", "items": {"type": "integer"}});
    let point = || {
        json!({"type": "object", "const": {"x": 1, "y": "a b"},
            "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}})
    };
    let cases = [
        (Place::Path, Style::Simple, false, numbers(), "1,2,3"),
        (Place::Path, Style::Simple, false, point(), "x,1,y,a%20b"),
        (Place::Path, Style::Simple, true, point(), "x=1,y=a%20b"),
        (Place::Path, Style::Label, false, numbers(), ".1,2,3"),
        (Place::Path, Style::Label, true, numbers(), ".1.2.3"),
        (Place::Path, Style::Label, true, point(), ".x=1.y=a%20b"),
        (Place::Path, Style::Label, false, json!({"const": 5}), ".5"),
        (Place::Path, Style::Matrix, false, numbers(), ";p=1,2,3"),
        (Place::Path, Style::Matrix, true, numbers(), ";p=1;p=2;p=3"),
        (Place::Path, Style::Matrix, true, point(), ";x=1;y=a%20b"),
        (Place::Path, Style::Matrix, false, json!({"const": true}), ";p=true"),
        (Place::Query, Style::Form, true, numbers(), "a=b&p=1&p=2&p=3"),
        (Place::Query, Style::Form, false, numbers(), "p=1,2,3"),
        (Place::Query, Style::Form, true, point(), "y=a+b&x=1&z=3"),
        (Place::Query, Style::Form, false, point(), "p=x,1,y,a%20b"),
        (Place::Query, Style::Form, true, json!({"const": "1,2"}), "p=1%2C2"),
        (Place::Query, Style::Space, false, numbers(), "p=1%202+3"),
        (Place::Query, Style::Pipe, false, numbers(), "p=1|2%7C3"),
        (Place::Query, Style::Deep, true, point(), "p[x]=1&p%5By%5D=a%20b"),
        (Place::Query, Style::Json, true, json!({"const": {"a": [1]}}), "p={%22a%22:[1]}"),
        (Place::Header, Style::Simple, false, numbers(), "1, 2,3"),
        (Place::Header, Style::Simple, true, point(), "x=1,y=a b"),
        (Place::Cookie, Style::Form, false, json!({"const": 7}), "a=1; p=7; b=2"),
    ];
    for (place, style, explode, schema, text) in cases {
        let parameter = parameter(place, style, explode, schema);
        assert_eq!(wrong(&parameter, text), [], "{place:?} {style:?} {explode} {text}");
        assert_ne!(wrong(&parameter, "nonsense"), [], "{place:?} {style:?} {explode} {text}");
    }
}

#[test]
fn a_text_is_read_as_whatever_type_the_schema_takes() {
    let query = |schema| parameter(Place::Query, Style::Form, true, schema);
    let integer = query(json!({"type": "integer", "minimum": 1}));
    for (text, valid) in [("p=1", true), ("p=1.0", true), ("p=0", false), ("p=01", false)] {
        assert_eq!(wrong(&integer, text).is_empty(), valid, "{text}");
    }
    assert_eq!(wrong(&integer, "p=x")[0].1, "the value is not of type \"integer\"");
    // Digits are read as a text if a number does not match.
    let either = query(json!({"oneOf": [{"type": "integer", "maximum": 9}, {"type": "string"}]}));
    assert_eq!(wrong(&either, "p=123"), []);
    let listed = query(json!({"enum": [1, "a", true, null]}));
    for (text, valid) in
        [("p=1", true), ("p=a", true), ("p=true", true), ("p=", true), ("p=2", false)]
    {
        assert_eq!(wrong(&listed, text).is_empty(), valid, "{text}");
    }
    let one_or_many = query(
        json!({"oneOf": [{"type": "string"}, {"type": "array", "minItems": 2, "items": {"type": "string"}}]}),
    );
    assert_eq!(wrong(&one_or_many, "p=a"), []);
    assert_eq!(wrong(&one_or_many, "p=a&p=b"), []);
}

#[test]
fn absent_and_repeated_values_are_told() {
    let mut integer = parameter(Place::Query, Style::Form, true, json!({"type": "integer"}));
    assert_eq!(wrong(&integer, "q=1")[0].1, "the parameter is required");
    // The next reader might use the other one.
    assert_eq!(wrong(&integer, "p=1&p=2")[0].1, "the parameter is repeated");
    assert_eq!(wrong(&integer, "p=").len(), 1);
    (integer.0.required, integer.0.empty) = (false, true);
    assert_eq!(wrong(&integer, ""), []);
    assert_eq!(wrong(&integer, "p="), []);
}

/// A body with its schema.
struct Body(Content, Schemas);

impl Body {
    fn check(&self, bytes: &[u8]) -> Result<(), Fault> {
        self.1.check_body(&self.0, bytes)
    }
}

fn body(range: &str, check: BodyCheck, schema: &Value) -> Body {
    Body(Content { range: range.to_owned(), check }, schemas(schema))
}

fn json_body(schema: &Value) -> Body {
    body("application/json", BodyCheck::Json(Some(SCHEMA)), schema)
}

fn violations(content: &Body, body: &str) -> Vec<(String, String)> {
    match content.check(body.as_bytes()) {
        Err(Fault::Violations(v)) => v.into_iter().map(|v| (v.pointer, v.detail)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn violations_say_where_and_never_what_stands_there() {
    let content = json_body(&json!({"type": "object", "required": ["id"], "properties": {
        "a/b": {"items": {"type": "integer"}}, "secret": {"maxLength": 3}, "one": {"enum": ["x"]},
        "not": {"not": {"const": "hunter2"}}, "any": {"anyOf": [{"type": "null"}]}}}));
    let body = r#"{"a/b": [1, "hunter2"], "secret": "hunter2", "one": "hunter2", "not": "hunter2",
        "any": "hunter2"}"#;
    let found = violations(&content, body);
    let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    for pointer in ["/a~1b/1", "/secret", "/one", "/not", "/any", ""] {
        assert!(pointers.contains(&pointer), "{pointer} in {found:?}");
    }
    let told = |(pointer, detail): &(String, String)| {
        // Parts of the schema may be reported.
        pointer == "/not" || !detail.contains("hunter2")
    };
    assert!(found.iter().all(told), "{found:?}");
}

#[test]
fn what_is_told_is_bounded() {
    let content = json_body(&json!({"items": {"type": "integer"}}));
    let found = violations(&content, &format!("[{}1]", "\"x\",".repeat(1000)));
    assert_eq!(found.len(), MAX_VIOLATIONS);
    let content = json_body(&json!({"additionalProperties": {"type": "integer"}}));
    let long = "k".repeat(10_000);
    let found = violations(&content, &format!("{{\"{long}\": \"\"}}"));
    assert!(found[0].0.chars().count() <= MAX_TEXT_CHARS + 1);
    let content = json_body(&json!({"additionalProperties": false}));
    let found = violations(&content, &format!("{{\"{long}\": \"\"}}"));
    assert!(found[0].1.chars().count() <= MAX_TEXT_CHARS + 1);
}

#[test]
fn bodies_that_could_be_read_in_two_ways_or_too_deep_are_malformed() {
    let content = json_body(&json!(true));
    let malformed = |body: &str| matches!(content.check(body.as_bytes()), Err(Fault::Malformed(_)));
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(!malformed(&nested(document::DEPTH)));
    assert!(malformed(&nested(document::DEPTH + 1)));
    assert!(malformed(&nested(100_000)));
    assert!(malformed("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}"));
    for body in ["", "{", "{} {}", "nul", "\u{feff}{}", "[01]"] {
        assert!(malformed(body), "{body}");
    }
}

#[test]
fn forms_and_texts_are_checked_as_what_they_are() {
    let fields = json!({"type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {"n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}}});
    let form = body("application/x-www-form-urlencoded", BodyCheck::Form(SCHEMA), &fields);
    assert_eq!(form.check(b"n=1&tags=a&tags=b+c"), Ok(()));
    for wrong in ["n=x", "tags=a&tags=b", "n=1&tags=a", "n=1&m=2", "n=1&n=2"] {
        assert!(form.check(wrong.as_bytes()).is_err(), "{wrong}");
    }
    let short = json!({"type": "string", "maxLength": 3});
    let text = body("text/plain", BodyCheck::Text(SCHEMA), &short);
    assert_eq!(text.check("äöü".as_bytes()), Ok(()));
    assert!(text.check(b"four").is_err());
    assert!(matches!(text.check(b"\xff"), Err(Fault::Malformed(_))));
}
