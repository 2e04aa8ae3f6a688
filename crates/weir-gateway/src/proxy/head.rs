//! The request head that an upstream gets.

use crate::console_cookie;
use crate::exchange::Exchange;
use crate::forwarded::{self, Hop};
use crate::headers::{apply_edits, drop_underscored, strip_hop_by_hop};
use crate::outgoing::Outgoing;
use crate::path;
use crate::trace_context::TraceContext;
use std::borrow::Cow;
use weir_config::{Credential, HeaderEdits, HostMode, PathMode, PathPart, Proxy, QueryMode, Route};
use weir_wire::{Framing, Headers, Known, ResponseHead, encode};

/// Turns the client's headers into the upstream's, in place: hop-by-hop ones go and those with an
/// underscore or a dot that are not in `passed`, the edits of route and handler are made, the way so far is
/// told. What is left is to [`sign`] them.
pub(crate) fn prepare(
    exchange: &mut Exchange,
    route: &Route,
    edits: Option<&HeaderEdits>,
    passed: &[String],
) {
    let version = exchange.version_name();
    let dropped = drop_underscored(&mut exchange.request.headers, passed);
    if dropped > 0 && exchange.trace.is_none() {
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
        // What is mapped must be readable.
        request.headers.remove("accept-encoding");
    }
    apply_edits(&mut request.headers, &route.request_headers);
    if let Some(edits) = edits {
        apply_edits(&mut request.headers, edits);
    }
    if let Some(again) = &exchange.resubmission {
        again.mark(&route.resubmit, exchange.id.as_str(), &mut request.headers);
    }
    request.headers.push_known(Known::WeirTransactionId, exchange.id.as_bytes());
}

/// A try is about to be sent: if the request is traced, its upstream is told a span of its own.
pub(super) fn announce_try(exchange: &mut Exchange, proxy: &Proxy) {
    if let Some(span) = exchange.span.clone() {
        let target = target(exchange, proxy).into_owned();
        span.announce_try(&target, &mut exchange.request.headers);
    }
}

/// Puts in the credential of weir's own, in place of what the client sent.
pub(super) fn sign(headers: &mut Headers, credential: Option<&Credential>) {
    if let Some(credential) = credential {
        headers.set(&credential.header, credential.value.as_bytes());
    }
}

/// How a request goes to its upstream.
#[derive(Clone, Copy)]
pub(super) struct Way<'p> {
    pub(super) proxy: &'p Proxy,
    /// The protocol that its connection may become.
    pub(super) upgrade: Option<&'p str>,
    /// What a try beside another one tells of itself, if the request is traced.
    pub(super) beside: Option<&'p TraceContext>,
}

/// Writes the head for one target.
pub(super) fn encode(
    exchange: &Exchange,
    Way { proxy, upgrade, beside }: Way<'_>,
    authority: &str,
    framing: Framing,
) -> Outgoing {
    let request = &exchange.request;
    let mut out = Outgoing::default();
    let head = out.head();
    encode::request_line(head, request.method_name(), &target(exchange, proxy));
    encode::field(head, "host", self::authority(exchange, proxy, authority).as_bytes());
    if let Some(protocol) = upgrade {
        encode::field(head, "connection", b"upgrade");
        encode::field(head, "upgrade", protocol.as_bytes());
    }
    let told = request.headers.known(Known::Traceparent);
    match beside.filter(|own| own.replaces(told)) {
        None => finish(head, &request.headers, framing),
        Some(own) => {
            let mut headers = request.headers.clone();
            headers.set("traceparent", own.as_str().as_bytes());
            finish(head, &headers, framing);
        }
    }
    out
}

/// The host that a target is asked for.
pub(super) fn authority<'e>(
    exchange: &'e Exchange,
    proxy: &'e Proxy,
    of_target: &'e str,
) -> &'e str {
    host(exchange, proxy).unwrap_or(of_target)
}

/// The host that every target is asked for, if it is not its own.
pub(super) fn host<'e>(exchange: &'e Exchange, proxy: &'e Proxy) -> Option<&'e str> {
    match &proxy.host {
        HostMode::Upstream => None,
        HostMode::Client => {
            Some(exchange.request.authority()).filter(|authority| !authority.is_empty())
        }
        HostMode::Fixed(host) => Some(host),
    }
}

/// Writes the client's headers, what frames the body, and the end of the head.
pub(crate) fn finish(head: &mut Vec<u8>, headers: &Headers, framing: Framing) {
    encode::fields(head, headers);
    match framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(length) => encode::content_length(head, length),
        Framing::Chunked => encode::field(head, "transfer-encoding", b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
}

/// Most bytes of interim answers that a client is given for one request: they have to fit into
/// the buffer of its socket.
const INTERIM_BYTES: usize = 16 * 1024;

/// Writes an interim answer for the client.
pub(super) fn pass_interim(response: &mut ResponseHead, out: &mut Vec<u8>) {
    strip_hop_by_hop(&mut response.headers, |known| {
        matches!(known, Known::WeirTransactionId | Known::ContentLength)
    });
    console_cookie::strip_response(&mut response.headers);
    let before = out.len();
    encode::status_line(out, response.status);
    encode::fields(out, &response.headers);
    out.extend_from_slice(b"\r\n");
    if out.len() > INTERIM_BYTES {
        out.truncate(before);
    }
}

/// Path and query for the upstream.
pub(super) fn target<'e>(exchange: &'e Exchange, proxy: &Proxy) -> Cow<'e, str> {
    let request = &exchange.request;
    if proxy.path == PathMode::Keep && proxy.query == QueryMode::Keep {
        return Cow::Borrowed(request.target());
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
    Cow::Owned(target)
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
