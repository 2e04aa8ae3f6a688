use super::*;

const STORE: &str = r#"{
    "x-y": 1, "a b": 2, "n": null, "list": [1, 2, 3, 4], "f": 1.50, "url": "http://h/p",
    "o": {"p": "a/b", "q": [true, null]},
    "book": [
        {"id": 1, "title": "A", "price": 8.95, "tags": ["x", "y"]},
        {"id": 2, "title": "Beta", "price": 12},
        {"id": 3, "title": "Gamma", "isbn": "0-1"}
    ]
}"#;

fn found(path: &str) -> Vec<String> {
    let root: Value = serde_json::from_str(STORE).expect("JSON");
    let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.find(&root).expect("few values").iter().map(|value| text(value)).collect()
}

#[test]
fn paths_are_those_of_the_library() {
    for (path, expected) in [
        ("$.x-y", &["1"][..]),
        ("x-y", &["1"]),
        ("$['a b']", &["2"]),
        ("$.n", &["null"]),
        ("$.none", &[]),
        ("$.list.length()", &["4"]),
        ("$.list[-1]", &["4"]),
        ("$.list[0,2]", &["1", "3"]),
        ("$.list[1:3]", &["2", "3"]),
        ("$.list[-2:]", &["3", "4"]),
        ("$.list[:1]", &["1"]),
        ("$.list[9]", &[]),
        ("$.list.max()", &["4.0"]),
        ("$.f", &["1.5"]),
        ("$.url", &["http://h/p"]),
        ("$.o", &[r#"{"p":"a\/b","q":[true,null]}"#]),
        ("$['x-y','f']", &[r#"{"x-y":1,"f":1.5}"#]),
        ("$.book[*].id", &["1", "2", "3"]),
        ("$..id", &["1", "2", "3"]),
        ("$..book.length()", &["1"]),
        ("$..book[0].title", &["A"]),
        ("$.book[?(@.isbn)].id", &["3"]),
        ("$.book[?(!@.isbn)].id", &["1", "2"]),
        ("$.book[?(@.price < 10)].title", &["A"]),
        ("$.book[?(@.price >= 12 && @.id == 2)].title", &["Beta"]),
        ("$.book[?(@.id == '3' || @.title == \"A\")].id", &["1", "3"]),
        ("$.book[?(@.title =~ /.*a/i)].id", &["1", "2", "3"]),
        ("$.book[?(@.title =~ /B.*/)].id", &["2"]),
        ("$.book[?(@.id in [1, 3])].id", &["1", "3"]),
        ("$.book[?(@.title nin ['A'])].id", &["2", "3"]),
        ("$.book[?(@.tags contains 'x')].id", &["1"]),
        ("$.book[?(@.tags size 2)].id", &["1"]),
        ("$.book[?(@.id==$.x-y)].id", &["1"]),
        ("$.book[?(@['title']=='A')]['id']", &["1"]),
        ("$..[?(@.price)].price", &["8.95", "12"]),
        ("$.o.keys()", &[r#"["p","q"]"#]),
        ("$", &[][..]),
    ] {
        if path == "$" {
            assert_eq!(found(path).len(), 1);
            continue;
        }
        assert_eq!(found(path), expected, "{path}");
    }
}

#[test]
fn unsupported_paths_are_errors_and_work_is_bounded() {
    for path in
        ["$.", "$..", "$.a[", "$.a[x]", "$.a[?(@.b", "$.a[?(@.b foo 1)]", "$.a.concat('x')", "$['a"]
    {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
    assert!(JsonPath::parse("$.a.b[0]").unwrap().is_definite());
    assert!(!JsonPath::parse("$..a").unwrap().is_definite());
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let root: Value = serde_json::from_str(&nested).expect("JSON");
    let path = JsonPath::parse(&format!("${}", "..*".repeat(20))).expect("a path");
    assert!(path.find(&root).is_err());
    assert!(JsonPath::parse(&format!("$[?({})]", "(".repeat(10_000))).is_err());
}

#[test]
fn numbers_are_written_as_in_java() {
    for (number, expected) in [
        (1.0, "1.0"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (1.25e-5, "1.25E-5"),
        (0.0, "0.0"),
        (-2.5, "-2.5"),
    ] {
        assert_eq!(java_double(number), expected);
    }
}

#[test]
fn steps_of_paths_are_bounded() {
    let root = serde_json::json!({"a": 1});
    let filters = |count: usize| JsonPath::parse(&format!("${}", "[?(@.a)]".repeat(count)));
    let path = filters(250).expect("a path");
    assert_eq!(path.find(&root).expect("few values").len(), 1);
    assert!(filters(251).is_err() && filters(8_000).is_err());
    assert!(JsonPath::parse(&format!("${}", ".a".repeat(501))).is_err());
}
