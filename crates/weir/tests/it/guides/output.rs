//! Comparing the output of a command with the one that a page shows.

/// The first shown line that is not in the output in its place, if there is one. A line `…` stands
/// for any lines, `…` in a line for any text; numbers and ids are equal to each other, and so is
/// white space.
pub(super) fn difference(shown: &str, output: &str) -> Option<String> {
    let actual: Vec<String> = output.lines().map(shape).collect();
    let (mut at, mut anywhere) = (0, false);
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "…" {
            anywhere = true;
            continue;
        }
        let expected = shape(line);
        while actual.get(at).is_some_and(|line| line.is_empty()) {
            at += 1;
        }
        let rest = actual.get(at..).unwrap_or_default();
        let found = rest.iter().position(|line| matches(&expected, line));
        match found {
            Some(skipped) if skipped == 0 || anywhere => at += skipped + 1,
            _ => return Some(line.to_owned()),
        }
        anywhere = false;
    }
    None
}

/// A line without what differs from run to run.
fn shape(line: &str) -> String {
    let shape = |word: &str| -> String {
        let is_separator = |letter: char| !letter.is_ascii_alphanumeric();
        word.split_inclusive(is_separator).map(part).collect()
    };
    line.split_whitespace().map(shape).collect::<Vec<_>>().join(" ")
}

/// Digits, and hexadecimal ids with a digit, become one sign.
fn part(text: &str) -> String {
    let token = text.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let separator = &text[token.len()..];
    let has_digit = token.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return format!("#{separator}");
    }
    let mut out = String::new();
    for letter in token.chars() {
        match letter.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(letter),
        }
    }
    out + separator
}

fn matches(expected: &str, actual: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(first) = parts.next() else { return false };
    let Some(mut rest) = actual.strip_prefix(first) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = true;
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open &= part.is_empty();
    }
    is_open || rest.is_empty()
}

#[test]
fn numbers_and_ellipses_match_anything() {
    let output =
        "TIME  ID\n2026-11-20T10:00:00.5Z  019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55\nGET /a 12.5 ms\n";
    assert_eq!(
        difference(
            "TIME ID\n2027-01-01T00:00:00.123Z  019a0000-0000-7000-8000-000000000000\n",
            output
        ),
        None
    );
    assert_eq!(difference("TIME ID\n…\nGET … ms\n", output), None);
    assert_eq!(difference("TIME ID\nGET /a 1.0 ms\n", output), Some("GET /a 1.0 ms".to_owned()));
    assert_eq!(difference("…\nPUT /a 12.5 ms\n", output), Some("PUT /a 12.5 ms".to_owned()));
}
