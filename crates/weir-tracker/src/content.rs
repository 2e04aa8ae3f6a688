//! The text of recorded heads and bodies.
//!
//! Compressed bodies are stored as they were sent, and decoded here up to [`TEXT_LIMIT`] bytes of
//! text; the rest is neither indexed nor found. Binaries and event streams are not text.

use std::borrow::Cow;
use std::io::Read;

use weir_journal::Transaction;

/// Bytes of the text of a body, after decoding, that are searched.
pub(crate) const TEXT_LIMIT: usize = 256 << 10;
/// Bytes of a head that are searched.
pub(crate) const HEAD_LIMIT: usize = 64 << 10;
/// Most content codings of a body.
const MAX_CODINGS: usize = 3;

/// The header lines of a head that are searched.
pub(crate) fn lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    header_lines(&head[..head.len().min(HEAD_LIMIT)])
}

/// The header lines of a recorded head: name and value, trimmed.
pub fn header_lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// Content type and content codings of a body, as its head declares them; empty if it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BodyType<'a> {
    content_type: &'a [u8],
    codings: &'a [u8],
}

impl<'a> BodyType<'a> {
    pub(crate) fn from_head(head: &'a [u8]) -> Self {
        let mut kind = Self::default();
        for (name, value) in lines(head) {
            if name.eq_ignore_ascii_case(b"content-type") {
                kind.content_type = value;
            } else if name.eq_ignore_ascii_case(b"content-encoding") {
                kind.codings = value;
            }
        }
        kind
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextFormat {
    Plain,
    Json,
    Urlencoded,
}

/// Content types of bodies that are not searched.
const NO_TEXT: [&str; 4] =
    ["text/event-stream", "application/grpc", "application/zip", "application/pdf"];
/// What such content types may begin with.
const NO_TEXT_KINDS: [&str; 4] = ["image/", "audio/", "video/", "font/"];

/// The text format of a content type; none if such bodies are not searched.
fn text_format(content_type: &[u8]) -> Option<TextFormat> {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    let begins = |kind: &&str| {
        let begin = essence.get(..kind.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(kind.as_bytes()))
    };
    let ends_with_json = essence.len().checked_sub(4).map(|at| &essence[at..]);
    if is("application/x-www-form-urlencoded") {
        Some(TextFormat::Urlencoded)
    } else if ends_with_json.is_some_and(|end| end.eq_ignore_ascii_case(b"json")) {
        Some(TextFormat::Json)
    } else if is("image/svg+xml") {
        Some(TextFormat::Plain)
    } else if NO_TEXT.iter().any(|name| is(name)) || NO_TEXT_KINDS.iter().any(begins) {
        None
    } else {
        Some(TextFormat::Plain)
    }
}

/// The text of a body with its escapes resolved; none if it is not text.
pub(crate) fn text<'a>(kind: BodyType<'_>, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    if body.is_empty() {
        return None;
    }
    let text_format = text_format(kind.content_type)?;
    let decoded = decode(kind.codings, body, TEXT_LIMIT)?;
    if is_binary(&decoded) {
        return None;
    }
    Some(match text_format {
        TextFormat::Plain => decoded,
        TextFormat::Json if memchr::memchr(b'\\', &decoded).is_none() => decoded,
        TextFormat::Json => Cow::Owned(unescape(&decoded)),
        TextFormat::Urlencoded => Cow::Owned(percent_decode(&decoded)),
    })
}

/// The beginning of a body without its codings; none if such bodies are not searched.
pub(crate) fn decoded<'a>(kind: BodyType<'_>, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    text_format(kind.content_type)?;
    decode(kind.codings, body, TEXT_LIMIT)
}

/// A body to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodedBody<'a> {
    /// The body without its content codings, or as it was sent.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The content codings that its head declares, if any.
    pub(crate) codings: String,
    /// Whether they were removed.
    pub(crate) decoded: bool,
    /// Whether the body is longer than the limit.
    pub(crate) truncated: bool,
}

/// Removes the content codings of a recorded body. Returns at most `limit` bytes: a small compressed
/// body may be very large. A truncated body gives its beginning.
pub(crate) fn decode_body<'a>(head: &[u8], body: &'a [u8], limit: usize) -> DecodedBody<'a> {
    let codings = String::from_utf8_lossy(BodyType::from_head(head).codings).into_owned();
    let plain = matches!(codings.to_ascii_lowercase().as_str(), "" | "identity");
    let inflated = if plain { None } else { decode(codings.as_bytes(), body, limit + 1) };
    let decoded = inflated.as_ref().is_some_and(|bytes| !bytes.is_empty());
    let mut bytes = inflated.filter(|_| decoded).unwrap_or(Cow::Borrowed(body));
    let truncated = decoded && bytes.len() > limit;
    if truncated {
        bytes.to_mut().truncate(limit);
    }
    DecodedBody { bytes, codings: if plain { String::new() } else { codings }, decoded, truncated }
}

