use super::*;
use crate::program::{Program, State, Values};
use weir_wire::Headers;

/// Applies an extractor to a body; returns its variable.
fn apply(rule: Extraction, number: i32, body: &str) -> Option<String> {
    let mut program = Program::default();
    let variable = program.variable("v");
    let extractor = Extractor { variable, rule, number, default: Some(Text::fixed("none")) };
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut headers = Headers::new();
    headers.push("x-id", b"17");
    let reply = Response::of_body(&headers, body);
    extractor.apply(&reply, &mut Scope { program: &program, state: &state, values: &mut values });
    values.get(variable).map(str::to_owned)
}

fn regex(expression: &str) -> Extraction {
    Extraction::Regex { field: Field::Body, regex: Regex::new(expression).unwrap() }
}

#[test]
fn the_number_selects_a_match() {
    let body = "id=1 id=2 id=3";
    assert_eq!(apply(regex(r"id=(\d)"), 1, body).as_deref(), Some("1"));
    assert_eq!(apply(regex(r"id=\d"), 3, body).as_deref(), Some("id=3"));
    assert_eq!(apply(regex(r"id=(\d)"), 4, body).as_deref(), Some("none"));
    let random = apply(regex(r"id=(\d)"), 0, body);
    assert!(["1", "2", "3"].contains(&random.unwrap().as_str()));
}

#[test]
fn json_and_fields_are_found() {
    let path = || Extraction::Json(JsonPath::parse("$.a[*]").unwrap());
    let body = r#"{"a":["x",{"y":1}]}"#;
    assert_eq!(apply(path(), 1, body).as_deref(), Some("x"));
    assert_eq!(apply(path(), 2, body).as_deref(), Some(r#"{"y":1}"#));
    let field = apply(Extraction::Header("X-Id".to_owned()), 1, "");
    assert_eq!(field.as_deref(), Some("17"));
}
