//! The response cache of a route.

use std::time::Duration;

/// Settings of a response cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Maximum memory of stored responses, for all workers.
    pub memory: u64,
    /// Maximum size of a stored body.
    pub entry: u64,
    /// Freshness lifetime of responses without one of their own; `None`: they are not stored.
    pub ttl: Option<Duration>,
    /// Requests with credentials.
    pub credentials: Credentials,
}

/// Caching of requests with credentials or cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Credentials {
    /// They bypass the cache.
    #[default]
    None,
    /// All authorized callers share the responses.
    Shared,
    /// Responses are stored per caller.
    Each,
}
