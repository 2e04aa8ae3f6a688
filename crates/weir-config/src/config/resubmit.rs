//! How transactions are resubmitted.

use super::{Carrier, HeaderEdits};

/// How transactions of a route are resubmitted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Resubmit {
    /// Operations of the same API that a transaction may be sent to instead of its own.
    pub targets: Vec<String>,
    /// What the upstream gets in the place of credentials, which are never replayed. The last
    /// edits that are made.
    pub headers: HeaderEdits,
    /// The upstream gets an `Idempotency-Key`, the same for every attempt at the same request.
    pub idempotency_key: bool,
    /// It counts as a call that is billed.
    pub billed: bool,
}

/// Without values of headers: they may be secrets.
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
    /// Whether a header carries credentials: those that always do, and those an `auth` names.
    #[must_use]
    pub fn is_credential_header(&self, name: &str) -> bool {
        const ALWAYS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
        ALWAYS.iter().any(|known| name.eq_ignore_ascii_case(known))
            || self.carriers().any(|carrier| match carrier {
                Carrier::Header(header) => name.eq_ignore_ascii_case(header),
                Carrier::Query(_) => false,
            })
    }

    /// Whether a query parameter, its name decoded, carries credentials: those an `auth` names.
    #[must_use]
    pub fn is_credential_parameter(&self, name: &str) -> bool {
        self.carriers().any(|carrier| carrier == Carrier::Query(name))
    }

    fn carriers(&self) -> impl Iterator<Item = Carrier<'_>> {
        self.auths.iter().filter_map(|auth| auth.kind.carrier())
    }
}
