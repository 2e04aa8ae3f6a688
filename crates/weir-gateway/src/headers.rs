//! What happens to header lists on their way through.

use http::header::{HeaderMap, HeaderName, HeaderValue, MaxSizeReached};
use std::borrow::Cow;
use weir_config::HeaderEdits;
use weir_wire::{Headers, Known};

/// Removes what concerns one connection only (RFC 9110 section 7.6.1), and what `also` names.
pub(crate) fn strip_hop_by_hop(headers: &mut Headers, also: impl Fn(Known) -> bool) {
    let nominated = nominated(headers);
    headers.retain_known(|known| !is_hop_by_hop(known) && !also(known));
    for name in nominated {
        headers.remove(&name);
    }
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

/// Names that Connection says are for this connection, too. What ends a connection or a message
/// cannot be nominated away: the list is for extensions.
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

/// Removes, then sets.
pub(crate) fn apply_edits(headers: &mut Headers, edits: &HeaderEdits) {
    for name in &edits.remove {
        headers.remove(name);
    }
    for (name, value) in &edits.set {
        headers.set(name, value.as_bytes());
    }
}

/// Adds a field to those of HTTP/2. One whose name or value HTTP/2 does not have is left out.
///
/// # Errors
/// There are more than it has room for.
pub(crate) fn put_http2(
    headers: &mut HeaderMap,
    (known, name, value): (Known, &str, &[u8]),
) -> Result<(), MaxSizeReached> {
    if let (Ok(name), Ok(mut value)) =
        (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
    {
        // Each request has another: in the table that compresses heads they would push out what
        // comes again, and putting them there was a fifth of what writing a head took.
        value.set_sensitive(matches!(known, Known::Traceparent | Known::WeirTransactionId));
        headers.try_append(name, value)?;
    }
    Ok(())
}

/// A value as text; bytes that are no UTF-8 become U+FFFD.
pub(crate) fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
