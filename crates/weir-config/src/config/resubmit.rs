//! How transactions are resubmitted.

use super::{ApiKeySource, AuthKind, HeaderEdits};

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
            || self.auths.iter().any(|auth| match &auth.kind {
                AuthKind::ApiKey(ApiKeySource::Header(key)) => name.eq_ignore_ascii_case(key),
                AuthKind::ApiKey(ApiKeySource::Query(_) | ApiKeySource::Basic)
                | AuthKind::Jwt(_)
                | AuthKind::Introspect(_)
                | AuthKind::Certificate(_) => false,
            })
    }

    /// Whether a query parameter, its name decoded, carries credentials: those an `auth` names.
    #[must_use]
    pub fn is_credential_parameter(&self, name: &str) -> bool {
        self.auths.iter().any(|auth| match &auth.kind {
            AuthKind::ApiKey(ApiKeySource::Query(key)) => name == key,
            AuthKind::ApiKey(ApiKeySource::Header(_) | ApiKeySource::Basic)
            | AuthKind::Jwt(_)
            | AuthKind::Introspect(_)
            | AuthKind::Certificate(_) => false,
        })
    }
}