/// Text has no NUL, and few other control characters, near its beginning.
fn is_binary(text: &[u8]) -> bool {
    let head = &text[..text.len().min(512)];
    let controls = head.iter().filter(|byte| **byte < 32 && !matches!(byte, b'\t' | b'\n' | b'\r'));
    memchr::memchr(0, head).is_some() || controls.count() > head.len() / 16
}

/// At most `limit` bytes of a body without its codings; none if a coding is unknown.
fn decode<'a>(codings: &[u8], body: &'a [u8], limit: usize) -> Option<Cow<'a, [u8]>> {
    if codings.is_empty() {
        return Some(Cow::Borrowed(&body[..body.len().min(limit)]));
    }
    let mut bytes = Cow::Borrowed(body);
    let all: Vec<_> = codings.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    if all.len() > MAX_CODINGS {
        return None;
    }
    for coding in all.iter().rev() {
        bytes = match coding.to_ascii_lowercase().as_slice() {
            b"" | b"identity" => bytes,
            b"gzip" | b"x-gzip" => inflate(flate2::read::MultiGzDecoder::new(&bytes[..]), limit),
            // `deflate` means zlib; some senders use raw deflate.
            b"deflate" if bytes.first().is_some_and(|byte| byte & 0x0F == 8) => {
                inflate(flate2::read::ZlibDecoder::new(&bytes[..]), limit)
            }
            b"deflate" => inflate(flate2::read::DeflateDecoder::new(&bytes[..]), limit),
            b"br" => inflate(brotli_decompressor::Decompressor::new(&bytes[..], 8 << 10), limit),
            b"zstd" => inflate(zstd_decoder(&bytes)?, limit),
            _ => return None,
        };
    }
    if let Cow::Borrowed(plain) = bytes {
        return Some(Cow::Borrowed(&plain[..plain.len().min(limit)]));
    }
    Some(bytes)
}

fn zstd_decoder(bytes: &[u8]) -> Option<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).ok()?;
    // Senders may use a window of up to 8 MiB (RFC 9659).
    decoder.window_log_max(23).ok()?;
    Some(decoder)
}

/// Up to `limit` bytes that can be decoded; a truncated or damaged body gives its beginning.
fn inflate<'a>(decoder: impl Read, limit: usize) -> Cow<'a, [u8]> {
    let mut decoder = decoder.take(limit as u64);
    let mut bytes = Vec::new();
    let mut chunk = [0; 8 << 10];
    while let Ok(length @ 1..) = decoder.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
    }
    Cow::Owned(bytes)
}

