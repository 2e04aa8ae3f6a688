//! Resubmission of transactions.

use super::{Carrier, HeaderEdits};

/// Resubmission of the transactions of a route.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Resubmit {
    /// Other operations of the same API to which a transaction may be sent.
    pub targets: Vec<String>,
    /// Header edits, applied last: for example credentials for the upstream, as recorded ones are
    /// never replayed.
    pub headers: HeaderEdits,
    /// Whether to send an `Idempotency-Key` to the upstream, the same for every attempt at a
    /// request.
    pub idempotency_key: bool,
    /// Whether resubmitted calls are billed.
    pub billed: bool,
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
