//! Identifiers use the terms of `docs/glossary.md`: words that were retired do not come back.

use super::assert_none;
use super::code::{each_level, name, sources};
use proc_macro2::TokenStream;
use std::collections::BTreeSet;

/// Retired words and the terms to use instead.
const RETIRED: [(&str, &str); 33] = [
    ("asked", "requested"),
    ("begun", "started"),
    ("believe", "trust"),
    ("bell", "waker"),
    ("blot", "redact"),
    ("crew", "user group"),
    ("deed", "audit event"),
    ("desk", "backend"),
    ("doings", "operations"),
    ("door", "injection"),
    ("doubt", "suspect"),
    ("extent", "size"),
    ("fate", "exit reason"),
    ("flaw", "invalid reason"),
    ("garbage", "protocol error"),
    ("garbled", "protocol error"),
    ("glance", "poll interval"),
    ("loose", "scalar"),
    ("mailbox", "invalidation queue"),
    ("mending", "repair"),
    ("neutral", "terminal escaping"),
    ("passing", "body capture"),
    ("presence", "disconnect watch"),
    ("refusal", "rejection"),
    ("seat", "stream permit, placement"),
    ("speak", "client"),
    ("story", "history"),
    ("sure", "definite"),
    ("taker", "waker"),
    ("teller", "callback"),
    ("told", "reported"),
    ("unheard", "client closed"),
    ("wanted", "requested, required, selection"),
];

/// The words of an identifier in snake case or camel case, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in identifier.split('_') {
        let mut word = String::new();
        let letters: Vec<char> = part.chars().collect();
        for (index, letter) in letters.iter().enumerate() {
            let after_lower = index > 0 && letters[index - 1].is_lowercase();
            let before_lower = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
            if letter.is_uppercase() && !word.is_empty() && (after_lower || before_lower) {
                words.push(std::mem::take(&mut word));
            }
            word.extend(letter.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// Identifiers with a retired word.
fn retired(path: &str, tokens: &TokenStream) -> BTreeSet<String> {
    let mut problems = BTreeSet::new();
    each_level(tokens, &mut |level| {
        for identifier in level.iter().filter_map(name) {
            let words = words(&identifier);
            for (word, term) in RETIRED.iter().filter(|(word, _)| words.iter().any(|w| w == word)) {
                problems.insert(format!("{path}: `{identifier}`: `{word}` is retired: {term}"));
            }
        }
    });
    problems
}

#[test]
fn retired_words_are_not_used() {
    let problems: Vec<String> =
        sources().iter().flat_map(|file| retired(&file.path, &file.tokens)).collect();
    assert_none(&problems);
}

#[test]
fn a_retired_word_is_seen() {
    let seen = |text: &str| retired("p", &text.parse().expect("Rust")).len();
    assert_eq!(seen("fn f() { let the_story = 1; }"), 1);
    assert_eq!(seen("struct PresenceWatch; struct HTTPCrew; const DEED: u8 = 1;"), 3);
    assert_eq!(seen("fn history() { let storyboard = \"story\"; /* story */ }"), 0);
}
