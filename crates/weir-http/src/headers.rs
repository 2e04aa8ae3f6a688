//! Rules for header fields of forwarded messages.

use http::header::{HeaderMap, HeaderName, HeaderValue, MaxSizeReached};
use std::borrow::Cow;
use weir_config::{Credential, HeaderEdits};
use weir_wire::{Headers, Known, Method, ResponseHead};

/// Removes connection-specific fields (RFC 9110 section 7.6.1), and those selected by `also`.
pub fn strip_hop_by_hop(headers: &mut Headers, also: impl Fn(Known) -> bool) {
    let nominated = nominated(headers);
    headers.retain_known(|known| !is_hop_by_hop(known) && !also(known));
    for name in nominated {
        headers.remove(&name);
    }
}

/// Converts the headers of an upstream's response to the client's.
pub fn strip_response(response: &mut ResponseHead, method: Method) {
    // The length of a body that is not sent is known only from its declaration.
    let bodiless = method == Method::Head || response.status == 304;
    strip_hop_by_hop(&mut response.headers, |known| {
        known == Known::WeirTransactionId || (known == Known::ContentLength && !bodiless)
    });
}

fn is_hop_by_hop(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::ProxyAuthenticate
            | Known::ProxyAuthorization
            | Known::Te
            | Known::Trailer
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Names listed in `Connection`. Fields that end a connection or a message cannot be listed: the
/// list is for extensions.
fn nominated(headers: &Headers) -> Vec<String> {
    headers
        .known_all(Known::Connection)
        .flat_map(|value| value.split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| {
            !name.is_empty()
                && ![&b"close"[..], b"keep-alive"].iter().any(|n| n.eq_ignore_ascii_case(name))
        })
        .filter_map(|name| std::str::from_utf8(name).ok().map(str::to_owned))
        .collect()
}

/// Removes request headers with an underscore or a dot in their name, except those in `passed` (in
/// lower case; `*`: all), and returns their number. For programs that receive headers as variables,
/// `X_User` is the same as `X-User`, for PHP `X.User` too, so it would bypass edits and could forge
/// headers of proxies.
pub fn drop_underscored(headers: &mut Headers, passed: &[String]) -> u64 {
    // Few requests have any, and a check is cheaper than a new list.
    let is_removed =
        |known: Known, name: &[u8]| known == Known::Other && is_underscored(name, passed);
    if !headers.names().any(|(known, name)| is_removed(known, name)) {
        return 0;
    }
    let before = headers.len();
    headers.retain(|known, name, _| !is_removed(known, name.as_bytes()));
    (before - headers.len()) as u64
}

/// Whether a header has an underscore or a dot in its name and is not in `passed`.
pub fn is_underscored(name: &[u8], passed: &[String]) -> bool {
    memchr::memchr2(b'_', b'.', name).is_some()
        && !passed.iter().any(|p| p == "*" || name.eq_ignore_ascii_case(p.as_bytes()))
}

/// Sets weir's own credential, instead of the client's.
pub fn sign(headers: &mut Headers, credential: Option<&Credential>) {
    if let Some(credential) = credential {
        headers.set(&credential.header, credential.value.as_bytes());
    }
}

/// Removes headers, then sets others.
pub fn apply_edits(headers: &mut Headers, edits: &HeaderEdits) {
    for name in &edits.remove {
        headers.remove(name);
    }
    for (name, value) in &edits.set {
        headers.set(name, value.as_bytes());
    }
}

/// Removes fields that are not permitted in trailers, and those selected by `edited`: a trailer
/// that a recipient merges with the header would undo the edit.
pub fn filter_trailers(trailers: &mut HeaderMap, edited: impl Fn(&str) -> bool) {
    let is_removed = |name: &&HeaderName| !may_be_trailer(name.as_str()) || edited(name.as_str());
    let removed: Vec<HeaderName> = trailers.keys().filter(is_removed).cloned().collect();
    for name in &removed {
        trailers.remove(name);
    }
}

/// Whether edits remove or replace a header.
pub fn is_edited(edits: &HeaderEdits, name: &str) -> bool {
    let is_it = |other: &str| other.eq_ignore_ascii_case(name);
    edits.remove.iter().any(|other| is_it(other)) || edits.set.iter().any(|(other, _)| is_it(other))
}

/// Whether a field is permitted in trailers (RFC 9110 section 6.5.1): it does not frame, route,
/// modify or authenticate a message, does not describe its body or control the response, and is not
/// set by proxies. `name` is in lower case.
fn may_be_trailer(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["access-control-", "if-", "proxy-", "weir-", "x-forwarded-"];
    // In alphabetical order. `Content-Digest` and `ETag` are permitted: they may be known at the
    // end only.
    const NAMES: [&str; 40] = [
        "age",
        "authorization",
        "cache-control",
        "connection",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-range",
        "content-security-policy",
        "content-type",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "keep-alive",
        "location",
        "max-forwards",
        "origin",
        "pragma",
        "range",
        "refresh",
        "retry-after",
        "set-cookie",
        "strict-transport-security",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "vary",
        "via",
        "warning",
        "www-authenticate",
        "x-accel-redirect",
    ];
    NAMES.binary_search(&name).is_err() && !PREFIXES.iter().any(|start| name.starts_with(start))
}

/// Adds a field to an HTTP/2 head. A field that is invalid in HTTP/2 is omitted.
///
/// # Errors
/// The maximum number of fields is exceeded.
pub fn put_http2(
    headers: &mut HeaderMap,
    (known, name, value): (Known, &str, &[u8]),
) -> Result<(), MaxSizeReached> {
    if let (Ok(name), Ok(mut value)) =
        (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
    {
        // These values differ in every request: in the compression table they would evict fields
        // that recur, and inserting them took a fifth of the time to write a head.
        value.set_sensitive(matches!(known, Known::Traceparent | Known::WeirTransactionId));
        headers.try_append(name, value)?;
    }
    Ok(())
}

/// Whether a body has a content coding (RFC 9110 section 8.4), such as compression.
pub fn is_encoded(headers: &Headers) -> bool {
    let coding = headers.known(Known::ContentEncoding);
    coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body is JSON by its media type (RFC 8259, RFC 6839).
pub fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
        || essence
            .len()
            .checked_sub(b"+json".len())
            .is_some_and(|at| essence[at..].eq_ignore_ascii_case(b"+json"))
}

/// A value as text; invalid UTF-8 becomes U+FFFD.
pub fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

/// The names in lower case, and the values as text.
pub fn pairs(headers: &Headers) -> impl Iterator<Item = (String, String)> {
    headers.iter().map(|(_, name, value)| (name.to_ascii_lowercase(), text(value).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_have_nothing_that_belongs_into_a_head() {
        let names = [
            "grpc-status",
            "grpc-message",
            "server-timing",
            "x-checksum",
            "content-length",
            "content-type",
            "transfer-encoding",
            "host",
            "authorization",
            "set-cookie",
            "if-none-match",
            "weir-transaction-id",
            "x-forwarded-for",
            "x-removed",
            "x-replaced",
        ];
        let mut trailers = HeaderMap::new();
        for name in names {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        let edits = HeaderEdits {
            set: vec![("x-replaced".to_owned(), "1".to_owned())],
            remove: vec!["x-removed".to_owned()],
        };
        filter_trailers(&mut trailers, |name| is_edited(&edits, name));
        let kept: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(kept, &names[..4]);
    }

    #[test]
    fn headers_with_an_underscore_go_unless_they_are_listed() {
        let named = |names: &[&str]| {
            let mut headers = Headers::new();
            names.iter().for_each(|name| headers.push(name, b"1"));
            headers
        };
        for (passed, dropped, left) in [
            (&[][..], 3, &["x-user", "accept"][..]),
            (&["x_user"], 2, &["X_User", "x-user", "accept"]),
            (&["x.user"], 2, &["x-user", "X.User", "accept"]),
            (&["*"], 0, &["X_User", "x-user", "weir_mirrored", "X.User", "accept"]),
        ] {
            let passed: Vec<String> = passed.iter().map(|name| (*name).to_owned()).collect();
            let mut headers = named(&["X_User", "x-user", "weir_mirrored", "X.User", "accept"]);
            assert_eq!(drop_underscored(&mut headers, &passed), dropped, "{passed:?}");
            let names: Vec<_> = headers.iter().map(|(_, name, _)| name).collect();
            assert_eq!(names, left, "{passed:?}");
        }
    }

    #[test]
    fn what_each_request_has_anew_stays_out_of_the_table_of_http2() {
        let mut map = HeaderMap::new();
        for (known, name, value) in [
            (Known::Traceparent, "traceparent", &b"00-1-2-01"[..]),
            (Known::WeirTransactionId, "weir-transaction-id", b"1"),
            (Known::ContentType, "content-type", b"application/json"),
            (Known::Other, "bad name", b"left out"),
            (Known::Other, "x-bad-value", b"left\nout"),
        ] {
            put_http2(&mut map, (known, name, value)).unwrap();
        }
        let kept: Vec<_> = map.iter().map(|(n, v)| (n.as_str(), v.is_sensitive())).collect();
        let expected =
            [("traceparent", true), ("weir-transaction-id", true), ("content-type", false)];
        assert_eq!(kept, expected);
    }
}
