//! Tests of maps, among them the comparison of the pass with the tree.

use super::*;
use crate::expr::RequestFacts;
use proptest::prelude::*;
use serde_json::json;

fn compile(template: Value) -> JsonMap {
    JsonMap::compile(&template).expect("a map")
}

fn apply(template: Value, body: &str) -> String {
    let mut out = Vec::new();
    compile(template).apply(body.as_bytes(), &Scope::default(), &mut out).expect("maps");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn members_are_copied_as_they_stand() {
    let body =
        r#"{"payload": {"b": 1.10, "a": [1e400, "\u00e4"]}, "size":12345678901234567890123}"#;
    assert_eq!(
        apply(json!({"size": "$.size", "payload": "$.payload"}), body),
        r#"{"size":12345678901234567890123,"payload":{"b": 1.10, "a": [1e400, "\u00e4"]}}"#
    );
}

#[test]
fn absent_members_are_left_out_and_items_are_null() {
    let body = r#"{"a":{"b":5}}"#;
    assert_eq!(apply(json!({"x": "$.nobody", "y": "$.a.b", "z": "$.a.b.c"}), body), r#"{"y":5}"#);
    assert_eq!(apply(json!(["$.nobody", "$.a"]), body), r#"[null,{"b":5}]"#);
    assert_eq!(apply(json!("$.nobody"), body), "null");
    assert_eq!(apply(json!("$.a.b"), body), "5");
    assert_eq!(apply(json!("$"), "[1, 2]"), "[1, 2]");
}

#[test]
fn a_value_and_its_parts() {
    let body = r#"{"a":[{"b":1},{"b":2}],"c":null}"#;
    assert_eq!(
        apply(
            json!({"all": "$.a", "second": "$.a[1].b", "first": "$['a'][0]", "again": "$.a[1].b", "c": "$.c"}),
            body
        ),
        r#"{"all":[{"b":1},{"b":2}],"second":2,"first":{"b":1},"again":2,"c":null}"#
    );
}

#[test]
fn of_duplicate_names_the_last_wins_at_every_depth() {
    let body = r#"{"a":{"b":1,"b":2},"a":{"c":3},"d":{"e":1},"d":{"e":{"e":1},"e":5}}"#;
    assert_eq!(
        apply(json!({"a": "$.a", "b": "$.a.b", "c": "$.a.c", "e": "$.d.e", "ee": "$.d.e.e"}), body),
        r#"{"a":{"c":3},"c":3,"e":5}"#
    );
}

#[test]
fn names_are_compared_decoded() {
    let body = r#"{"\u0061b":1,"ä":2,"x y":3,"q\"":4,"'":5}"#;
    assert_eq!(
        apply(
            json!({"1": "$.ab", "2": "$.ä", "3": "$['x y']", "4": "$['q\"']", "5": "$['\\'']", "6": "$[\"\\u00e4\"]"}),
            body
        ),
        r#"{"1":1,"2":2,"3":3,"4":4,"5":5,"6":2}"#
    );
}

#[test]
fn an_array_is_no_object() {
    assert_eq!(apply(json!({"a": "$.a", "b": "$.b[0]"}), r#"[{"a":1},{"b":[2]}]"#), "{}");
    assert_eq!(apply(json!({"a": "$[0].a"}), r#"[{"a":1}]"#), r#"{"a":1}"#);
    assert_eq!(apply(json!({"a": "$[0]"}), r#"{"0":1}"#), "{}");
}

#[test]
fn constants_literals_and_expressions() {
    let map = compile(json!({"n": 5, "t": true, "z": null, "l": {"literal": "$5"},
        "m": {"literal": {"cel": "x"}}, "id": {"cel": "request.path.id"}, "gone": {"cel": "claims.x"},
        "both": {"literal": 1, "cel": 2}}));
    assert!(!map.reads_body() && map.reads_request() && !map.needs_tree());
    assert!(map.refers_to("request") && map.refers_to("claims") && !map.refers_to("consumer"));
    let request =
        RequestFacts { path: vec![("id".to_owned(), "a\"b".to_owned())], ..Default::default() };
    let scope = Scope { request: Some(request), ..Default::default() };
    let mut out = Vec::new();
    // The body is not read.
    map.apply(b"not json", &scope, &mut out).expect("maps");
    assert_eq!(
        String::from_utf8(out).expect("UTF-8"),
        r#"{"n":5,"t":true,"z":null,"l":"$5","m":{"cel":"x"},"id":"a\"b","both":{"literal":1,"cel":2}}"#
    );
}

#[test]
fn other_paths_use_a_tree() {
    let body = r#"{"items":[{"n":1,"z":0},{"n":2}],"last":3}"#;
    let map = compile(
        json!({"n": "$.items[*].n", "end": "$.items[-1]", "none": "$..nobody", "gone": "$.items[-7]", "last": "$.last"}),
    );
    assert!(map.needs_tree());
    assert_eq!(map.tree_paths().count(), 4);
    let mut out = Vec::new();
    map.apply(body.as_bytes(), &Scope::default(), &mut out).expect("maps");
    assert_eq!(
        String::from_utf8(out).expect("UTF-8"),
        r#"{"n":[1,2],"end":{"n":2},"none":[],"last":3}"#
    );
}

/// A tree stores numbers as floating point: its output must at least be the same number.
#[test]
fn numbers_keep_their_value_in_a_tree() {
    let long = "4".repeat(89) + "2";
    for number in [long.as_str(), "0.1", "1.7976931348623157e308", "5e-324", "9007199254740993.5"] {
        let out = apply(json!({"a": "$..a"}), &format!(r#"{{"a":{number}}}"#));
        let value: f64 =
            out.trim_start_matches(r#"{"a":["#).trim_end_matches("]}").parse().unwrap();
        assert_eq!(value, number.parse::<f64>().unwrap(), "{out}");
    }
}

#[test]
fn every_faulty_leaf_is_named() {
    let faults = JsonMap::compile(
        &json!({"a": "plain", "b": ["$.", {"c": {"cel": 5}}], "d": {"cel": "x.y"}}),
    )
    .expect_err("faulty");
    let at: Vec<Vec<&str>> =
        faults.iter().map(|f| f.at.iter().map(String::as_str).collect()).collect();
    assert_eq!(at, [vec!["a"], vec!["b", "0"], vec!["b", "1", "c"], vec!["d"]]);
}

#[test]
fn what_is_no_json_is_refused_and_nothing_is_written() {
    let map = compile(json!({"a": "$.a"}));
    for body in [
        &b""[..],
        b"{",
        b"{\"a\":1}x",
        b"{\"a\":1}{}",
        b"{\"a\":01}",
        b"{\"a\":1,}",
        b"{\"b\":tru,\"a\":1}",
        b"{\"b\":\"\xff\",\"a\":1}",
        b"{\"a\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\n\"}",
        b"{'a':1}",
        b"{\"b\":\"\\x\"}",
    ] {
        let mut out = b"before".to_vec();
        assert!(
            map.apply(body, &Scope::default(), &mut out).is_err(),
            "{}",
            String::from_utf8_lossy(body)
        );
        assert_eq!(out, b"before");
    }
}

#[test]
fn errors_do_not_quote_the_body() {
    let map = compile(json!({"a": "$.a"}));
    let error =
        map.apply(b"{\"a\": secret}", &Scope::default(), &mut Vec::new()).expect_err("refused");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn depth_does_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for template in
            [json!({"a": "$.a"}), json!("$"), json!({"b": "$.b", "z": "$[0]"}), json!("$..a")]
        {
            let _ = compile(template).apply(deep.as_bytes(), &Scope::default(), &mut Vec::new());
        }
    }
}

/// Few and short names, so that paths match and names repeat.
pub(crate) fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        (-100i32..100).prop_map(|n| n.to_string()),
        "[a-c]{0,2}".prop_map(|s| format!("\"{s}\"")),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(("[a-c]", inner), 0..5).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

pub(crate) fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        "[a-c]".prop_map(|n| format!(".{n}")),
        "[a-c]".prop_map(|n| format!("['{n}']")),
        (0usize..4).prop_map(|i| format!("[{i}]")),
    ];
    prop::collection::vec(step, 0..5).prop_map(|steps| format!("${}", steps.join("")))
}

proptest! {
    /// One pass has the same results as a tree, for several paths of one map at once.
    #[test]
    fn the_pass_agrees_with_the_tree(body in document(), paths in prop::collection::vec(path(), 1..6)) {
        let template: serde_json::Map<String, Value> =
            paths.iter().enumerate().map(|(i, p)| (i.to_string(), Value::from(p.as_str()))).collect();
        let map = compile(Value::Object(template));
        prop_assert!(!map.needs_tree());
        let mut out = Vec::new();
        map.apply(body.as_bytes(), &Scope::default(), &mut out).expect("valid JSON");
        let mapped: Value = serde_json::from_slice(&out).expect("valid JSON");
        let tree: Value = serde_json::from_str(&body).expect("valid JSON");
        for (i, path) in paths.iter().enumerate() {
            let expected = JsonPath::parse(path).expect("a path").query(&tree).at_most_one().expect("singular").cloned();
            prop_assert_eq!(mapped.get(i.to_string()).cloned(), expected, "{} in {}", path, body);
        }
    }

    /// For any bytes, the pass accepts exactly what serde_json's tree accepts.
    #[test]
    fn the_pass_accepts_what_the_tree_accepts(body in document(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let map = compile(json!({"a": "$.a", "b": "$[0].b"}));
        let accepted = map.apply(&bytes, &Scope::default(), &mut Vec::new()).is_ok();
        prop_assert_eq!(accepted, serde_json::from_slice::<Value>(&bytes).is_ok());
    }
}
