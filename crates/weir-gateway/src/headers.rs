//! What happens to header lists on their way through.

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

/// A value as text; bytes that are no UTF-8 become U+FFFD.
pub(crate) fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}
