//! The request head for an upstream or an agent.

use crate::context::Context;
use weir_config::{HeaderEdits, PathPart};
use weir_http::forwarded::{self, Hop};
use weir_http::headers::{apply_edits, drop_underscored, strip_hop_by_hop};
use weir_record::client_request::ClientRequest;
use weir_wire::{Known, RequestHead};

/// Converts the client's headers to the upstream's, in place: removes hop-by-hop headers and those
/// with an underscore or a dot that are not in `passed`, applies the edits of route and handler,
/// and adds forwarding headers. The credential is added later by `headers::sign`.
pub(super) fn prepare(
    context: &Context<'_>,
    request: &mut RequestHead,
    edits: Option<&HeaderEdits>,
    passed: &[String],
) {
    let dropped = drop_underscored(&mut request.headers, passed);
    if dropped > 0 {
        context.worker.stats.dropped_headers.add(dropped);
    }
    strip_hop_by_hop(&mut request.headers, |known| {
        matches!(
            known,
            Known::Host | Known::Expect | Known::ContentLength | Known::WeirTransactionId
        )
    });
    let (authority, headers) = request.authority_and_headers();
    let hop = Hop {
        peer: context.arrival.peer.ip(),
        host: authority.as_bytes(),
        version: context.version,
    };
    forwarded::announce(headers, &hop, &context.arrival.client);
    context.announce_trace(headers);
    if context.route.response_map.is_some() {
        // Transformed bodies must not be encoded.
        headers.remove("accept-encoding");
    }
    apply_edits(headers, &context.route.request_headers);
    if let Some(edits) = edits {
        apply_edits(headers, edits);
    }
    if let Some(replay) = &context.arrival.replay {
        replay.mark(&context.route.resubmit, context.arrival.id.as_str(), headers);
    }
    headers.push_known(Known::WeirTransactionId, context.arrival.id.as_bytes());
}

/// Builds a path from the parameters of the request.
pub(super) fn fill(request: &ClientRequest<'_>, parts: &[PathPart]) -> String {
    let mut filled = String::new();
    for part in parts {
        match part {
            PathPart::Text(text) => filled.push_str(text),
            PathPart::Parameter(name) => filled.push_str(&request.raw_parameter(name)),
        }
    }
    if !filled.starts_with('/') {
        filled.insert(0, '/');
    }
    filled
}
