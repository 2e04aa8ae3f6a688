//! Splits text into words, by one rule for indexing, for queries and for checking candidates.
//!
//! A word is a run of letters, digits and `_`, in lower case. All other characters separate words,
//! as does invalid UTF-8. Each ideograph or kana is a word, so that text without spaces can be found
//! by any part of it. A word is compared up to [`MAX_WORD_BYTES`]. There is no normalisation and no
//! stemming.

use std::ops::Range;

use memchr::memmem;

/// Bytes of a word that are compared.
pub(crate) const MAX_WORD_BYTES: usize = 64;

const SEPARATOR: u8 = 0;
const HIGH: u8 = 0x80;

/// For each byte: its lower case if it belongs to a word, [`SEPARATOR`], or [`HIGH`] outside ASCII.
const CLASS: [u8; 256] = {
    let mut class = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        let lower = (byte as u8).to_ascii_lowercase();
        if byte >= 128 {
            class[byte] = HIGH;
        } else if lower.is_ascii_lowercase() || lower.is_ascii_digit() || lower == b'_' {
            class[byte] = lower;
        }
        byte += 1;
    }
    class
};

/// Whether a byte of ASCII text is between words.
pub(crate) fn is_separator(byte: u8) -> bool {
    CLASS[usize::from(byte)] == SEPARATOR
}

/// Calls `each` with every word of `text` (UTF-8, at most [`MAX_WORD_BYTES`]) and its location.
pub(crate) fn words(text: &[u8], mut each: impl FnMut(&[u8], Range<usize>)) {
    let (mut at, mut word) = (0, [0; MAX_WORD_BYTES]);
    while at < text.len() {
        if CLASS[usize::from(text[at])] == SEPARATOR {
            at += 1;
            continue;
        }
        let start = at;
        let mut length = 0;
        let mut class = CLASS[usize::from(text[at])];
        while class != SEPARATOR && class != HIGH {
            if length < MAX_WORD_BYTES {
                word[length] = class;
                length += 1;
            }
            at += 1;
            class = text.get(at).map_or(SEPARATOR, |byte| CLASS[usize::from(*byte)]);
        }
        if class == HIGH {
            at = non_ascii_words(text, start, &mut each);
        } else {
            each(&word[..length], start..at);
        }
    }
}

/// Words from `start` to the next separator, with characters outside ASCII. Returns the end.
fn non_ascii_words(text: &[u8], start: usize, each: &mut impl FnMut(&[u8], Range<usize>)) -> usize {
    let (mut word, mut start_of_word) = (String::new(), None);
    let mut at = start;
    while at < text.len() {
        let (letter, length) = character(&text[at..]);
        let letter = letter.filter(|letter| letter.is_alphanumeric() || *letter == '_');
        let alone = letter.is_some_and(is_ideograph);
        if (alone || letter.is_none())
            && let Some(start_of_word) = start_of_word.take()
        {
            each(word.as_bytes(), start_of_word..at);
            word.clear();
        }
        let Some(letter) = letter else { return at + length };
        for small in letter.to_lowercase() {
            if word.len() + small.len_utf8() > MAX_WORD_BYTES {
                break;
            }
            word.push(small);
        }
        if alone {
            each(word.as_bytes(), at..at + length);
            word.clear();
        } else {
            start_of_word = start_of_word.or(Some(at));
        }
        at += length;
    }
    if let Some(start_of_word) = start_of_word {
        each(word.as_bytes(), start_of_word..at);
    }
    at
}

/// The first character and its length; none, and one byte, if the text is not UTF-8.
fn character(text: &[u8]) -> (Option<char>, usize) {
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map_or((None, 1), |letter| (Some(letter), letter.len_utf8()))
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// All words of a text, for queries.
pub(crate) fn phrase(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    words(text.as_bytes(), |word, _| all.push(String::from_utf8_lossy(word).into_owned()));
    all
}

/// Locations of `phrase`, its words next to each other, in `text`; at most `limit`.
pub(crate) fn find(text: &[u8], phrase: &[String], limit: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let Some(first) = phrase.first() else { return found };
    if certainly_lacks(text, phrase) {
        return found;
    }
    // For each possible start of the phrase: the number of words matched, and the location.
    let mut open: Vec<(usize, usize)> = Vec::new();
    words(text, |word, range| {
        if found.len() >= limit {
            return;
        }
        open.retain_mut(|(next, _)| {
            let fits = phrase[*next].as_bytes() == word;
            *next += 1;
            fits
        });
        if first.as_bytes() == word {
            open.push((1, range.start));
        }
        if let Some(complete) = open.iter().position(|(next, _)| *next == phrase.len()) {
            found.push(open.remove(complete).1..range.end);
        }
    });
    found
}

/// Whether `text` does not even contain the letters of `phrase`. This is many times faster than to
/// split the text, and true of most texts. Only for ASCII text: other characters may become ASCII in
/// lower case.
fn certainly_lacks(text: &[u8], phrase: &[String]) -> bool {
    if !text.is_ascii() {
        return false;
    }
    let text = text.to_ascii_lowercase();
    phrase.iter().any(|word| memmem::find(&text, word.as_bytes()).is_none())
}

#[cfg(test)]
mod tests {
    use super::{find, phrase, words};
    use proptest::prelude::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        assert_eq!(
            phrase("Order A-17, total=3.50_EUR"),
            ["order", "a", "17", "total", "3", "50_eur"]
        );
        assert_eq!(phrase("CAFÉ Straße naïve"), ["café", "straße", "naïve"]);
        assert_eq!(phrase("ab注文cd"), ["ab", "注", "文", "cd"]);
        assert_eq!(phrase(""), Vec::<String>::new());
    }

    #[test]
    fn invalid_utf8_separates_and_long_words_are_cut() {
        let mut all = Vec::new();
        words(b"one\xfftwo\xc3 three", |word, range| all.push((word.to_vec(), range)));
        assert_eq!(
            all,
            [(b"one".to_vec(), 0..3), (b"two".to_vec(), 4..7), (b"three".to_vec(), 9..14)]
        );
        assert_eq!(phrase(&"x".repeat(100_000))[0].len(), 64);
        assert_eq!(phrase(&"é".repeat(100_000))[0].len(), 64);
    }

    #[test]
    fn a_phrase_is_found_only_in_a_row() {
        let text = b"acme one acme acme corp, Acme-Corp";
        assert_eq!(find(text, &phrase("acme corp"), 9), [14..23, 25..34]);
        assert_eq!(find(text, &phrase("acme corp"), 1).len(), 1);
        assert!(find(text, &phrase("corp one"), 9).is_empty());
        assert!(find(text, &[], 9).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_give_words_in_order_within_the_text(text: Vec<u8>) {
            let mut end = 0;
            words(&text, |word, range| {
                assert!(std::str::from_utf8(word).is_ok() && !word.is_empty());
                assert!(range.start >= end && range.end <= text.len() && range.start < range.end);
                end = range.end;
            });
        }

        #[test]
        fn a_query_for_any_of_its_words_finds_an_ascii_text(text in "[ -~]{0,200}") {
            for word in phrase(&text) {
                prop_assert!(!find(text.as_bytes(), &[word], 1).is_empty());
            }
        }

        #[test]
        fn a_query_for_any_of_its_words_finds_a_text(text in "\\PC{0,60}") {
            for word in phrase(&text) {
                prop_assert!(!find(text.as_bytes(), &[word], 1).is_empty());
            }
        }
    }
}
