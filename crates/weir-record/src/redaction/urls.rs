//! Query credentials inside values that contain URLs: `Referer`, `Location`, `Link`, `Refresh` and
//! every other header, also as an escaped part of another URL.

use std::borrow::Cow;

/// Replacement of the value of a masked parameter.
const MASKED: &[u8] = b"***";

/// An unescaped character of a value, however often it was escaped.
#[derive(Clone, Copy)]
struct Symbol {
    byte: u8,
    /// Levels of escaping: 0 for a plain character, 1 for `%26`, 2 for `%2526`.
    depth: usize,
    /// Offset in the value.
    at: usize,
}

/// Replaces the values of these query parameters in every query and fragment of a value.
pub(super) fn masked<'v>(value: &'v [u8], parameters: &[String]) -> Cow<'v, [u8]> {
    if parameters.is_empty() || !may_have_query(value) {
        return Cow::Borrowed(value);
    }
    let symbols = symbols(value);
    let mut out: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < symbols.len() {
        let begins = matches!(symbols[at].byte, b'?' | b'&' | b'#' | b';');
        at += 1;
        let Some(equals) = begins.then(|| named(&symbols, at, parameters)).flatten() else {
            continue;
        };
        let end = end_of_value(&symbols, equals);
        let from = symbols.get(equals + 1).map_or(value.len(), |symbol| symbol.at);
        let to = symbols.get(end).map_or(value.len(), |symbol| symbol.at);
        out.extend_from_slice(&value[copied..from]);
        out.extend_from_slice(MASKED);
        copied = to;
        at = end;
    }
    if copied == 0 {
        return Cow::Borrowed(value);
    }
    out.extend_from_slice(&value[copied..]);
    Cow::Owned(out)
}

/// Whether the value may contain a query or a fragment; most values do not.
fn may_have_query(value: &[u8]) -> bool {
    value.iter().any(|byte| matches!(byte, b'?' | b'&' | b'#' | b'%' | b';'))
        && value.iter().any(|byte| matches!(byte, b'=' | b'%'))
}

fn symbols(value: &[u8]) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        let (byte, depth, length) = symbol(&value[at..]);
        symbols.push(Symbol { byte, depth, at });
        at += length;
    }
    symbols
}

/// The first character of a non-empty text, its levels of escaping, and its length.
fn symbol(text: &[u8]) -> (u8, usize, usize) {
    let digit = |at: usize| text.get(at).and_then(|&b| char::from(b).to_digit(16));
    if text[0] == b'%' {
        let mut depth = 1;
        while text.get(2 * depth - 1..2 * depth + 1) == Some(b"25") {
            depth += 1;
        }
        // `%25` alone is an escaped percent sign; followed by digits, it is an escaped escape.
        while depth > 0 {
            if let (Some(high), Some(low)) = (digit(2 * depth - 1), digit(2 * depth)) {
                return ((high << 4 | low) as u8, depth, 2 * depth + 1);
            }
            depth -= 1;
        }
    }
    (text[0], 0, 1)
}

/// Position of the equals sign if one of the parameters begins at `start`.
fn named(symbols: &[Symbol], start: usize, parameters: &[String]) -> Option<usize> {
    let fits = |parameter: &String| {
        let name = parameter.as_bytes();
        let end = start + name.len();
        let same = |(symbol, byte): (&Symbol, &u8)| {
            symbol.byte == *byte || (symbol.byte == b'+' && *byte == b' ')
        };
        (symbols.get(end)?.byte == b'=' && symbols[start..end].iter().zip(name).all(same))
            .then_some(end)
    };
    parameters.iter().find_map(fits)
}

/// End of the value after an equals sign. Characters with more levels of escaping than the sign
/// belong to the value.
fn end_of_value(symbols: &[Symbol], equals: usize) -> usize {
    let depth = symbols[equals].depth;
    let ends = |symbol: &Symbol| {
        symbol.depth <= depth && matches!(symbol.byte, b'&' | b'#' | b'>' | b'"' | b'\'' | b' ')
    };
    let rest = &symbols[equals + 1..];
    rest.iter().position(ends).map_or(symbols.len(), |at| equals + 1 + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(value: &str) -> String {
        let parameters = ["key".to_owned(), "my key".to_owned()];
        String::from_utf8(masked(value.as_bytes(), &parameters).into_owned()).unwrap()
    }

    #[test]
    fn parameters_are_found_in_every_kind_of_url() {
        for (value, recorded) in [
            ("https://a/b?key=s3cret", "https://a/b?key=***"),
            ("https://a/b?x=1&key=s3cret&y=2", "https://a/b?x=1&key=***&y=2"),
            ("/b?key=s3cret#top", "/b?key=***#top"),
            ("/b#key=s3cret", "/b#key=***"),
            ("/b?a=1;key=s3cret", "/b?a=1;key=***"),
            ("/b?k%65y=s3cret", "/b?k%65y=***"),
            ("/b?my+key=s3cret&my%20key=s3cret", "/b?my+key=***&my%20key=***"),
            ("/b?key=s3%26cret&c=d", "/b?key=***&c=d"),
            ("/b?key=s3&key=cret", "/b?key=***&key=***"),
            ("</b?key=s3cret>; rel=next, </c?key=s3cret>", "</b?key=***>; rel=next, </c?key=***>"),
            ("5; url=/b?key=s3cret", "5; url=/b?key=***"),
            ("/login?to=%2Fb%3Fkey%3Ds3cret%26c%3Dd", "/login?to=%2Fb%3Fkey%3D***%26c%3Dd"),
            ("/login?to=%2Fb%3Fkey%3Ds3cret&c=d", "/login?to=%2Fb%3Fkey%3D***&c=d"),
            ("/l?to=%252Fb%253Fkey%253Ds3%252526cret", "/l?to=%252Fb%253Fkey%253D***"),
            ("/b?keys=1&akey=2", "/b?keys=1&akey=2"),
            ("/b?key", "/b?key"),
            ("/b?key=", "/b?key=***"),
            ("key=1", "key=1"),
            ("100%", "100%"),
            ("/%?key=a", "/%?key=***"),
            ("/%2525?key=a", "/%2525?key=***"),
        ] {
            assert_eq!(mask(value), recorded, "{value}");
        }
    }

    proptest! {
        /// For any value, the parameter's value is removed and the rest is kept.
        #[test]
        fn nothing_panics_and_secrets_go(
            front in "[a-z/?&#;=%0-9]{0,12}", back in "[&#][a-z=&]{0,8}|",
        ) {
            let value = format!("{front}?key=s3cret{back}");
            let masked = mask(&value);
            prop_assert!(!masked.contains("s3cret"), "{} {}", value, masked);
        }

        #[test]
        fn any_bytes_are_taken(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = super::masked(&value, &["k".to_owned()]);
        }
    }
}
