//! URLs: illegal characters, as Java's `URI` finds them, and references.

use super::request_error::RequestError;
use crate::program::Origin;
use crate::sample::ErrorKind;
use std::fmt::Display;
use std::sync::Arc;
use url::Url;

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

/// Resolves `Location` against the URL of the request (RFC 3986 section 5.2).
pub(super) fn resolve(
    origin: &Origin,
    current: &str,
    location: &str,
) -> Result<(Arc<Origin>, String), RequestError> {
    let fault = |error: &dyn Display| {
        RequestError::new(ErrorKind::Protocol, format!("redirected: {error}"))
    };
    let base = Url::parse(&origin.url(current)).map_err(|error| fault(&error))?;
    let url = base.join(location).map_err(|error| fault(&error))?;
    let (origin, target) = Origin::parse(url.as_str()).map_err(|error| fault(&error))?;
    Ok((Arc::new(origin), target))
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

    #[test]
    fn references_are_resolved() {
        let origin = Origin { tls: false, host: "a".to_owned(), port: 80 };
        let resolved = |location: &str| {
            let (origin, target) = resolve(&origin, "/b/c?d", location).unwrap();
            origin.url(&target)
        };
        assert_eq!(resolved("/x?y"), "http://a/x?y");
        assert_eq!(resolved("x"), "http://a/b/x");
        assert_eq!(resolved("../x/./y/.."), "http://a/x/");
        assert_eq!(resolved("?z"), "http://a/b/c?z");
        assert_eq!(resolved("//o/x"), "http://o/x");
        assert_eq!(resolved("https://o:1/x#f"), "https://o:1/x");
        assert!(resolve(&origin, "/", "ftp://o/").is_err());
    }
}
