//! A recorded body, made readable and harmless.

use crate::escape;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use weir_tracker::document::{Body, BodyMetadata, Field};

/// Bytes of a binary body that are shown.
const BINARY: usize = 256;
/// Bytes of it on a line.
const LINE: usize = 16;

/// Text as it is, JSON on lines of its own, anything else in hexadecimal.
pub(super) fn readable(headers: &[Field], body: &Body) -> String {
    if let Some(text) = &body.text {
        let is_json = headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case("content-type"))
            .any(|field| essence(&field.value).ends_with("json"));
        let spread = if is_json { spread(text) } else { None };
        return escape::block(spread.as_deref().unwrap_or(text));
    }
    let Some(base64) = &body.base64 else { return String::new() };
    let Ok(bytes) = STANDARD.decode(base64) else { return String::new() };
    hexadecimal(&bytes)
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What is to be said of a body that is not there as it was.
pub(super) fn words(body: &Body, facts: &BodyMetadata) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |is: bool, what: &str| words.extend(is.then(|| what.to_owned()));
    let withheld = !facts.withheld.is_empty();
    say(!body.decoded_from.is_empty(), &format!("decoded from {}", body.decoded_from));
    say(!body.still_in.is_empty(), &format!("still in {}", body.still_in));
    let whole = !facts.truncated && !withheld;
    say(whole && facts.stored == 0 && facts.length > 0, "not recorded");
    // What stands in place of a value has another length than that.
    say(whole && facts.stored > 0 && facts.stored != facts.length, "masked");
    say(facts.truncated, "truncated");
    say(withheld, &format!("withheld, {}", facts.withheld));
    say(facts.aborted, "aborted");
    say(body.cut, "shortened");
    say(!facts.hash.is_empty(), &format!("hash of the rest {}", facts.hash));
    words
}

/// JSON with a line for each member and item; none if it is not JSON. Its tokens stay as they are:
/// a number keeps all of its digits, a text its escapes.
fn spread(text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    // The last bracket that was opened is still empty.
    let mut opened = false;
    for letter in text.chars() {
        if quoted {
            out.push(letter);
            (quoted, escaped) = (escaped || letter != '"', !escaped && letter == '\\');
            continue;
        }
        if letter.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(letter, '}' | ']');
        depth -= usize::from(closes && depth > 0);
        if opened != closes && (opened || closes) {
            new_line(&mut out, depth);
        }
        opened = matches!(letter, '{' | '[');
        depth += usize::from(opened);
        quoted = letter == '"';
        out.push(letter);
        match letter {
            ',' => new_line(&mut out, depth),
            ':' => out.push(' '),
            _ => {}
        }
    }
    Some(out)
}

/// Deeper levels than these are not set in any more.
const DEEPEST: usize = 32;

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth.min(DEEPEST)));
}

/// The beginning, as numbers and as letters.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes[..bytes.len().min(BINARY)].chunks(LINE).enumerate() {
        let mut numbers = String::new();
        for byte in chunk {
            let _ = write!(numbers, "{byte:02x} ");
        }
        let letter = |byte: &u8| if (32..127).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = chunk.iter().map(letter).collect();
        let _ = writeln!(out, "{:08x}  {numbers:48} {letters}", line * LINE);
    }
    if bytes.len() > BINARY {
        let _ = writeln!(out, "({} bytes more; --raw writes all of them)", bytes.len() - BINARY);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spread_and_stays_what_it_is() {
        let text = r#"{"a":[1.10, {"b":"x, \"[:]\" \\"},[] ],"c" :{},"d":12345678901234567890123}"#;
        let lines = [
            "{",
            "  \"a\": [",
            "    1.10,",
            "    {",
            r#"      "b": "x, \"[:]\" \\""#,
            "    },",
            "    []",
            "  ],",
            "  \"c\": {},",
            "  \"d\": 12345678901234567890123",
            "}",
        ];
        assert_eq!(spread(text).unwrap(), lines.join("\n"));
        assert_eq!(spread(" \"a b\" ").unwrap(), "\"a b\"");
        assert!(spread("{\"a\": tru").is_none());
        let headers =
            |kind: &str| vec![Field { name: "Content-Type".to_owned(), value: kind.to_owned() }];
        let body = Body { text: Some("[1]".to_owned()), ..Body::default() };
        assert_eq!(readable(&headers("application/problem+json; a=b"), &body), "[\n  1\n]");
        assert_eq!(readable(&headers("text/plain"), &body), "[1]");
    }

    #[test]
    fn it_is_said_what_a_body_lacks() {
        let said = |stored: u64, truncated, withheld: &str| {
            let withheld = withheld.to_owned();
            let facts =
                BodyMetadata { length: 50, stored, truncated, withheld, ..BodyMetadata::default() };
            words(&Body::default(), &facts).join(", ")
        };
        assert_eq!(said(50, false, ""), "");
        assert_eq!(said(49, false, ""), "masked");
        assert_eq!(said(0, false, ""), "not recorded");
        assert_eq!(said(10, true, ""), "truncated");
        assert_eq!(said(0, false, "too long to be masked"), "withheld, too long to be masked");
    }

    #[test]
    fn binaries_are_shown_in_part_and_nothing_of_them_reaches_a_terminal() {
        let bytes: Vec<u8> = (0..=255).chain(0..44).collect();
        let body = Body { base64: Some(STANDARD.encode(&bytes)), ..Body::default() };
        let shown = readable(&[], &body);
        assert!(shown.starts_with("00000000  00 01 02 "), "{shown}");
        assert!(shown.contains("00000040  40 41 42") && shown.contains("@ABCDEFG"), "{shown}");
        assert!(shown.contains("44 bytes more") && shown.lines().count() == 17, "{shown}");
        assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()));
    }
}
