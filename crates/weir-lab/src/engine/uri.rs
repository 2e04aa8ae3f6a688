//! Illegal characters of URLs, as Java's `URI` finds them.

use super::request_error::RequestError;

/// Checks an absolute URL.
///
/// # Errors
/// The first illegal character, with Java's message.
pub(super) fn check(url: &str) -> Result<(), RequestError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let start = url.len() - rest.len();
    let path = start + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let query = url[path..].find('?').map_or(url.len(), |at| path + at);
    let fragment = url[path..].find('#').map_or(url.len(), |at| path + at);
    let mut characters = url.char_indices().enumerate().skip_while(|(_, (at, _))| *at < start);
    let mut illegal = characters.find_map(|(number, (at, character))| {
        let part = match at {
            _ if at >= fragment => "fragment",
            _ if at >= query => "query",
            _ if at >= path => "path",
            _ => "authority",
        };
        is_illegal(url, at, character, part)
            .map(|what| format!("{what} in {part} at index {number}"))
    });
    match illegal.take() {
        Some(what) => Err(RequestError::request(format!("{what}: {url}")).of(url)),
        None => Ok(()),
    }
}

fn is_illegal(url: &str, at: usize, character: char, part: &str) -> Option<&'static str> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    match character {
        '%' => {
            let bytes = url.as_bytes();
            let escaped = is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2));
            (!escaped).then_some("Malformed escape pair")
        }
        '[' | ']' => (part == "path").then_some("Illegal character"),
        '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => Some("Illegal character"),
        character if character.is_control() || character.is_whitespace() => {
            Some("Illegal character")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_characters_are_found() {
        for url in ["http://h:1/a%20b/é;x=1?q=[1]&r='!*()", "https://h", "http://[::1]:80/#f"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for (url, expected) in [
            ("http://h/${x}", "Illegal character in path at index 10: http://h/${x}"),
            ("http://${h}/", "Illegal character in authority at index 8: http://${h}/"),
            ("http://h/?a b", "Illegal character in query at index 11: http://h/?a b"),
            ("http://h/%zz", "Malformed escape pair in path at index 9: http://h/%zz"),
            ("http://h/a[1]", "Illegal character in path at index 10: http://h/a[1]"),
        ] {
            assert_eq!(check(url).unwrap_err().message, expected);
        }
    }
}
