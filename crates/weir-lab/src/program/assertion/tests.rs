use super::*;
use crate::program::{Program, State, Values};
use std::time::Duration;
use weir_wire::Headers;

fn verify(assertion: &Assertion, body: &str) -> Option<String> {
    let program = Program::default();
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut scope = Scope { program: &program, state: &state, values: &mut values };
    let mut headers = Headers::new();
    headers.push("content-type", b"text/plain; charset=ISO-8859-1");
    let reply = Response {
        status: 200,
        head: b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
        headers: &headers,
        body: body.as_bytes(),
        bytes: 35 + body.len() as u64,
        url: "http://h/p",
        request_head: b"POST /p HTTP/1.1\r\nhost: h\r\nCookie: a=1\r\n\r\n",
        reason: None,
        request_body: b"data",
        elapsed: Duration::from_millis(20),
    };
    assertion.verify(&reply, &mut scope)
}

fn response(
    field: Field,
    comparison: Comparison,
    patterns: &[&str],
    any: bool,
    not: bool,
) -> Assertion {
    Assertion::Response(ResponseAssertion {
        source: Source::Field(field),
        comparison,
        patterns: patterns.iter().map(|pattern| Text::fixed(*pattern)).collect(),
        any,
        not,
        ignore_status: false,
        message: Text::default(),
    })
}

#[test]
fn failures_have_the_messages_of_jmeter() {
    use Comparison::{Contains, Equals, Matches, Substring};
    let body = |comparison, patterns: &[&str], any, not| {
        verify(&response(Field::Body, comparison, patterns, any, not), "size: 50B")
    };
    assert_eq!(body(Contains, &[r"\d+B"], false, false), None);
    assert_eq!(
        body(Substring, &["none"], false, false).as_deref(),
        Some("Test failed: text expected to contain /none/")
    );
    assert_eq!(
        body(Matches, &["size.*"], false, true).as_deref(),
        Some("Test failed: text expected not to match /size.*/")
    );
    assert_eq!(
        body(Contains, &["a9", "b9"], true, false).as_deref(),
        Some(
            "Test failed: text expected something using /a9/\tTest failed: text expected something \
             using /b9/\t"
        )
    );
    assert_eq!(body(Contains, &["("], false, false).map(|m| m.starts_with("Bad test")), Some(true));
    let equals = body(Equals, &["size: 60B"], false, false).expect("a message");
    assert!(equals.contains("****** received  : size: [[[5]]]0B"), "{equals}");
    assert!(equals.contains("****** comparison: size: [[[6]]]0B"), "{equals}");
}

#[test]
fn texts_are_those_of_jmeter() {
    let equals = |field, pattern: &str| {
        verify(&response(field, Comparison::Equals, &[pattern], false, false), "\u{e9}")
    };
    assert_eq!(equals(Field::Headers, "HTTP/1.1 200 OK\nA: b\n"), None);
    assert_eq!(equals(Field::RequestHeaders, "host: h\n"), None);
    let data = "POST http://h/p\n\nPOST data:\ndata\n\nCookie Data:\na=1\n";
    assert_eq!(equals(Field::RequestData, data), None);
    // The body in its charset.
    assert_eq!(equals(Field::Body, "\u{c3}\u{a9}"), None);
}

#[test]
fn values_in_json_are_compared() {
    let json = |path: &str, expected: Option<&str>, regex, null, not| {
        let assertion = Assertion::Json(JsonAssertion {
            path: Expression::Fixed(JsonPath::parse(path).expect("a path")),
            expected: expected.map(Text::fixed),
            regex,
            null,
            not,
        });
        verify(&assertion, r#"{"a":"x","n":null,"l":[1,2],"f":1.5}"#)
    };
    assert_eq!(json("$.a", Some("x"), false, false, false), None);
    assert_eq!(json("$.l", Some("2"), false, false, false), None);
    assert_eq!(json("$.l", Some("[1,2]"), false, false, false), None);
    assert_eq!(json("$.f", Some(r"1\.\d"), true, false, false), None);
    assert_eq!(json("$.n", None, false, true, false), None);
    assert_eq!(json("$.z", None, false, false, true), None);
    assert_eq!(
        json("$.a", Some("y"), true, false, false).as_deref(),
        Some("Value in json path '$.a' expected to match regexp 'y', but it did not match: 'x'")
    );
    assert_eq!(
        json("$.a", None, false, false, true).as_deref(),
        Some("Failed that JSONPath not exists: $.a")
    );
}

#[test]
fn other_assertions_have_their_messages() {
    assert_eq!(
        verify(&Assertion::Duration(Text::fixed("19")), "").as_deref(),
        Some(
            "The operation lasted too long: It took 20 milliseconds, but should not have lasted \
             longer than 19 milliseconds."
        )
    );
    let size = Assertion::Size {
        source: Some(Source::Field(Field::Body)),
        order: SizeOperator::ALL[2],
        bytes: Text::fixed("3"),
    };
    assert_eq!(
        verify(&size, "abc").as_deref(),
        Some(
            "The result was the wrong size: It was 3 bytes, but should have been greater than 3 bytes."
        )
    );
    assert_eq!(verify(&Assertion::Xml, "<a/>"), None);
    assert!(verify(&Assertion::Xml, "<a>").is_some());
    let md5 = Assertion::Md5(Text::fixed("0CC175B9C0F1B6A831C399E269772661"));
    assert_eq!(verify(&md5, "a"), None);
    assert!(verify(&md5, "b").is_some());
    let xpath = |not| Assertion::XPath {
        source: Source::Field(Field::Body),
        query: XPath::parse("/a/b").expect("XPath"),
        not,
    };
    assert_eq!(verify(&xpath(false), "<a><b/></a>"), None);
    assert!(verify(&xpath(true), "<a><b/></a>").is_some());
    assert!(verify(&xpath(false), "<a/>").is_some() && verify(&xpath(false), "<a").is_some());
}
