use super::*;
use crate::program::{Program, State, Values};
use std::time::Duration;
use weir_wire::Headers;

/// Applies an extractor to a body; returns the variables `v`, `v_matchNr`, `v_2`, `v_g1`.
fn apply(rule: Extraction, number: i32, body: &str) -> [Option<String>; 4] {
    let mut program = Program::default();
    let names = ["v", "v_matchNr", "v_2", "v_g1"].map(|name| program.variable(name));
    let extractor = Extractor {
        variable: names[0],
        rule,
        number,
        default: Some(Text::fixed("none")),
        derived: vec![
            (names[1], DerivedVariable::Matches),
            (names[2], DerivedVariable::Match(2)),
            (names[3], DerivedVariable::Group(1)),
        ],
    };
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut headers = Headers::new();
    headers.push("x-id", b"17");
    let reply = Response {
        status: 200,
        head: b"",
        headers: &headers,
        body: body.as_bytes(),
        bytes: 0,
        url: "",
        request_head: b"",
        request_body: b"",
        elapsed: Duration::ZERO,
    };
    extractor.apply(&reply, &mut Scope { program: &program, state: &state, values: &mut values });
    names.map(|name| values.get(name).map(str::to_owned))
}

fn regex(expression: &str, template: &str) -> Extraction {
    let regex = Regex::new(expression).unwrap();
    Extraction::Regex { field: Field::Body, regex, template: template.to_owned() }
}

#[test]
fn the_number_selects_a_match() {
    let body = "id=1 id=2 id=3";
    let some = |text: &str| Some(text.to_owned());
    let first = apply(regex(r"id=(\d)", ""), 1, body);
    assert_eq!(first, [some("1"), some("3"), some("2"), some("1")]);
    let [third, ..] = apply(regex(r"id=(\d)", "<$1$ of $0$>"), 3, body);
    assert_eq!(third, some("<3 of id=3>"));
    let [missing, number, ..] = apply(regex(r"id=(\d)", ""), 4, body);
    assert_eq!((missing, number), (some("none"), some("3")));
    let [random, ..] = apply(regex(r"id=(\d)", ""), 0, body);
    assert!(["1", "2", "3"].contains(&random.unwrap().as_str()));
}

#[test]
fn json_and_fields_are_found() {
    let path = JsonPath::parse("$.a[*]").unwrap();
    let [value, number, second, _] = apply(Extraction::Json(path), 1, r#"{"a":["x",{"y":1}]}"#);
    assert_eq!(value.as_deref(), Some("x"));
    assert_eq!(number.as_deref(), Some("2"));
    assert_eq!(second.as_deref(), Some(r#"{"y":1}"#));
    let [field, ..] = apply(Extraction::Header("X-Id".to_owned()), 1, "");
    assert_eq!(field.as_deref(), Some("17"));
}
