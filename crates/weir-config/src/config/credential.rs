//! The credential that weir presents to an upstream.

use weir_document::settings;
use weir_document::shape::{Group, Kind, format};

settings! {
    /// The credential: exactly one of these.
    pub(crate) static CREDENTIAL is "the credential of an upstream" {
        /// HTTP Basic.
        basic = by_hand(Kind::Object(&BASIC)),
        /// Token in `Authorization: Bearer`.
        bearer = by_hand(Kind::Secret),
        /// A custom header.
        header = by_hand(Kind::Object(&CREDENTIAL_HEADER)),
    },
    groups: &[Group { keys: &["basic", "bearer", "header"], required: true }],
}

settings! {
    /// HTTP Basic (RFC 7617).
    pub(crate) static BASIC is "an HTTP Basic credential" {
        /// User name, without a colon.
        user = by_hand(Kind::Text).required(),
        /// Password.
        password = by_hand(Kind::Secret).required(),
    }
}

settings! {
    /// A header that carries the credential.
    pub(crate) static CREDENTIAL_HEADER is "a credential header" {
        /// Name of the header.
        name = by_hand(Kind::Format(format::EDITABLE_HEADER)).required(),
        /// Value of the header.
        value = by_hand(Kind::Secret).required(),
    }
}

/// A header with weir's own credential at the upstream; replaces that of the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Lower-case header name (`authorization` for basic and bearer).
    pub header: String,
    /// The entire value (`Basic …`, `Bearer …`, or as written).
    pub value: String,
}

impl std::fmt::Debug for Credential {
    /// Does not print the value, so that credentials do not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}
