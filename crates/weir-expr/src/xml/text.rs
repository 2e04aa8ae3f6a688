//! The bytes of a document as text.

use super::XmlError;
use encoding_rs::{Encoding, UTF_8};
use std::borrow::Cow;

/// Maximum length of the declaration in bytes.
const DECLARATION: usize = 256;

/// Decodes a document: by its byte order mark, else by the charset of its content type, else by its
/// declaration, else as UTF-8 (RFC 7303 section 3).
pub(super) fn decode<'b>(bytes: &'b [u8], charset: Option<&str>) -> Result<Cow<'b, str>, XmlError> {
    let (encoding, mark) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => (encoding, length),
        None => match charset.or_else(|| declared(bytes)) {
            None => (UTF_8, 0),
            Some(label) => match Encoding::for_label(label.as_bytes()) {
                Some(encoding) => (encoding, 0),
                None => return Err(XmlError::Encoding(label.chars().take(40).collect())),
            },
        },
    };
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes[mark..]);
    text.ok_or(XmlError::NotIn(encoding.name()))
}

/// The encoding in `<?xml … encoding="…"?>`.
fn declared(bytes: &[u8]) -> Option<&str> {
    let head = &bytes[..bytes.len().min(DECLARATION)];
    if !head.starts_with(b"<?xml") {
        return None;
    }
    let end = head.windows(2).position(|two| two == b"?>")?;
    let head = std::str::from_utf8(&head[..end]).ok()?;
    let (_, rest) = head.split_once("encoding")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    rest[1..].split_once(quote).map(|(label, _)| label)
}
