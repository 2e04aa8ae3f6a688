use proptest::prelude::*;

use super::{Name, NameMatch, Node, Number, Query, Scope, Term};

/// 2026-11-20T12:00:00Z
const NOON: u64 = 1_795_176_000_000_000;

fn parse(text: &str) -> Node {
    Query::parse(text, NOON).unwrap().root
}

fn error(text: &str) -> (usize, String) {
    let error = Query::parse(text, NOON).unwrap_err();
    (error.at, error.to_string())
}

fn number(text: &str) -> (u64, u64) {
    match parse(text) {
        Node::Term(Term::Number(_, low, high)) => (low, high),
        other => panic!("{other:?}"),
    }
}

fn words(scope: Scope, words: &[&str]) -> Node {
    Node::Term(Term::Words(scope, words.iter().map(|word| (*word).to_owned()).collect()))
}

#[test]
fn every_kind_of_term_is_understood() {
    let api = Node::Term(Term::Name(Name::Api, NameMatch::Equals("orders".into())));
    assert_eq!(parse("api:orders"), api);
    assert_eq!(
        parse("api:ord*"),
        Node::Term(Term::Name(Name::Api, NameMatch::Prefix("ord".into())))
    );
    assert_eq!(parse("consumer:*"), Node::Term(Term::Name(Name::Consumer, NameMatch::Present)));
    assert_eq!(parse("key.order:A-17"), Node::Term(Term::Key("order".into(), Some("A-17".into()))));
    assert_eq!(parse("key.order:*"), Node::Term(Term::Key("order".into(), None)));
    assert_eq!(parse("body:\"Acme \\\"Corp\\\"\""), words(Scope::Body, &["acme", "corp"]));
    assert_eq!(parse("header.X-Foo:bar"), words(Scope::Header("x-foo".into()), &["bar"]));
    assert_eq!(parse("header.x-foo:*"), Node::Term(Term::Exists(Scope::Header("x-foo".into()))));
    assert_eq!(parse("body:*"), Node::Term(Term::Exists(Scope::Body)));
    assert_eq!(parse("header:*"), Node::Term(Term::Exists(Scope::AnyHeader)));
    assert_eq!(parse("target:*"), Node::Term(Term::Exists(Scope::Target)));
    assert_eq!(parse("client:\"::1\""), parse("sender:\"::1\""));
    assert_eq!(parse("upstream:echo"), parse("receiver:echo"));
    let open = Node::Term(Term::Resolution(Some(weir_store::ledger::Resolution::Open)));
    assert_eq!(parse("resolution:open"), open);
    assert_eq!(parse("resolution:*"), Node::Term(Term::Resolution(None)));
    assert_eq!(parse("status:*"), Node::Term(Term::Number(Number::Status, 1, u64::MAX)));
    assert_eq!(parse("A-17"), words(Scope::Anywhere, &["a", "17"]));
    assert_eq!(parse("state:failed"), Node::Term(Term::Number(Number::State, 1, 1)));
    assert_eq!(parse("id:0197"), {
        let low = 0x0197 << 112;
        Node::Term(Term::Id(low, low | (u128::MAX >> 16)))
    });
}

#[test]
fn a_text_that_can_be_an_id_also_matches_ids() {
    let ids = |text: &str| match Query::parse(text, NOON).unwrap().ids_only().root {
        Node::Term(Term::Id(low, high)) => Some((low, high)),
        _ => None,
    };
    let id = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";
    let number = 0x019a_9e3c_4c5e_7d2a_9b1f_3f6d_2c1e_0a55;
    assert_eq!(ids(id), Some((number, number)));
    assert_eq!(ids(&id.replace('-', "")), Some((number, number)));
    let begins = |digits: u128, length: u32| {
        let low = digits << (128 - 4 * length);
        Some((low, low | (u128::MAX >> (4 * length))))
    };
    assert_eq!(ids("019a9e3c"), begins(0x019a_9e3c, 8));
    assert_eq!(ids("019A9E3C-4c"), begins(0x0001_9a9e_3c4c, 10));
    // Words, whatever else they look like, still match words.
    assert!(matches!(parse(id), Node::Or(nodes) if nodes.len() == 2));
    for text in ["deadbeef", "019a9e3", "019a-9e3c4c5e", "A-17", "\"019a9e3c\"", "body:019a9e3c"] {
        assert_eq!(ids(text), None, "{text}");
        assert!(matches!(parse(text), Node::Term(Term::Words(..))), "{text}");
    }
    // Only the combination that the parser makes of a text is reduced.
    assert_eq!(ids("id:019a9e3c OR refund"), None);
}

#[test]
fn numbers_are_compared_with_units_and_open_ends() {
    assert_eq!(number("status:>=500"), (500, u64::MAX));
    assert_eq!(number("status:<500"), (0, 499));
    assert_eq!(number("status:5xx"), (500, 599));
    assert_eq!(number("status:[400 TO *]"), (400, u64::MAX));
    assert_eq!(number("status:{400 TO 500}"), (401, 499));
    assert_eq!(number("took:>200ms"), (200_001, u64::MAX));
    assert_eq!(number("took:<=1.5s"), (0, 1_500_000));
}

#[test]
fn times_stand_for_spans_as_long_as_they_are_precise() {
    let hour = 3_600_000_000;
    assert_eq!(number("time:2026-11-20"), (NOON - 12 * hour, NOON + 12 * hour - 1));
    assert_eq!(number("time:2026-11-20T12"), (NOON, NOON + hour - 1));
    assert_eq!(number("time:2026-11-20T12:00"), (NOON, NOON + 60_000_000 - 1));
    assert_eq!(number("time:2026-11-20T13:00:00+01:00"), (NOON, NOON + 999_999));
    assert_eq!(number("time:>now-15m").0, NOON - 15 * 60_000_000 + 1);
    assert_eq!(number("time:[2026-11-20T10:00 TO now]"), (NOON - 2 * hour, NOON));
    // Two days written so lie side by side.
    assert_eq!(number("after:2026-11-20"), (NOON - 12 * hour, u64::MAX));
    assert_eq!(number("before:2026-11-20"), (0, NOON - 12 * hour - 1));
    assert_eq!(number("since:1h"), (NOON - hour, u64::MAX));
    assert_eq!(number("since:2d"), (NOON - 48 * hour, u64::MAX));
}

