//! The session cookie of weir's own console, which is not sent to upstreams.
//!
//! Browsers send a cookie to every port of a host (RFC 6265 section 8.5), so a page of the gateway
//! on the host of the admin listener sends the console's session cookie. The cookie is half of the
//! credentials of a session, so it is removed from requests before their heads are used, and no
//! response sets one.

use std::borrow::Cow;
use weir_wire::{Headers, Known};

/// Prefix of the name of the console's session cookie; the port of the admin listener follows.
pub const PREFIX: &str = "weir-session-";

/// Removes session cookies from a request; other cookies stay, in one field line.
pub fn strip_request(headers: &mut Headers) {
    if !headers.may_have(Known::Cookie) {
        return;
    }
    let has_session = |value: &[u8]| value.split(|&b| b == b';').any(is_session);
    if !headers.known_all(Known::Cookie).any(has_session) {
        return;
    }
    let mut kept: Vec<u8> = Vec::new();
    for value in headers.known_all(Known::Cookie) {
        for pair in value.split(|&b| b == b';').filter(|pair| !is_session(pair)) {
            let pair = pair.trim_ascii();
            if !pair.is_empty() {
                if !kept.is_empty() {
                    kept.extend_from_slice(b"; ");
                }
                kept.extend_from_slice(pair);
            }
        }
    }
    headers.remove(Known::Cookie.name());
    if !kept.is_empty() {
        headers.push_known(Known::Cookie, &kept);
    }
}

/// Removes field lines that set a session cookie from a response.
pub fn strip_response(headers: &mut Headers) {
    if headers.may_have(Known::SetCookie) && headers.known_all(Known::SetCookie).any(is_session) {
        headers.retain(|known, _, value| known != Known::SetCookie || !is_session(value));
    }
}

/// Whether a cookie pair, or a Set-Cookie line, belongs to a session. Browsers send a cookie
/// without a name as its value alone, so `=weir-session-1=x` is returned as `weir-session-1=x`.
/// Browsers compare names byte by byte; frameworks may not, and may decode names.
fn is_session(pair: &[u8]) -> bool {
    let start = pair.iter().position(|b| !matches!(b, b' ' | b'\t' | b'=')).unwrap_or(pair.len());
    let (pair, prefix) = (&pair[start..], PREFIX.as_bytes());
    let pair: Cow<'_, [u8]> = percent_encoding::percent_decode(pair).into();
    pair.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(known: Known, values: &[&str]) -> Headers {
        let mut headers = Headers::new();
        headers.push("accept", b"*/*");
        values.iter().for_each(|value| headers.push_known(known, value.as_bytes()));
        headers
    }

    fn values(headers: &Headers, known: Known) -> Vec<String> {
        headers.known_all(known).map(|v| String::from_utf8_lossy(v).into_owned()).collect()
    }

    #[test]
    fn only_session_cookies_go_from_a_request() {
        for (lines, kept) in [
            (&["a=1; b=2"][..], &["a=1; b=2"][..]),
            (&["a=1;b=2", "c=3"], &["a=1;b=2", "c=3"]),
            (&["a=weir-session-1; b=weir"], &["a=weir-session-1; b=weir"]),
            (&["weir-session-9080=s3cret"], &[]),
            (&["weir-session-9080=s3cret; "], &[]),
            (&["a=1;weir-session-9080=s3cret; b=2", "c=3"], &["a=1; b=2; c=3"]),
            (&["a=1", " \tweir-session-1=x;weir-session-2=y; c=3"], &["a=1; c=3"]),
            (&["Weir-Session-1=x; ==weir-session-1=y; weir%2Dsession%2d1=z"], &[]),
            (&["weir-session", "weir%2", "%"], &["weir-session", "weir%2", "%"]),
        ] {
            let mut headers = with(Known::Cookie, lines);
            strip_request(&mut headers);
            assert_eq!(values(&headers, Known::Cookie), kept, "{lines:?}");
            assert!(headers.get("accept").is_some());
        }
    }

    #[test]
    fn only_session_cookies_are_not_set_by_a_response() {
        let lines = ["a=1; Path=/", "weir-session-9080=x; Path=/v1", "=weir-session-1=x", "b=2"];
        let mut headers = with(Known::SetCookie, &lines);
        strip_response(&mut headers);
        assert_eq!(values(&headers, Known::SetCookie), ["a=1; Path=/", "b=2"]);
    }
}
