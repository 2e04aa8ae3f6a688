//! The replay of a recorded request: its origin, its principal and its idempotency key.

use std::rc::Rc;
use weir_auth::Principal;
use weir_config::Resubmit;
use weir_http::headers::apply_edits;
use weir_wire::Headers;

/// What is known of a request that is made again, beside what is known of every request.
#[derive(Debug)]
pub struct Replay {
    /// The transaction that is sent again.
    pub of: [u8; 16],
    /// The recorded principal.
    pub principal: Rc<Principal>,
    /// The operation of the other route that it goes to.
    pub to: Option<String>,
    /// It is not as it was.
    pub edited: bool,
}

impl Replay {
    /// Marks the request for the upstream; `id` is that of this attempt.
    pub(crate) fn mark(&self, settings: &Resubmit, id: &str, headers: &mut Headers) {
        let of = uuid::Uuid::from_bytes(self.of).to_string();
        if settings.idempotency_key && headers.get("idempotency-key").is_none() {
            // Another request under the same key would be refused, so what was edited has its own,
            // and what goes elsewhere one for that route. A string of RFC 9651, as
            // draft-ietf-httpapi-idempotency-key-header has it.
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
