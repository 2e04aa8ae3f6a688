//! Finds the end of a JSON value and validates the value (RFC 8259).
//!
//! Skipping a body is faster than any parser that builds values: serde_json, which can also skip,
//! takes half as long again for a list of short strings. For a body of 100 KiB, all other work of
//! the gateway takes about as long.

/// The position after the value that starts at `at`; none if the value is incomplete or invalid.
pub(super) fn skip(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    let mut nesting = Nesting::default();
    loop {
        at = match text.get(at)? {
            b'"' => string(text, at + 1)?,
            b'{' => {
                let inside = white(text, at + 1);
                if text.get(inside) != Some(&b'}') {
                    nesting.enter(true);
                    at = name(text, inside)?;
                    continue;
                }
                inside + 1
            }
            b'[' => {
                let inside = white(text, at + 1);
                if text.get(inside) != Some(&b']') {
                    nesting.enter(false);
                    at = inside;
                    continue;
                }
                inside + 1
            }
            b't' => literal(text, at, b"true")?,
            b'f' => literal(text, at, b"false")?,
            b'n' => literal(text, at, b"null")?,
            _ => number(text, at)?,
        };
        loop {
            if nesting.depth == 0 {
                return Some(at);
            }
            at = white(text, at);
            match (text.get(at)?, nesting.in_object()) {
                (b',', true) => {
                    at = name(text, white(text, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at = white(text, at + 1);
                    break;
                }
                (b'}', true) | (b']', false) => {
                    nesting.leave();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// The first position at or after `at` that is not white space.
pub(super) fn white(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The position after the closing quote of the string whose first character is at `at`.
#[inline]
pub(super) fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        while let Some(eight) = text.get(at..at + 8).and_then(|eight| eight.first_chunk::<8>()) {
            let special = special(u64::from_le_bytes(*eight));
            if special == 0 {
                at += 8;
            } else {
                at += (special.trailing_zeros() / 8) as usize;
                break;
            }
        }
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape(text, at + 1)?,
            ..b' ' => return None,
            _ => at += 1,
        }
    }
}

/// The highest bit of the first byte that is a quote, a backslash or a control character, and
/// possibly of some bytes after it; zero if there is none.
fn special(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let is = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    (is(b'"') | is(b'\\') | below(eight, 0x20)) & (ONES << 7)
}

fn escape(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => {
            let digits = text.get(at + 1..at + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
        }
        _ => None,
    }
}

/// From a member's name to its value.
fn name(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let colon = white(text, string(text, at + 1)?);
    (text.get(colon) == Some(&b':')).then(|| white(text, colon + 1))
}

fn literal(text: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    text[at..].starts_with(literal).then_some(at + literal.len())
}

fn number(text: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let count = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(from + count)
    };
    let start = at + usize::from(text.get(at) == Some(&b'-'));
    let mut at = digits(start)?;
    if text[start] == b'0' && at > start + 1 {
        return None;
    }
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        at = digits(at + usize::from(matches!(text.get(at), Some(b'+' | b'-'))))?;
    }
    Some(at)
}

/// One bit per level: whether it is an object. Supports any depth.
#[derive(Default)]
struct Nesting {
    depth: usize,
    innermost: u64,
    /// The outer levels, 64 at a time.
    outer: Vec<u64>,
}

impl Nesting {
    fn enter(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(object);
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.innermost >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    fn in_object(&self) -> bool {
        self.innermost & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::{skip, white};
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    fn is_json(text: &str) -> bool {
        let bytes = text.as_bytes();
        let end = skip(bytes, white(bytes, 0)).map(|end| white(bytes, end));
        end == Some(bytes.len())
    }

    fn agrees(text: &str) {
        let theirs = serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(is_json(text), theirs, "{text:?}");
    }

    #[test]
    fn what_is_json_is_what_serde_json_takes() {
        for text in [
            "",
            " ",
            "{}",
            "[]",
            "[ ]",
            "{ }",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 ,\"b\":[ {} , [] ]}",
            "{1:2}",
            "[1}",
            "{\"a\":1]",
            "1 2",
            "[1 2]",
            "01",
            "-",
            "-0",
            "1.",
            ".1",
            "1e",
            "1e+",
            "1E-07",
            "-12.50e3",
            "tru",
            "true",
            "nulll",
            "\"",
            "\"a",
            "\"a\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12G4\"",
            "\"\\ud800\"",
            "\"\t\"",
            "\"\u{7f}\u{80}\"",
            "\"0123456789\\\"abcdef\"",
            "\"0123456\u{1}89\"",
            "\u{feff}1",
            "\u{a0}1",
            "\u{b}1",
            "nul",
        ] {
            agrees(text);
        }
    }

    #[test]
    fn nesting_is_told_apart_at_any_depth() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 1000] {
            for opening in ["[", "{\"a\":"] {
                let closing = if opening == "[" { "]" } else { "}" };
                let text = format!("{}[]{}", opening.repeat(depth), closing.repeat(depth));
                assert!(is_json(&text), "{depth} {opening}");
                assert!(!is_json(&text[..text.len() - 1]));
                let wrong = if opening == "[" { "}" } else { "]" };
                assert!(!is_json(&format!("{}{wrong}", &text[..text.len() - 1])));
            }
            let mixed: String =
                (0..depth).map(|n| if n % 3 == 0 { "[" } else { "{\"a\":" }).collect();
            let closed: String =
                (0..depth).rev().map(|n| if n % 3 == 0 { "]" } else { "}" }).collect();
            assert!(is_json(&format!("{mixed}null{closed}")), "{depth}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged_as_serde_json_does(text in r#"[\[\]{}:," 0-9eE+.\\untrfalsx-]{0,24}"#) {
            agrees(&text);
        }

        #[test]
        fn any_string_is_judged_as_serde_json_does(text in r#""(\\PC|[\\"/bfnrtu0-9\x00-\x20]){0,24}"?"#) {
            agrees(&text);
        }
    }
}
