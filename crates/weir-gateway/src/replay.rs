//! The replay of a recorded request: its origin, its principal and its idempotency key.

use std::rc::Rc;
use weir_auth::Principal;
use weir_config::Resubmit;
use weir_http::headers::apply_edits;
use weir_wire::Headers;

/// Additional facts about a replayed request.
#[derive(Debug)]
pub struct Replay {
    /// The original transaction.
    pub of: [u8; 16],
    /// The recorded principal.
    pub principal: Rc<Principal>,
    /// The operation of the other route, if the request is sent to another one.
    pub to: Option<String>,
    /// The request was edited.
    pub edited: bool,
}

impl Replay {
    /// Marks the request for the upstream; `id` is the id of this attempt.
    pub(crate) fn mark(&self, settings: &Resubmit, id: &str, headers: &mut Headers) {
        let of = uuid::Uuid::from_bytes(self.of).to_string();
        if settings.idempotency_key && headers.get("idempotency-key").is_none() {
            // Servers reject another request with the same key, so an edited request has its own
            // key, and a request to another route a key for that route. The value is a string of
            // RFC 9651, as in draft-ietf-httpapi-idempotency-key-header.
            let mut key = format!("\"{}", if self.edited { id } else { &of });
            if let Some(to) = &self.to {
                key.push('/');
                key.push_str(to);
            }
            key.push('"');
            headers.push("idempotency-key", key.as_bytes());
        }
        apply_edits(headers, &settings.headers);
        headers.set("weir-resubmission-of", of.as_bytes());
    }
}
