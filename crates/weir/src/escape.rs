//! Terminal escaping of recorded text.
//!
//! Recorded text is data. A control character could move the cursor, change the title of the window
//! or make a terminal respond; a bidirectional one could change the displayed order. Such
//! characters are shown as escapes.

use std::fmt::Write;

/// Whether a terminal could obey the character.
pub(crate) fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// For a cell or a line: line breaks are escaped, too.
pub(crate) fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// For a block of text: line breaks and tabs stay.
pub(crate) fn block(text: &str) -> String {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

/// For JSON, where control characters of ASCII are already escaped.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if !is_harmful(character) {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) && !stays(character) {
            let _ = write!(out, "{}", character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let evil = "a\u{1b}[2J\u{9b}\u{7f}\r\u{202e}b\n\tc é";
        assert_eq!(line(evil), "a\\u{1b}[2J\\u{9b}\\u{7f}\\u{d}\\u{202e}b\\u{a}\\u{9}c é");
        assert_eq!(block(evil), "a\\u{1b}[2J\\u{9b}\\u{7f}\\u{d}\\u{202e}b\n\tc é");
    }

    #[test]
    fn json_means_the_same_as_before() {
        let evil = "a\u{1b}\u{7f}\u{202e}\u{e0041}é";
        let text = json(&serde_json::to_string(evil).unwrap());
        assert!(!text.chars().any(is_harmful), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), evil);
    }
}
