//! The request head that an upstream gets.

use crate::exchange::Exchange;
use crate::forwarded::{self, Hop};
use crate::headers::{apply_edits, drop_underscored, strip_hop_by_hop};
use crate::path;
use weir_config::{HeaderEdits, HostMode, PathMode, PathPart, Proxy, QueryMode, Route};
use weir_wire::Known;

/// Turns the client's headers into the upstream's, in place: removes hop-by-hop headers and those with an
/// underscore or a dot that are not in `passed`, applies the edits of route and handler, and adds
/// forwarding headers. Only the credential is missing: `headers::sign`.
pub(crate) fn prepare(
    exchange: &mut Exchange,
    route: &Route,
    edits: Option<&HeaderEdits>,
    passed: &[String],
) {
    let version = exchange.version_name();
    let dropped = drop_underscored(&mut exchange.request.headers, passed);
    if dropped > 0 {
        exchange.worker.stats.dropped_headers.add(dropped);
    }
    let request = &mut exchange.request;
    strip_hop_by_hop(&mut request.headers, |known| {
        matches!(
            known,
            Known::Host | Known::Expect | Known::ContentLength | Known::WeirTransactionId
        )
    });
    let (authority, headers) = request.authority_and_headers();
    let hop = Hop { peer: exchange.peer.ip(), host: authority.as_bytes(), version };
    forwarded::announce(headers, &hop, &exchange.client);
    exchange.announce_trace();
    let request = &mut exchange.request;
    if route.response_map.is_some() {
        // A body that is transformed must not be encoded.
        request.headers.remove("accept-encoding");
    }
    apply_edits(&mut request.headers, &route.request_headers);
    if let Some(edits) = edits {
        apply_edits(&mut request.headers, edits);
    }
    if let Some(replay) = &exchange.resubmission {
        replay.mark(&route.resubmit, exchange.id.as_str(), &mut request.headers);
    }
    request.headers.push_known(Known::WeirTransactionId, exchange.id.as_bytes());
}

/// The host that every target gets, if not its own authority. `client` is the authority that the client
/// has sent.
pub(super) fn host<'e>(client: &'e str, proxy: &'e Proxy) -> Option<&'e str> {
    match &proxy.host {
        HostMode::Upstream => None,
        HostMode::Client => Some(client).filter(|authority| !authority.is_empty()),
        HostMode::Fixed(host) => Some(host),
    }
}

/// Path and query for the upstream; `None` if they are the client's.
pub(super) fn target(exchange: &Exchange, proxy: &Proxy) -> Option<String> {
    let request = &exchange.request;
    if proxy.path == PathMode::Keep && proxy.query == QueryMode::Keep {
        return None;
    }
    let mut target = match &proxy.path {
        PathMode::Keep => request.path().to_owned(),
        PathMode::StripBase => below_base(exchange),
        PathMode::Template(parts) => fill(exchange, parts),
    };
    let query = request.query();
    match &proxy.query {
        QueryMode::Keep => {
            if let Some(query) = query {
                target.push('?');
                target.push_str(query);
            }
        }
        QueryMode::Drop => {}
        QueryMode::Edit { remove, set } => edit_query(&mut target, query, remove, set),
    }
    Some(target)
}

fn below_base(exchange: &Exchange) -> String {
    let mut below = String::new();
    for segment in exchange.view().segments_below_base() {
        below.push('/');
        below.push_str(segment);
    }
    if below.is_empty() {
        below.push('/');
    }
    below
}

pub(crate) fn fill(exchange: &Exchange, parts: &[PathPart]) -> String {
    let mut filled = String::new();
    for part in parts {
        match part {
            PathPart::Text(text) => filled.push_str(text),
            PathPart::Parameter(name) => filled.push_str(&exchange.view().raw_parameter(name)),
        }
    }
    if !filled.starts_with('/') {
        filled.insert(0, '/');
    }
    filled
}

fn edit_query(
    target: &mut String,
    query: Option<&str>,
    remove: &[String],
    set: &[(String, String)],
) {
    let mut before = '?';
    for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let name = path::decode_query(part.split('=').next().unwrap_or_default());
        let gone = remove.iter().chain(set.iter().map(|(name, _)| name)).any(|n| *n == *name);
        if !gone {
            target.push(before);
            target.push_str(part);
            before = '&';
        }
    }
    for (name, value) in set {
        target.push(before);
        path::encode(name, target);
        target.push('=');
        path::encode(value, target);
        before = '&';
    }
}
