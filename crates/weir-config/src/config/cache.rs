//! The response cache of a route.

use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::settings;

settings! {
    /// Response cache of a handler.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cache is "a cache" {
        /// Maximum memory of stored responses, for all workers.
        pub memory: u64 = size().default("16MiB"),
        /// Maximum size of a stored body.
        pub entry: u64 = size().default("1MiB"),
        /// Freshness lifetime of responses without one of their own.
        pub ttl: Option<Duration> = positive().absent("they are not stored"),
        /// Requests with a credential or a cookie: `none` bypasses the cache, `shared` serves the
        /// same responses to every authorized caller, `each` stores responses per caller.
        pub credentials: Credentials = choice().default("none"),
    },
    misspellings: &[
        ("size", "write `memory`"),
        ("max_size", "write `entry`"),
        ("max_age", "write `ttl`"),
    ],
}

/// Caching of requests with credentials or cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Credentials {
    /// They bypass the cache.
    #[default]
    None,
    /// All authorized callers share the responses.
    Shared,
    /// Responses are stored per caller.
    Each,
}
