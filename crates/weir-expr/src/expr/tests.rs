//! Tests of expressions.

use super::*;
use serde_json::json;

fn compile(source: &str) -> Expr {
    Expr::compile(source, &VARIABLES).expect(source)
}

fn scope() -> Scope {
    Scope {
        request: Some(RequestFacts {
            method: "GET".to_owned(),
            target: "/x/7".to_owned(),
            host: "api.example.com".to_owned(),
            address: "192.0.2.1".to_owned(),
            path: vec![("id".to_owned(), "7".to_owned())],
            query: vec![
                ("a".to_owned(), "first".to_owned()),
                ("a".to_owned(), "second".to_owned()),
            ],
            headers: vec![("x-tenant".to_owned(), "blue".to_owned())],
        }),
        claims: Some(json!({"sub": "acme", "n": 5, "big": u64::MAX, "f": 1.5, "roles": ["r", "w"],
            "deep": {"a": {"b": true}}, "none": null})),
        consumer: Some("beta".to_owned()),
        call: None,
    }
}

#[test]
fn what_holds() {
    for source in [
        "request.method == 'GET'",
        "request.path.id == '7' && request.target.startsWith('/x/')",
        "request.query.a == 'first'",
        "request.headers['x-tenant'] == 'blue'",
        "request['host'] == 'api.example.com' && request.address == '192.0.2.1'",
        "claims.sub == \"acme\" && claims.n == 5 && claims.f == 1.5",
        "claims.big == 18446744073709551615u",
        "'w' in claims.roles && size(claims.roles) == 2",
        "claims.roles.exists(r, r == 'r')",
        "claims.deep.a.b",
        "has(claims.sub) && !has(claims.nobody)",
        "claims.none == null",
        "consumer == 'beta'",
        "claims.sub.matches('^a.*e$')",
        "claims.exists(k, k == 'sub')",
    ] {
        assert!(compile(source).holds(&scope()), "{source}");
    }
}

#[test]
fn what_fails_does_not_hold() {
    for source in [
        "claims.nobody == 'x'",
        "claims.sub",
        "claims.sub > 5",
        "claims.n / 0 == 1",
        "claims.roles[7] == 'r'",
        "request.headers['x-other'] == 'blue'",
        "claims.sub.matches('(')",
    ] {
        assert!(!compile(source).holds(&scope()), "{source}");
    }
}

#[test]
fn what_is_absent_from_the_scope_is_not_there() {
    let empty = Scope::default();
    for source in ["request.method == 'GET'", "claims.sub == 'acme'", "consumer == 'beta'"] {
        assert!(!compile(source).holds(&empty), "{source}");
    }
    assert!(compile("1 + 1 == 2").holds(&empty));
}

#[test]
fn values_keep_their_types() {
    for (source, value) in [
        ("request.path.id", json!("7")),
        ("claims.n + 1", json!(6)),
        ("claims.deep", json!({"a": {"b": true}})),
        ("claims.roles", json!(["r", "w"])),
        ("consumer + '-' + claims.sub", json!("beta-acme")),
    ] {
        assert_eq!(compile(source).value(&scope()), Some(value), "{source}");
    }
    assert_eq!(compile("claims.nobody").value(&scope()), None);
    assert_eq!(compile("claims.none").value(&scope()), None);
}

#[test]
fn only_declared_variables_members_and_functions_compile() {
    for (source, variables, part) in [
        ("claims.sub == 'x'", &["request"][..], "unknown variable `claims`"),
        ("claim.sub", &VARIABLES[..], "unknown variable `claim`"),
        ("request.claims.sub", &VARIABLES[..], "unknown member `request.claims`"),
        ("now() > 5", &VARIABLES[..], "unknown function `now`"),
        ("claims.sub ==", &VARIABLES[..], "invalid CEL expression"),
        ("  ", &VARIABLES[..], "is empty"),
        ("claims.roles.all(x, x == y)", &VARIABLES[..], "unknown variable `y`"),
    ] {
        let error = Expr::compile(source, variables).expect_err(source);
        assert!(error.contains(part) && !error.contains('\n'), "{source}: {error}");
    }
    assert!(Expr::compile("claims.roles.all(x, x != '')", &["claims"]).is_ok());
    assert!(Expr::compile("type(claims.n) == int", &["claims"]).is_ok());
}

/// Every function that compiles can be evaluated.
#[test]
fn accepted_functions_exist() {
    for source in [
        "size('a') == 1",
        "'abc'.contains('b')",
        "'abc'.startsWith('a')",
        "'abc'.endsWith('c')",
        "'abc'.matches('b')",
        "string(5) == '5'",
        "int('5') == 5",
        "uint(5) == 5u",
        "double(5) == 5.0",
        "bool('true')",
        "bytes('a') == b'a'",
        "dyn(5) == 5",
        "type(5) == int",
        "has(claims.sub)",
    ] {
        assert!(compile(source).holds(&scope()), "{source}");
    }
}

#[test]
fn evaluation_is_bounded() {
    let three = "[1].all(a, [1].all(b, [1].all(c, a == b && b == c)))";
    assert!(Expr::compile(three, &VARIABLES).is_err());
    assert!(Expr::compile("[1].all(a, [1].all(b, a == b))", &VARIABLES).is_ok());
    assert!(Expr::compile(&"(".repeat(4000), &VARIABLES).is_err());
    assert!(Expr::compile(&format!("'{}'", "a".repeat(5000)), &VARIABLES).is_err());
}

#[test]
fn only_what_is_referred_to_is_needed() {
    let expr = compile("request.headers['x-a'] == 'b' || consumer == 'c'");
    assert!(expr.refers_to("request") && expr.refers_to("consumer") && !expr.refers_to("claims"));
    assert_eq!(expr.source(), "request.headers['x-a'] == 'b' || consumer == 'c'");
}

#[test]
fn nesting_is_bounded_and_never_exhausts_the_stack() {
    // On the stack of a worker.
    let held = |source: String| {
        let worker = std::thread::Builder::new().stack_size(2 << 20);
        let compiled = worker
            .spawn(move || Expr::compile(&source, &VARIABLES).map(|expr| expr.holds(&scope())));
        compiled.expect("a thread").join().expect("no panic")
    };
    let lists = |levels: usize| format!("size({}1{}) == 1", "[".repeat(levels), "]".repeat(levels));
    let sum = |terms: usize| format!("{} == {terms}", vec!["1"; terms].join(" + "));
    assert_eq!(held(lists(29)), Ok(true));
    assert_eq!(held(sum(31)), Ok(true));
    let terms: Vec<String> = (0..200).map(|n| format!("claims.n == {n}")).collect();
    assert_eq!(held(terms.join(" || ")), Ok(true));
    for source in [lists(31), sum(33), sum(1000)] {
        let error = held(source).expect_err("too deep");
        assert!(error.contains("nested deeper than 32"), "{error}");
    }
    for levels in [97, 1000, 2000] {
        let error = held(lists(levels)).expect_err("too deep");
        assert!(error.contains("invalid CEL"), "{levels}: {error}");
    }
}
