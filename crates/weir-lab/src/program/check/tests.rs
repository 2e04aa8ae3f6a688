use super::*;
use crate::program::{Program, State, Values};

fn verify(kind: CheckKind, body: &str) -> Option<String> {
    let program = Program::default();
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut scope = Scope { program: &program, state: &state, values: &mut values };
    let headers = Headers::new();
    let reply = Response {
        status: 200,
        head: b"HTTP/1.1 200 All Right\r\na: b\r\n\r\n",
        headers: &headers,
        body: body.as_bytes(),
        bytes: 35 + body.len() as u64,
        url: "http://h/p",
        request_head: b"GET /p HTTP/1.1\r\nhost: h\r\n\r\n",
        reason: None,
        request_body: b"",
        elapsed: Duration::from_millis(20),
    };
    Check { message: None, kind }.verify(&reply, &mut scope)
}

fn text(
    field: Field,
    comparison: Comparison,
    patterns: &[&str],
    any: bool,
    not: bool,
) -> CheckKind {
    let patterns = patterns.iter().map(|pattern| Text::fixed(*pattern)).collect();
    CheckKind::Text(TextCheck { any, not, ..TextCheck::new(field, comparison, patterns) })
}

#[test]
fn statuses_are_read_as_written() {
    let set = StatusSet::parse("2xx, 301-302,503").unwrap();
    let seen = |status| set.contains(status);
    assert!(seen(200) && seen(299) && seen(301) && seen(302) && seen(503));
    assert!(!seen(300) && !seen(303) && !seen(500));
    assert_eq!(StatusSet::parse("2x"), None);
    for wrong in ["", "299-200", "20", "1000", "200-1000", "99-200"] {
        assert_eq!(StatusSet::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn texts_are_compared() {
    use Comparison::{Contains, Equals, Matches, Substring};
    let body = |comparison, pattern: &str, not| {
        verify(text(Field::Body, comparison, &[pattern], false, not), "size: 50B.").is_none()
    };
    assert!(body(Substring, "50B.", false) && !body(Substring, "50Bx", false));
    assert!(body(Equals, "size: 50B.", false) && !body(Equals, "size", false));
    assert!(body(Contains, r"\d+B", false) && !body(Contains, r"\d{3}B", false));
    assert!(body(Matches, r"size: \d+B\.", false) && !body(Matches, r"\d+B", false));
    assert!(!body(Substring, "50B.", true) && body(Substring, "none", true));
    assert!(verify(text(Field::Body, Contains, &["("], false, false), "").is_some());
}

#[test]
fn patterns_are_all_or_any() {
    let both = |any, not| {
        verify(text(Field::Body, Comparison::Substring, &["a", "x"], any, not), "abc").is_none()
    };
    assert!(!both(false, false) && both(true, false));
    assert!(!both(false, true) && both(true, true));
}

#[test]
fn fields_are_distinguished() {
    let has = |field, pattern: &str| {
        verify(text(field, Comparison::Equals, &[pattern], false, false), "").is_none()
    };
    assert!(has(Field::Status, "200") && has(Field::Reason, "All Right"));
    assert!(has(Field::Url, "http://h/p") && has(Field::RequestHeaders, "host: h\r\n\r\n"));
}

#[test]
fn times_and_sizes_have_limits() {
    assert!(verify(CheckKind::Duration(Duration::from_millis(20)), "").is_none());
    assert!(verify(CheckKind::Duration(Duration::from_millis(19)), "").is_some());
    let size = |order, bytes| {
        verify(CheckKind::Size { field: Some(Field::Body), order, bytes }, "abc").is_none()
    };
    assert!(size(SizeOperator::EQUAL, 3) && !size(SizeOperator::EQUAL, 4));
    assert!(size(SizeOperator::ALL[3], 4) && !size(SizeOperator::ALL[2], 3));
}

#[test]
fn json_is_looked_into() {
    let json = |path: &str, expected: Option<&str>, not| {
        let kind = CheckKind::Json(JsonCheck {
            path: JsonPath::parse(path).unwrap(),
            expected: expected.map(Text::fixed),
            not,
        });
        verify(kind, r#"{"a":{"b":"x"},"n":null,"l":[1,2]}"#).is_none()
    };
    assert!(json("$.a.b", Some("x"), false) && !json("$.a.b", Some("y"), false));
    assert!(json("$.l[*]", Some("2"), false) && json("$.a", None, false));
    assert!(!json("$.z", None, false) && json("$.z", None, true));
    let absent = CheckKind::Json(JsonCheck {
        path: JsonPath::parse("$.error").unwrap(),
        expected: None,
        not: true,
    });
    assert_eq!(verify(absent.clone(), "{}"), None);
    for other in ["", "<html>"] {
        assert!(verify(absent.clone(), other).is_some(), "nothing is known of {other:?}");
    }
}
