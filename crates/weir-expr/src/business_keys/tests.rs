use super::*;

fn keys(sources: &[(&str, &str)]) -> BusinessKeys {
    let mut keys = BusinessKeys::default();
    for (name, text) in sources {
        let source =
            if text.starts_with('$') { Source::path(text) } else { Source::expression(text) };
        keys.add(name, text, source.unwrap());
    }
    keys
}

fn found(keys: &BusinessKeys, view: &RequestView<'_>, request: &str, response: &str) -> String {
    let all = keys.extract(view, request.as_bytes(), response.as_bytes());
    all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn in_bodies(sources: &[(&str, &str)], request: &str, response: &str) -> String {
    found(&keys(sources), &RequestView::default(), request, response)
}

#[test]
fn keys_come_from_the_request_and_where_it_has_none_from_the_answer() {
    let sources = [("order", "$.order.id"), ("lines", "$.lines[*].sku"), ("ok", "$.ok")];
    let request =
        r#"{"order": {"id": "A-17"}, "lines": [{"sku": 1}, {"sku": "x"}, {}, {"sku": 1}]}"#;
    let response = r#"{"order": {"id": "other"}, "ok": true}"#;
    assert_eq!(in_bodies(&sources, request, response), "order=A-17 lines=1 lines=x ok=true");
    assert_eq!(in_bodies(&sources, "", response), "order=other ok=true");
    assert_eq!(in_bodies(&sources, "<xml/>", "$\u{0}"), "");
}

#[test]
fn only_scalars_are_values_and_they_lose_their_quotes() {
    let sources = [("a", "$.a"), ("b", "$.b"), ("c", "$.c"), ("d", "$.d"), ("e", "$.e")];
    let body = r#"{"a": "x\n\"y", "b": null, "c": {"x": 1}, "d": -1.50, "e": ""}"#;
    assert_eq!(in_bodies(&sources, body, ""), "a=x\n\"y d=-1.50");
    assert_eq!(in_bodies(&sources, r#"{"a": "***"}"#, ""), "", "what is masked is no key");
}

#[test]
fn a_truncated_body_gives_what_stands_before_its_cut() {
    let sources = [("a", "$.a"), ("b", "$.b")];
    let body = r#"{"a": "€1", "b": 123, "c": "€€€"}"#;
    let whole = "a=€1 b=123";
    for end in 0..body.len() {
        let cut = keys(&sources);
        let some: Vec<_> = cut
            .extract(&RequestView::default(), &body.as_bytes()[..end], b"")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let some = some.join(" ");
        let expected = match end {
            0..12 => "",
            12..23 => "a=€1",
            _ => whole,
        };
        assert_eq!(some, expected, "cut at {end}");
    }
}

#[test]
fn values_are_bounded_in_number_and_length() {
    let many = format!("[{}]", (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let values = in_bodies(&[("n", "$[*]")], &many, "");
    assert_eq!(values.split(' ').count(), VALUES);
    let long = format!("{{\"a\": \"{}\"}}", "€".repeat(1000));
    for path in ["$.a", "$..a"] {
        let value = in_bodies(&[("a", path)], &long, "");
        assert_eq!(value, format!("a={}", "€".repeat(VALUE_LENGTH / 3)));
    }
}

#[test]
fn expressions_see_what_is_recorded_of_a_request() {
    let view = RequestView {
        method: "PUT",
        target: "/a%20b?id=x%2By+z&flag",
        head: b"Host: Example.com:8080\r\nX-Customer:  c-1 \r\n",
        client: "10.0.0.1",
        consumer: "acme",
    };
    let sources = [
        ("customer", r#"request.headers["x-customer"]"#),
        ("id", "request.query.id"),
        ("all", "[request.method, request.target, request.host, request.address, consumer]"),
        ("none", "request.query.absent"),
        ("number", "size(consumer)"),
    ];
    assert_eq!(
        found(&keys(&sources), &view, "", ""),
        "customer=c-1 id=x+y z all=PUT all=/a%20b all=example.com all=10.0.0.1 all=acme number=4"
    );
    assert!(Source::expression("request.path.id").is_err());
    assert!(Source::expression("claims.sub").is_err());
}
