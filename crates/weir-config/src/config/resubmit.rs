//! How transactions are resubmitted.

use super::HeaderEdits;

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
