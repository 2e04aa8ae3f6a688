//! Tests of patterns: they match exactly like the library's engine, and never exceed the budget.

use super::super::budget;
use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Whether a text matches, within this number of steps.
fn within(steps: i64, pattern: &str, text: &str) -> Option<bool> {
    let pattern = Pattern::new(pattern).expect("a pattern");
    budget::within(steps, i64::MAX, || pattern.is_match(text)).flatten()
}

fn is_match(pattern: &str, text: &str) -> bool {
    within(8_000_000, pattern, text).expect("within the budget")
}

/// The result of the library.
fn reference(pattern: &str, text: &str) -> bool {
    jsonschema::draft202012::new(&json!({"pattern": pattern}))
        .expect("a schema")
        .is_valid(&json!(text))
}

const PATTERNS: &[&str] = &[
    "",
    "a",
    "^a",
    "a$",
    "^$",
    "^a*$",
    "^(a|b)+c?$",
    "a{2,3}b",
    "^a{3}$",
    "^(ab|cd){0,2}$",
    "(a*)*b",
    "[^ab]",
    "^[^ab]+$",
    r"\bab\b",
    r"\Bb",
    r"^\d+$",
    r"^\w+$",
    r"\s",
    r"^\S*$",
    "é",
    "^[é-ü]+$",
    r"^\p{L}+$",
    "^.{2,4}$",
    ".",
    "(?i)AB",
    "(?m)^b$",
    "a(?:b|)c",
    "^(?=a)",
    "^(?!a).*b$",
    "^(?=.*a)(?=.*b).{2,}$",
    "^(?!.*aa)[a-c]*(?<!c)$",
    "^[a-c]+(?<=b)$",
    "^(?=a|b)b|c",
    "^a|b(?<!a)$",
    "^(?:a|b(?<!b))$",
    "(?=b)b",
    r"(a+)b\1",
    "^((?!ab).)*$",
    r"^(?=[)])\)",
];

#[test]
fn a_text_matches_where_the_library_says_so() {
    let texts = [
        "", "a", "b", "ab", "ba", "abc", "aab", "aabaa", "c", "ac", "abab", "abcd", "\n", "a\nb",
        "é", "aéb", "漢字", "12", "1a", " ", "a b", "AB", "aaaa", "b\n", "x-y", "_", ")", "bc",
        "acb",
    ];
    for pattern in PATTERNS {
        for text in texts {
            assert_eq!(is_match(pattern, text), reference(pattern, text), "{pattern} {text:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_matches_where_the_library_says_so(text in "[abcé1 \n_)-]{0,12}") {
        for pattern in PATTERNS {
            prop_assert_eq!(is_match(pattern, &text), reference(pattern, &text), "{}", pattern);
        }
    }

    #[test]
    fn any_pattern_is_one_or_none(pattern in r"(\^|)([abé.\\()\[\]{}|*+?$1,2-]|\(\?=|\(\?!|\(\?<!){0,9}(\$|)") {
        // No panic; compiled patterns match like those of the library.
        if let Ok(ours) = Pattern::new(&pattern)
            && let Ok(theirs) = jsonschema::draft202012::new(&json!({"pattern": pattern}))
        {
            for text in ["", "a", "ab", "aé1,", "ba$"] {
                let found = budget::within(8_000_000, i64::MAX, || ours.is_match(text)).flatten();
                prop_assert!(found.is_none_or(|found| found == theirs.is_valid(&json!(text))), "{text}");
            }
        }
    }
}

#[test]
fn look_around_at_both_ends_takes_no_backtracking() {
    for (pattern, backtracks) in [
        ("^[a-z]+$", false),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", false),
        ("^(?!-)[a-z0-9-]{1,63}(?<!-)$", false),
        ("^((?!ab).)*$", true),
        ("(?!a)b", true),
        (r"(a)\1", true),
        ("^(?=a)b|c", true),
    ] {
        assert_eq!(Pattern::new(pattern).expect("a pattern").backtracks(), backtracks, "{pattern}");
    }
}

/// A text of two letters without a period that an automaton could cache.
fn mixed(length: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state & 1 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(letter).collect()
}

#[test]
fn costly_matches_are_given_up() {
    let (mixed, same) = (mixed(1 << 20), "a".repeat(1 << 20));
    for (pattern, text) in [
        ("[ab]*a[ab]{300}c", &mixed),
        ("(?:a|b|ab|ba){1,5000}c", &mixed),
        ("(?!.*b)x", &same),
        (r"(.*)(.*)(.*)\1b", &same),
        ("^(?:(?=.*)a)*$", &same),
    ] {
        assert_eq!(within(2_000_000, pattern, text), None, "{pattern}");
    }
}

#[test]
fn ordinary_patterns_match_long_texts() {
    let letters = "abcdefghij0123456789".repeat(50_000);
    let steps = 1_000_000;
    for (pattern, text, expected) in [
        ("^[a-z0-9-]{1,64}$", letters.as_str(), false),
        ("^[a-z0-9]*$", &letters, true),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", &letters, false),
        (r"^\S+$", &letters, true),
        ("^.{0,10000}$", &letters[..10_000], true),
        ("^.{0,10000}$", &letters[..10_001], false),
        (r"^(?=.*\d)(?!.*--).{8,}$", &letters, true),
        ("^(?:(?!--)[a-z0-9-])+$", &letters[..100], true),
    ] {
        assert_eq!(within(steps, pattern, text), Some(expected), "{pattern}");
    }
}

#[test]
fn patterns_that_are_too_large_are_none() {
    for pattern in ["(a{1,500}){1,500}", "((((a{99}){99}){99}){99}){99}", "(", r"[\"] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn what_a_thread_keeps_is_bounded_and_found_again() {
    let text = mixed(20_000);
    let patterns: Vec<_> = (0..60).map(|i| format!("[ab]*a[ab]{{{}}}$", 9 + i % 4)).collect();
    let patterns: Vec<_> = patterns.iter().map(|p| Pattern::new(p).expect("a pattern")).collect();
    for _ in 0..2 {
        for (i, pattern) in patterns.iter().enumerate() {
            let expected = text.as_bytes()[text.len() - 10 - i % 4] == b'a';
            let found =
                budget::within(i64::MAX - 1, i64::MAX, || pattern.is_match(&text)).flatten();
            assert_eq!(found, Some(expected));
        }
    }
}