#[test]
fn terms_are_put_together_and_or_binds_weakest() {
    let (a, b, c) = (
        words(Scope::Anywhere, &["a"]),
        words(Scope::Anywhere, &["b"]),
        words(Scope::Anywhere, &["c"]),
    );
    let both = Node::And(vec![b.clone(), c.clone()]);
    assert_eq!(parse("a OR b c"), Node::Or(vec![a.clone(), both.clone()]));
    assert_eq!(parse("a OR b AND c"), Node::Or(vec![a.clone(), both]));
    let disjunction = Node::Or(vec![a.clone(), b.clone()]);
    assert_eq!(parse("(a OR b) c"), Node::And(vec![disjunction.clone(), c.clone()]));
    assert_eq!(parse("-(a OR b)"), Node::Not(Box::new(disjunction)));
    assert_eq!(parse("a NOT b -c"), {
        let not = |node| Node::Not(Box::new(node));
        Node::And(vec![a, not(b), not(c)])
    });
    assert_eq!(parse(""), Node::And(vec![]));
    assert_eq!(parse("or"), words(Scope::Anywhere, &["or"]));
    assert_eq!(parse("ORDER"), words(Scope::Anywhere, &["order"]));
}

#[test]
fn errors_name_the_place_and_what_would_be_right() {
    let expected = [
        ("stauts:500", 0, "at 1: there is no field `stauts`; did you mean `status`?"),
        ("a http://x", 2, "at 3: there is no field `http`; put the text in quotes"),
        ("a status:abc", 9, "at 10: `abc` is not a status; write a number such as 404"),
        ("took:>200", 5, "at 6: `>200`"),
        ("time:yesterday", 5, "at 6: `yesterday` is not a time; write 2026-11-20"),
        ("(a OR b", 0, "at 1: `(` is not closed; write `)`"),
        ("a) b", 1, "at 2: `)` closes nothing"),
        ("a OR", 2, "at 3: `OR` stands without a term"),
        ("OR a", 0, "at 1: `OR` stands without a term"),
        ("AND a", 0, "at 1: `AND` stands without a term"),
        ("a NOT", 2, "at 3: nothing to negate"),
        ("body:\"abc", 5, "at 6: the quotes are not closed"),
        ("time:[now now]", 5, "at 6: `TO` is missing"),
        ("api: x", 4, "at 5: a value is missing"),
        ("api:>3", 4, "at 5: this cannot be compared"),
        ("body:acm*", 0, "at 1: words in payloads are searched whole"),
        ("state:open", 6, "at 7: there is no state `open`; there are `completed`"),
        ("resolution:done", 11, "at 12: there is no resolution `done`; there are `open`"),
        ("a since:yesterday", 8, "at 9: `yesterday` is not a duration; write a duration such as"),
        ("after:>now", 6, "at 7: this is compared already; write one time"),
        ("before:noon", 7, "at 8: `noon` is not a time; write one time"),
        ("id:xyz", 3, "at 4: `xyz` is not an id"),
        ("body:\"--\"", 0, "at 1: there is no word in it"),
        ("()", 0, "at 1: nothing in the parentheses"),
    ];
    for (text, at, message) in expected {
        let (place, said) = error(text);
        assert_eq!(place, at, "{text}: {said}");
        let message = message.replace("`>200`", "`200` is not a duration");
        assert!(said.starts_with(&message), "{text}: {said}");
    }
}

#[test]
fn length_depth_and_number_of_terms_are_bounded() {
    assert!(error(&"a".repeat(5000)).1.contains("may have 4096"));
    assert!(error(&"(".repeat(4000)).1.contains("nested too deeply"));
    assert!(error(&"-".repeat(4000)).1.contains("nested too deeply"));
    assert!(error(&"a ".repeat(100)).1.contains("too many terms"));
}

#[test]
fn what_tells_of_payloads_needs_the_right_to_see_them() {
    let needs = |text: &str| Query::parse(text, NOON).unwrap().needs_payload();
    for text in [
        "target:*",
        "header:*",
        "word",
        "body:a",
        "header:a",
        "key.a:b",
        "-body:*",
        "status:200 OR (api:x a)",
    ] {
        assert!(needs(text), "{text}");
    }
    for text in [
        "",
        "status:200",
        "since:1h resolution:open client:a",
        "api:a consumer:* took:>1s time:now id:0197 -method:GET",
    ] {
        assert!(!needs(text), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        let _ = Query::parse(&text, NOON);
    }

    #[test]
    fn texts_of_the_language_end_in_a_query_or_an_error_within_them(
        parts in prop::collection::vec(prop::sample::select(vec![
            "(", ")", " OR ", " AND ", " NOT ", "-", "a", "status:", ">=", "500", "[", "]", " TO ",
            "{", "}", "\"", "\\", "*", "time:", "now", "-15m", "key.", "header.", ":", "é", "id:", "0197",
        ]), 0..30),
    ) {
        let text = parts.concat();
        if let Err(error) = Query::parse(&text, NOON) {
            prop_assert!(error.at <= error.end && error.end <= text.len(), "{text}: {error:?}");
            prop_assert!(text.is_char_boundary(error.at) && text.is_char_boundary(error.end));
        }
    }
}
