//! Host and target of the request to an upstream.

use crate::handler::head::fill;
use weir_config::{HostMode, PathMode, Proxy, QueryMode};
use weir_http::path;
use weir_record::client_request::ClientRequest;

/// The host for every target, unless it is the target's own authority. `client` is the authority of
/// the client's request.
pub(super) fn host<'e>(client: &'e str, proxy: &'e Proxy) -> Option<&'e str> {
    match &proxy.host {
        HostMode::Upstream => None,
        HostMode::Client => Some(client).filter(|authority| !authority.is_empty()),
        HostMode::Fixed(host) => Some(host),
    }
}

/// Path and query for the upstream; `None` if they are the client's.
pub(super) fn target(request: &ClientRequest<'_>, proxy: &Proxy) -> Option<String> {
    if proxy.path == PathMode::Keep && proxy.query == QueryMode::Keep {
        return None;
    }
    let mut target = match &proxy.path {
        PathMode::Keep => request.head.path().to_owned(),
        PathMode::StripBase => below_base(request),
        PathMode::Template(parts) => fill(request, parts),
    };
    let query = request.head.query();
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

fn below_base(request: &ClientRequest<'_>) -> String {
    let mut below = String::new();
    for segment in request.segments_below_base() {
        below.push('/');
        below.push_str(segment);
    }
    if below.is_empty() {
        below.push('/');
    }
    below
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
