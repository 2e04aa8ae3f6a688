//! Resubmission of transactions.

use super::{Carrier, HeaderEdits};
use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Resubmission (replay) of recorded transactions.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Resubmit is "the resubmission" {
        /// Other routes of the same API, by their `op`, to which a transaction may be resubmitted.
        pub targets: Vec<String> =
            texts(Kind::OneOrMany(&Kind::Format(format::NAME))).absent("its own route only"),
        /// Header edits, applied last: for example credentials for the upstream, as recorded ones
        /// are never replayed.
        pub headers: HeaderEdits = section(),
        /// Send `Idempotency-Key` to the upstream: the same value in every attempt at a request,
        /// unless the request has the header itself.
        pub idempotency_key: bool = boolean().default("false"),
        /// Bill resubmitted calls like other calls.
        pub billed: bool = boolean().default("false"),
    },
    misspellings: &[
        ("target", "write `targets`"),
        ("auth", "write `headers: {set: {authorization: \"file:…\"}}`"),
        ("credentials", "write `headers: {set: {authorization: \"file:…\"}}`"),
    ],
}

/// Does not print values of headers, which may be secrets.
impl std::fmt::Debug for Resubmit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set: Vec<_> = self.headers.set.iter().map(|(name, _)| name).collect();
        f.debug_struct("Resubmit")
            .field("targets", &self.targets)
            .field("set", &set)
            .field("remove", &self.headers.remove)
            .field("idempotency_key", &self.idempotency_key)
            .field("billed", &self.billed)
            .finish()
    }
}

impl super::Config {
    /// Whether a header contains credentials: well-known ones, and those of an `auth`.
    #[must_use]
    pub fn is_credential_header(&self, name: &str) -> bool {
        const ALWAYS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
        ALWAYS.iter().any(|known| name.eq_ignore_ascii_case(known))
            || self.carriers().any(|carrier| match carrier {
                Carrier::Header(header) => name.eq_ignore_ascii_case(header),
                Carrier::Query(_) => false,
            })
    }

    /// Whether a query parameter (decoded name) contains credentials: those of an `auth`.
    #[must_use]
    pub fn is_credential_parameter(&self, name: &str) -> bool {
        self.carriers().any(|carrier| carrier == Carrier::Query(name))
    }

    fn carriers(&self) -> impl Iterator<Item = Carrier<'_>> {
        self.auths.iter().filter_map(|auth| auth.kind.carrier())
    }
}
