//! Content codings of responses.

use super::http1::MAX_CAPTURED_BODY_BYTES;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::Read;
use weir_wire::{Headers, Known};

/// Decodes a body; `None` if the body is not encoded. The result ends at an error, or at the limit
/// for captured bodies.
pub(super) fn decode(headers: &Headers, body: &[u8]) -> Option<Vec<u8>> {
    let coding = headers.known(Known::ContentEncoding)?;
    let mut out = Vec::new();
    let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
    if is("gzip") || is("x-gzip") {
        read(MultiGzDecoder::new(body), &mut out);
    } else if is("deflate") {
        // RFC 9110 section 8.4.1.2 means zlib. Some servers send raw deflate.
        read(ZlibDecoder::new(body), &mut out);
        if out.is_empty() {
            read(DeflateDecoder::new(body), &mut out);
        }
    } else {
        return None;
    }
    Some(out)
}

fn read(decoder: impl Read, out: &mut Vec<u8>) {
    // Bytes before an error are kept.
    let _ = decoder.take(MAX_CAPTURED_BODY_BYTES as u64).read_to_end(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    #[test]
    fn every_coding_is_read() {
        let text = b"hello ".repeat(100);
        let encoded = |mut encoder: Box<dyn Read + '_>| {
            let mut out = Vec::new();
            encoder.read_to_end(&mut out).unwrap();
            out
        };
        let level = Compression::fast();
        let decoded = |coding: &[u8], body: &[u8]| {
            let mut headers = Headers::new();
            headers.push("content-encoding", coding);
            decode(&headers, body)
        };
        let gzip = encoded(Box::new(GzEncoder::new(text.as_slice(), level)));
        assert_eq!(decoded(b"GZIP", &gzip).unwrap(), text);
        let zlib = encoded(Box::new(ZlibEncoder::new(text.as_slice(), level)));
        assert_eq!(decoded(b"deflate", &zlib).unwrap(), text);
        let bare = encoded(Box::new(DeflateEncoder::new(text.as_slice(), level)));
        assert_eq!(decoded(b"deflate", &bare).unwrap(), text);
        assert_eq!(decoded(b"identity", &text), None);
        assert!(decoded(b"gzip", &gzip[..gzip.len() / 2]).unwrap().len() < text.len());
    }
}
