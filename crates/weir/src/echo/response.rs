//! Responses of the echo backend: a request head and body in, bytes out.

use crate::duration;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_lab::generate::{Corpus, Payload};
use weir_wire::{Known, Method, RequestHead, Version, encode};

/// Response to a GET of any other path.
const HELLO: &[u8] = br#"{"message":"Hello from the echo backend"}"#;

/// Bytes of one chunk of `/stream/N`.
pub(super) const CHUNK: usize = 1024;

/// Documents of `/documents`: as many and as long as those of a busy API, with the words of a natural
/// text. Requests of the Lab have another seed.
static DOCUMENTS: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let corpus =
        Corpus { documents: 8192, words: 220, vocabulary: 50_000, exponent: 1.0, seed: 2026 };
    // The sizes are far below the limit.
    Payload::Corpus(corpus).make().unwrap_or_default()
});
/// Number of the next document.
static NEXT_DOCUMENT: AtomicUsize = AtomicUsize::new(0);

/// The part of a response after the written bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The response is complete.
    None,
    /// The request body, as it is.
    Body,
    /// This number of chunks of [`CHUNK`] bytes with a pause after each, then the last chunk.
    Chunks { count: u64, pause: Duration },
}

/// Extra delay of the path (`/delay/200ms`), at most a minute.
pub(super) fn delay(head: &RequestHead) -> Duration {
    match head.path().strip_prefix("/delay/").map(duration::parse) {
        Some(Ok(delay)) => delay.min(Duration::from_secs(60)),
        _ => Duration::ZERO,
    }
}

/// Writes the response, or its part before [`Rest`].
pub(super) fn write(head: &RequestHead, body: &[u8], out: &mut Vec<u8>) -> Rest {
    let path = head.path();
    if path == "/headers" {
        complete(head, 200, &describe(head), out);
        return Rest::None;
    }
    if path == "/documents" {
        let number = NEXT_DOCUMENT.fetch_add(1, Ordering::Relaxed);
        let document = DOCUMENTS.get(number % DOCUMENTS.len().max(1));
        complete(head, 200, document.map_or(HELLO, |document| document), out);
        return Rest::None;
    }
    if let Some((count, pause)) = stream(head, path) {
        encode::status_line(out, 200);
        encode::field(out, "content-type", b"text/plain");
        encode::field(out, "transfer-encoding", b"chunked");
        end_of_head(head, out);
        return Rest::Chunks { count, pause };
    }
    let status = status(path);
    if matches!(head.method, Method::Post | Method::Put | Method::Patch) && may_have_body(status) {
        let content_type =
            head.headers.known(Known::ContentType).unwrap_or(b"application/octet-stream");
        encode::status_line(out, status);
        encode::field(out, "content-type", content_type);
        encode::content_length(out, body.len() as u64);
        end_of_head(head, out);
        return Rest::Body;
    }
    complete(head, status, HELLO, out);
    Rest::None
}

/// Writes the response to an invalid request; the connection is closed after it.
pub(super) fn rejection(status: u16, out: &mut Vec<u8>) {
    encode::status_line(out, status);
    out.extend_from_slice(b"connection: close\r\ncontent-length: 0\r\n\r\n");
}

fn complete(head: &RequestHead, status: u16, body: &[u8], out: &mut Vec<u8>) {
    encode::status_line(out, status);
    if may_have_body(status) {
        encode::field(out, "content-type", b"application/json");
        encode::content_length(out, body.len() as u64);
    }
    end_of_head(head, out);
    if may_have_body(status) && head.method != Method::Head {
        out.extend_from_slice(body);
    }
}

/// The Connection header where one is needed, and the empty line.
fn end_of_head(head: &RequestHead, out: &mut Vec<u8>) {
    match (head.version, head.keep_alive) {
        (Version::Http11, true) => {}
        (Version::Http10, true) => encode::field(out, "connection", b"keep-alive"),
        (_, false) => encode::field(out, "connection", b"close"),
    }
    out.extend_from_slice(b"\r\n");
}

/// `/status/503`; 200 for every other path.
fn status(path: &str) -> u16 {
    path.strip_prefix("/status/")
        .and_then(|code| code.parse().ok())
        .filter(|code| (200..=599).contains(code))
        .unwrap_or(200)
}

