use super::*;

fn first(pattern: &str, text: &str) -> Option<String> {
    let pattern = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let found = pattern.find(text.as_bytes(), 1).expect("few steps");
    let groups = found.into_iter().next()?;
    groups.get(1).or(groups.first()).cloned().flatten()
}

#[test]
fn syntax_of_perl_is_translated() {
    for (pattern, text, expected) in [
        (r#"{"id":(\d+)}"#, r#"{"id":17}"#, Some("17")),
        (r#""a":{(.+?)}"#, r#""a":{x}"#, Some("x")),
        ("a{2,3}", "aaaa", Some("aaa")),
        ("a{2}b{1,}", "aabb", Some("aabb")),
        ("x{,2}", "x{,2}", Some("x{,2}")),
        ("[[a]+", "a[", Some("a[")),
        ("[]x]+", "]x", Some("]x")),
        ("[a&&b]+", "&a", Some("&a")),
        (r"[\w-.]+", "a-b.c d", Some("a-b.c")),
        (r"[\d-]+", "1-2", Some("1-2")),
        ("[a-c]+", "xabc", Some("abc")),
        ("[[:digit:]]+", "a12", Some("12")),
        (r"\<a\>", "<a>", Some("<a>")),
        (r"\/x\_\-\:\'", "/x_-:'", Some("/x_-:'")),
        (r"a\Z", "a\n", Some("a\n")),
        (r"\x41\u0042", "AB", Some("AB")),
        (r"a(?#comment)b", "ab", Some("ab")),
        (r"(?i)ABC", "abc", Some("abc")),
        (r"(?s)a.b", "a\nb", Some("a\nb")),
        ("a.b", "a\nb", None),
        (r"(a)\1", "aa", Some("a")),
        ("a(?=b)", "ab", Some("a")),
        ("a(?!b)", "ab", None),
        (r"q\e", "q\u{1b}", Some("q\u{1b}")),
        ("é(.)", "éx", Some("x")),
        ("{", "{", Some("{")),
        ("({)", "{", Some("{")),
        ("a|{", "{", Some("{")),
    ] {
        assert_eq!(first(pattern, text).as_deref(), expected, "{pattern}");
    }
}

#[test]
fn an_entire_text_is_matched() {
    let matches = |pattern: &str, text: &str| Pattern::new(pattern)?.matches(text.as_bytes());
    assert_eq!(matches("a|ab", "ab"), Ok(true));
    assert_eq!(matches("a", "ab"), Ok(false));
    assert_eq!(matches(r"(a)\1", "aa"), Ok(true));
    assert_eq!(matches(".*", "a\nb"), Ok(false));
}

#[test]
fn what_jmeter_does_not_have_is_rejected_and_backtracking_is_bounded() {
    for pattern in ["(?<=a)b", "(?<name>a)", "(?>a)", "(", "[a", r"\", "*a"] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
    let slow = Pattern::new(r"(a*)*\1b").expect("a pattern");
    assert!(slow.is_found("a".repeat(60).as_bytes()).is_err());
}

#[test]
fn matches_are_replaced_as_in_java() {
    let pattern = Pattern::new("(b)").expect("a pattern");
    assert_eq!(pattern.replace("abc", r"<$1\$>").as_deref(), Ok("a<b$>c"));
}

proptest::proptest! {
    #[test]
    fn any_pattern_is_compiled_or_rejected(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", "^", "-", "(", ")", "(?", "(?#", "\\", "\\x", "\\c", "\\0", "\\d",
            "a", "é", "1", ",", "|", "*", "+", "?", "$", ".", "[:", ":]", "&&", " ",
        ]), 0..12)
    ) {
        if let Ok(pattern) = Pattern::new(&parts.concat()) {
            let _ = pattern.find("aé1 {}[]".as_bytes(), 10);
            let _ = pattern.matches(b"a");
        }
    }
}

#[test]
fn replacements_are_bounded() {
    let many = "$0".repeat(1_000);
    for pattern in ["x+", "x+(?=y)"] {
        let pattern = Pattern::new(pattern).expect("a pattern");
        let text = "x".repeat(100_000) + "y";
        assert_eq!(pattern.replace(&text, "<>").as_deref(), Ok("<>y"));
        assert_eq!(pattern.replace(&text, &many), Err("a text has at most 16 MiB".to_owned()));
    }
    assert_eq!(
        Pattern::new("a(b)").and_then(|p| p.replace("xabyab", "$1-")).as_deref(),
        Ok("xb-yb-")
    );
}

#[test]
fn a_final_line_break_is_not_part_of_the_last_line() {
    let is_found = |pattern: &str, text: &str| {
        Pattern::new(pattern).and_then(|pattern| pattern.is_found(text.as_bytes()))
    };
    assert_eq!(is_found("a$", "a\n"), Ok(true));
    assert_eq!(is_found("a$", "a\n\n"), Ok(false));
    assert_eq!(is_found("a$", "a\nb"), Ok(false));
    assert_eq!(is_found("(?m)a$", "a\nb"), Ok(true));
    assert_eq!(is_found(r"a\$", "a$"), Ok(true));
    assert_eq!(is_found("[$]", "a$"), Ok(true));
    assert_eq!(first("id=(.*)$", "id=7\n").as_deref(), Some("7"));
    let pattern = Pattern::new("a$").expect("a pattern");
    assert_eq!(pattern.matches(b"a\n"), Ok(false));
    assert_eq!(pattern.replace("a", "b").as_deref(), Ok("b"));
    assert_eq!(pattern.replace("a\n", "b").as_deref(), Ok("a\n"));
}

#[test]
fn matches_with_backtracking_are_bounded_together() {
    // Each match is within its steps.
    let pattern = Pattern::new("(?:(a|aa)+(?=b)|x)").expect("a pattern");
    let text = ("a".repeat(12) + "x").repeat(100_000);
    let too_long = "the regular expression takes too long".to_owned();
    assert_eq!(pattern.find(text.as_bytes(), 1).map(|found| found.len()), Ok(1));
    assert_eq!(pattern.find(text.as_bytes(), 100_000), Err(too_long.clone()));
    assert_eq!(pattern.replace(&text, ""), Err(too_long));
}