/// Resolves the escapes of JSON strings, anywhere in the text; control characters become spaces.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.first() else { break };
        rest = &rest[1..];
        match kind {
            b'u' => {
                let (letter, length) = escaped(rest);
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[length..];
            }
            b'n' | b'r' | b't' | b'b' | b'f' => out.push(b' '),
            other => out.push(*other),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The character after `\u`, and the number of bytes of its escape.
fn escaped(text: &[u8]) -> (char, usize) {
    let unit = |text: &[u8]| {
        let digits = std::str::from_utf8(text.get(..4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(text) else { return (' ', 0) };
    if let Some(letter) = char::from_u32(first) {
        return (letter, 4);
    }
    let second = text.get(4..).and_then(|rest| unit(rest.strip_prefix(b"\\u")?));
    let pair = second.filter(|second| first < 0xDC00 && (0xDC00..0xE000).contains(second));
    let letter =
        pair.and_then(|low| char::from_u32(0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)));
    letter.map_or((' ', 4), |letter| (letter, 10))
}

/// Decodes `%41` and `+`.
pub(crate) fn percent_decode(text: &[u8]) -> Vec<u8> {
    let plus = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
    let text: Vec<u8> = text.iter().map(plus).collect();
    percent_encoding::percent_decode(&text).collect()
}

/// Bytes of the heads and bodies of a transaction: nearly its size in memory.
#[must_use]
pub fn payload_bytes(transaction: &Transaction) -> usize {
    let heads = transaction.request_head.len() + transaction.response_head.len();
    heads + transaction.request_body.len() + transaction.response_body.len()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::{BodyType, TEXT_LIMIT, decode_body, text};

    fn shown(head: &str, body: &[u8]) -> Option<String> {
        text(BodyType::from_head(head.as_bytes()), body)
            .map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// The same text as another program compressed it.
    const BROTLI: [u8; 19] = [
        0x0b, 0x07, 0x80, 0x72, 0x65, 0x66, 0x75, 0x6e, 0x64, 0x20, 0x66, 0x6f, 0x72, 0x20, 0x61,
        0x63, 0x6d, 0x65, 0x03,
    ];

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn bodies_are_decoded_by_what_their_head_says() {
        let plain = b"refund for acme";
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(plain).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(plain).unwrap();
        let both = zstd::encode_all(&gzip(plain)[..], 1).unwrap();
        let all = [
            ("", plain.to_vec()),
            ("content-encoding: identity\r\n", plain.to_vec()),
            ("Content-Encoding: gzip\r\n", gzip(plain)),
            ("content-encoding: deflate\r\n", zlib.finish().unwrap()),
            ("content-encoding: deflate\r\n", raw.finish().unwrap()),
            ("content-encoding: zstd\r\n", zstd::encode_all(&plain[..], 1).unwrap()),
            ("content-encoding: gzip, zstd\r\n", both),
            ("content-encoding: br\r\n", BROTLI.to_vec()),
        ];
        for (head, body) in &all {
            assert_eq!(shown(head, body).as_deref(), Some("refund for acme"), "{head}");
        }
        assert!(shown("content-encoding: wasm\r\n", plain).is_none());
        assert!(shown("content-encoding: gzip,gzip,gzip,gzip\r\n", plain).is_none());
    }

    #[test]
    fn a_cut_body_gives_its_beginning_and_a_bomb_no_more_than_the_limit() {
        let long: Vec<u8> = (0..20_000).flat_map(|n| format!("word{n} ").into_bytes()).collect();
        let packed = gzip(&long);
        let truncated = shown("content-encoding: gzip\r\n", &packed[..packed.len() / 2]).unwrap();
        assert!(truncated.starts_with("word0 word1 ") && truncated.len() > 1000);
        let bomb = gzip(&vec![b'a'; 50 << 20]);
        assert_eq!(shown("content-encoding: gzip\r\n", &bomb).unwrap().len(), TEXT_LIMIT);
        let twice = gzip(&bomb);
        assert!(shown("content-encoding: gzip, gzip\r\n", &twice).unwrap().len() <= TEXT_LIMIT);
    }

    #[test]
    fn bodies_are_made_readable_within_a_limit() {
        let head = b"content-encoding: gzip\r\ncontent-type: image/png\r\n";
        let bomb = gzip(&vec![b'a'; 50 << 20]);
        let found = decode_body(head, &bomb, 1000);
        assert_eq!((found.bytes.len(), found.truncated, found.decoded), (1000, true, true));
        assert_eq!(found.codings, "gzip");
        let whole = gzip(&[7; 1000]);
        let found = decode_body(head, &whole, 1000);
        assert_eq!((found.bytes.len(), found.truncated), (1000, false));
        let other = decode_body(b"content-encoding: wasm\r\n", b"abc", 1);
        assert_eq!((&*other.bytes, other.decoded, other.truncated), (&b"abc"[..], false, false));
        assert!(!decode_body(head, b"not gzip at all", 1000).decoded);
        assert_eq!(decode_body(b"", b"plain", 1).bytes, &b"plain"[..]);
    }

    #[test]
    fn binaries_and_streams_are_no_text() {
        assert!(shown("content-type: text/event-stream\r\n", b"data: x").is_none());
        assert!(shown("content-type: image/png\r\n", b"x").is_none());
        assert!(shown("", b"PK\x03\x04\x00\x00").is_none());
        assert!(shown("", b"").is_none());
        assert!(shown("content-type: text/plain\r\n", b"caf\xe9").is_some());
    }

    #[test]
    fn escapes_are_resolved() {
        let json = "content-type: application/problem+json; charset=utf-8\r\n";
        let body = br#"{"a":"one\ntwo caf\u00e9 \ud83d\ude00 \"q\" \ud800x"#;
        assert_eq!(shown(json, body).unwrap(), "{\"a\":\"one two café 😀 \"q\"  x");
        let text_format = "content-type: application/x-www-form-urlencoded\r\n";
        assert_eq!(shown(text_format, b"a=one+two%20caf%C3%A9%4").unwrap(), "a=one two café%4");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(head in "(content-encoding|content-type): [a-z,/ ]{0,20}", body: Vec<u8>) {
            let _ = text(BodyType::from_head(head.as_bytes()), &body);
            for coding in ["gzip", "deflate", "br", "zstd"] {
                let head = format!("content-encoding: {coding}\r\ncontent-type: a/json");
                let _ = text(BodyType::from_head(head.as_bytes()), &body);
            }
        }
    }
}
