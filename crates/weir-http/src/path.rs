//! Paths, normalized once before routing (RFC 3986 section 6.2.2).
//!
//! The matched path is forwarded: an upstream never gets a spelling that the router did not match.
//! Escapes of unreserved characters are decoded, others get upper-case digits; dot segments are
//! removed; an escaped slash stays escaped and so never separates segments. Rejected: malformed
//! escapes, an escaped NUL, and paths above the root. Ambiguities are reported with the path: the
//! route decides.

mod ambiguity;

pub use ambiguity::{Ambiguity, Kind as AmbiguityKind};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// Why a path is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A percent sign without two hexadecimal digits, or `%00`.
    #[error("the path has an invalid or forbidden percent-escape")]
    Escape,
    /// More `..` than segments before it.
    #[error("the path leads above the root")]
    AboveRoot,
    /// Not in origin form.
    #[error("the path does not start with a slash")]
    Relative,
    /// Dot segments in a path that servers interpret in more than one way (`/..;/`, `/..%2f`).
    #[error("the path has dot segments and is ambiguous")]
    AmbiguousDotSegments,
    /// The route does not accept paths with this ambiguity.
    #[error("the path has {0}, which servers interpret differently")]
    Ambiguous(&'static str),
    /// Another interpretation of the path matches a route with stricter requirements, or none.
    #[error("the path is ambiguous: another interpretation matches another route")]
    StricterReading,
}

impl PathError {
    /// Whether the path is well formed, but ambiguous.
    pub fn is_ambiguous(self) -> bool {
        matches!(self, Self::AmbiguousDotSegments | Self::Ambiguous(_) | Self::StricterReading)
    }
}

/// A path in its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normal<'p> {
    /// The path that is matched and forwarded.
    pub path: Cow<'p, str>,
    /// Ambiguities of the path.
    pub ambiguity: Ambiguity,
}

/// Normalizes a path in origin form. Borrowed if the path is normal already, as nearly every path
/// is.
///
/// # Errors
/// See [`PathError`].
pub fn normalise(path: &str) -> Result<Normal<'_>, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::Relative);
    }
    if is_normal(path.as_bytes()) {
        return Ok(Normal { path: Cow::Borrowed(path), ambiguity: Ambiguity::default() });
    }
    let decoded = decode_unreserved(path)?;
    let ambiguity = Ambiguity::of(&decoded);
    if !ambiguity.is_empty() && ambiguity::has_dot_segments(&decoded) {
        return Err(PathError::AmbiguousDotSegments);
    }
    let path = remove_dot_segments(&decoded).map(Cow::Owned)?;
    Ok(Normal { path, ambiguity })
}

/// Whether a path has no escapes, no segment that starts with a dot, and no ambiguity.
fn is_normal(path: &[u8]) -> bool {
    // Without an early exit, both loops are vectorized.
    let byte = path.iter().fold(false, |odd, b| odd | matches!(b, b'%' | b';' | b'\\'));
    let pairs = path.iter().zip(path.iter().skip(1));
    let pair = pairs.fold(false, |odd, (a, b)| odd | ((*a == b'/') & matches!(b, b'/' | b'.')));
    !byte && !pair
}

fn decode_unreserved(path: &str) -> Result<String, PathError> {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let byte = escape(rest.as_bytes(), at).ok_or(PathError::Escape)?;
        match byte {
            0 => return Err(PathError::Escape),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(percent_encoding::percent_encode_byte(byte)),
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The decoded byte of the escape at `at`.
fn escape(text: &[u8], at: usize) -> Option<u8> {
    let digit = |i: usize| text.get(i).and_then(|&b| char::from(b).to_digit(16));
    Some((digit(at + 1)? << 4 | digit(at + 2)?) as u8)
}

fn remove_dot_segments(path: &str) -> Result<String, PathError> {
    let mut out = String::with_capacity(path.len());
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    let parent = out.rfind('/').ok_or(PathError::AboveRoot)?;
                    out.truncate(parent);
                }
                if last {
                    out.push('/');
                }
            }
            _ => {
                out.push('/');
                out.push_str(segment);
            }
        }
    }
    Ok(out)
}

/// Segments of a normalized path, percent-encoded; none for `/`.
pub fn segments(path: &str) -> Segments<'_> {
    let rest = path.strip_prefix('/').unwrap_or(path);
    // `/` has no segments, but `/a/` has an empty second one.
    Segments { rest: (!rest.is_empty()).then_some(rest) }
}

/// See [`segments`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    rest: Option<&'a str>,
}

impl<'a> Segments<'a> {
    /// The remaining path, with its slashes; `None` after the last segment.
    pub fn rest(&self) -> Option<&'a str> {
        self.rest
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let slash = rest.bytes().position(|byte| byte == b'/');
        self.rest = slash.map(|at| &rest[at + 1..]);
        Some(slash.map_or(rest, |at| &rest[..at]))
    }
}

/// Decodes every escape of a segment or a query part; invalid UTF-8 becomes U+FFFD.
pub fn decode(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'%', text.as_bytes()).is_some() {
        percent_encoding::percent_decode_str(text).decode_utf8_lossy()
    } else {
        Cow::Borrowed(text)
    }
}

/// Decodes one side of a query parameter: `+` is a space (WHATWG form encoding).
pub fn decode_query(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        Cow::Owned(decode(&text.replace('+', " ")).into_owned())
    } else {
        decode(text)
    }
}

/// Parameters of a query, decoded, in order.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decode_query(name), decode_query(value))
    })
}

/// Everything except unreserved characters (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Escapes everything in `text` except unreserved characters, as one segment or query part.
pub fn encode(text: &str, out: &mut String) {
    out.extend(utf8_percent_encode(text, RESERVED));
}

#[cfg(test)]
mod tests;
