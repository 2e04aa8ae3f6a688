//! The response cache of a route.

use std::time::Duration;

/// Which answers are stored, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Most memory that stored answers take, all workers together.
    pub memory: u64,
    /// Largest body that is stored.
    pub entry: u64,
    /// How long an answer is fresh that does not say so itself; `None`: it is not stored.
    pub ttl: Option<Duration>,
    /// What becomes of requests with credentials.
    pub credentials: Credentials,
}

/// What becomes of requests with credentials, or with cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Credentials {
    /// They have nothing to do with stored answers.
    #[default]
    None,
    /// Whoever is let in gets the same answer.
    Shared,
    /// Each caller has answers of its own.
    Each,
}
