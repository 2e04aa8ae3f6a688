//! A recorded body in readable and escaped form.

use crate::escape;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use weir_tracker::document::{Body, BodyMetadata, Field};

/// Displayed bytes of a binary body.
const MAX_BINARY_BYTES: usize = 256;
/// Bytes on a line of it.
const LINE_BYTES: usize = 16;

/// Text as it is, JSON on lines of its own, anything else in hexadecimal.
pub(super) fn readable(headers: &[Field], body: &Body) -> String {
    if let Some(text) = &body.text {
        let is_json = headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case("content-type"))
            .any(|field| essence(&field.value).ends_with("json"));
        let indented = if is_json { indented(text) } else { None };
        return escape::block(indented.as_deref().unwrap_or(text));
    }
    let Some(base64) = &body.base64 else { return String::new() };
    let Ok(bytes) = STANDARD.decode(base64) else { return String::new() };
    hexadecimal(&bytes)
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Differences of the recorded body from the original.
pub(super) fn notes(body: &Body, facts: &BodyMetadata) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |applies: bool, note: &str| notes.extend(applies.then(|| note.to_owned()));
    let withheld = !facts.withheld.is_empty();
    add(!body.decoded_from.is_empty(), &format!("decoded from {}", body.decoded_from));
    add(!body.still_in.is_empty(), &format!("still in {}", body.still_in));
    let is_complete = !facts.truncated && !withheld;
    add(is_complete && facts.stored == 0 && facts.length > 0, "not recorded");
    // A mask and the masked value differ in length.
    add(is_complete && facts.stored > 0 && facts.stored != facts.length, "masked");
    add(facts.truncated, "truncated");
    add(withheld, &format!("withheld, {}", facts.withheld));
    add(facts.aborted, "aborted");
    add(body.cut, "shortened");
    add(!facts.hash.is_empty(), &format!("hash of the rest {}", facts.hash));
    notes
}

/// JSON with a line for each member and item; `None` if it is not JSON. Tokens are not changed: all
/// digits of a number and all escapes of a text stay.
fn indented(text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    // The last opened bracket is still empty.
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

/// Deeper levels are not indented further.
const MAX_INDENTED_LEVELS: usize = 32;

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth.min(MAX_INDENTED_LEVELS)));
}

/// The first bytes, in hexadecimal and as characters.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes[..bytes.len().min(MAX_BINARY_BYTES)].chunks(LINE_BYTES).enumerate() {
        let mut numbers = String::new();
        for byte in chunk {
            let _ = write!(numbers, "{byte:02x} ");
        }
        let letter = |byte: &u8| if (32..127).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = chunk.iter().map(letter).collect();
        let _ = writeln!(out, "{:08x}  {numbers:48} {letters}", line * LINE_BYTES);
    }
    if bytes.len() > MAX_BINARY_BYTES {
        let _ = writeln!(
            out,
            "({} bytes more; --raw writes all of them)",
            bytes.len() - MAX_BINARY_BYTES
        );
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
        assert_eq!(indented(text).unwrap(), lines.join("\n"));
        assert_eq!(indented(" \"a b\" ").unwrap(), "\"a b\"");
        assert!(indented("{\"a\": tru").is_none());
        let headers =
            |kind: &str| vec![Field { name: "Content-Type".to_owned(), value: kind.to_owned() }];
        let body = Body { text: Some("[1]".to_owned()), ..Body::default() };
        assert_eq!(readable(&headers("application/problem+json; a=b"), &body), "[\n  1\n]");
        assert_eq!(readable(&headers("text/plain"), &body), "[1]");
    }

    #[test]
    fn it_is_said_what_a_body_lacks() {
        let notes_of = |stored: u64, truncated, withheld: &str| {
            let withheld = withheld.to_owned();
            let facts =
                BodyMetadata { length: 50, stored, truncated, withheld, ..BodyMetadata::default() };
            notes(&Body::default(), &facts).join(", ")
        };
        assert_eq!(notes_of(50, false, ""), "");
        assert_eq!(notes_of(49, false, ""), "masked");
        assert_eq!(notes_of(0, false, ""), "not recorded");
        assert_eq!(notes_of(10, true, ""), "truncated");
        assert_eq!(notes_of(0, false, "too long to be masked"), "withheld, too long to be masked");
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