fn may_have_body(status: u16) -> bool {
    !matches!(status, 204 | 304)
}

/// `/stream/N` or `/stream/N/PAUSE`, for clients that understand chunks.
fn stream(head: &RequestHead, path: &str) -> Option<(u64, Duration)> {
    let rest = path.strip_prefix("/stream/")?;
    if head.version != Version::Http11 || head.method == Method::Head {
        return None;
    }
    let (count, pause) = match rest.split_once('/') {
        Some((count, pause)) => (count, duration::parse(pause).ok()?),
        None => (rest, Duration::ZERO),
    };
    Some((count.parse().ok()?, pause))
}

fn describe(head: &RequestHead) -> Vec<u8> {
    let headers: Vec<Value> = head
        .headers
        .iter()
        .map(|(_, name, value)| json!([name, String::from_utf8_lossy(value)]))
        .collect();
    json!({"method": head.method_name(), "target": head.target(), "headers": headers})
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{HeadLimits, Scan};

    fn answer(request: &str, body: &[u8]) -> (String, Rest) {
        let mut head = RequestHead::default();
        head.parse(request.as_bytes(), &mut Scan::new(), &HeadLimits::default()).unwrap().unwrap();
        let mut out = Vec::new();
        let rest = write(&head, body, &mut out);
        (String::from_utf8(out).unwrap(), rest)
    }

    #[test]
    fn a_post_gets_its_body_and_content_type_back() {
        let (text, rest) = answer(
            "POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\n",
            b"abc",
        );
        assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: 3\r\n\r\n");
        assert_eq!(rest, Rest::Body);
    }

    #[test]
    fn http_1_0_is_told_that_the_connection_stays() {
        let (text, _) = answer("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"");
        assert!(text.contains("\r\nconnection: keep-alive\r\n"), "{text}");
        let (text, _) = answer("GET / HTTP/1.0\r\n\r\n", b"");
        assert!(text.contains("\r\nconnection: close\r\n"), "{text}");
        let (text, _) = answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"");
        assert!(!text.contains("connection"), "{text}");
    }

    #[test]
    fn the_path_may_ask_for_a_status() {
        let (text, _) = answer("GET /status/503 HTTP/1.1\r\nHost: h\r\n\r\n", b"");
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text}");
        let (text, rest) = answer("POST /status/204 HTTP/1.1\r\nHost: h\r\n\r\n", b"");
        assert_eq!((text.as_str(), rest), ("HTTP/1.1 204 No Content\r\n\r\n", Rest::None));
    }

    #[test]
    fn head_has_the_length_but_no_body() {
        let (text, _) = answer("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", b"");
        assert!(text.contains(&format!("content-length: {}\r\n", HELLO.len())));
        assert!(text.ends_with("\r\n\r\n"));
    }

    #[test]
    fn headers_are_shown_as_they_came() {
        let (text, _) =
            answer("GET /headers?a=1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-A: 2\r\n\r\n", b"");
        let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["target"], "/headers?a=1");
        assert_eq!(body["headers"], json!([["Host", "h"], ["X-A", "1"], ["X-A", "2"]]));
    }

    #[test]
    fn documents_differ_and_are_about_a_kibibyte() {
        let document = || {
            let (text, _) = answer("POST /documents HTTP/1.1\r\nHost: h\r\n\r\n", b"");
            let body = text.split("\r\n\r\n").nth(1).unwrap().to_owned();
            let _: Value = serde_json::from_str(&body).unwrap();
            body
        };
        let (one, other) = (document(), document());
        assert_ne!(one, other);
        assert!((700..1400).contains(&one.len()), "{}", one.len());
    }

    #[test]
    fn a_stream_has_a_count_and_a_pause() {
        let (_, rest) = answer("GET /stream/3/10ms HTTP/1.1\r\nHost: h\r\n\r\n", b"");
        assert_eq!(rest, Rest::Chunks { count: 3, pause: Duration::from_millis(10) });
        let (text, rest) = answer("GET /stream/3 HTTP/1.0\r\n\r\n", b"");
        assert_eq!(rest, Rest::None, "HTTP/1.0 has no chunks");
        assert!(text.contains("content-length"));
    }
}
