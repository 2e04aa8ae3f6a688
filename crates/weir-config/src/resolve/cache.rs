//! The response cache.

use super::Fields;
use crate::config::{Cache, Credentials};
use weir_document::shape::typed::{Defaulted, choice, size};
use weir_document::shape::{Key, Kind, Shape, format};
use weir_model::Choice;

const SETTINGS: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&CACHE)]);

/// `cache` of an API or a route.
pub(super) const CACHE_KEY: Key = Key::new(
    "cache",
    SETTINGS,
    "Response cache (RFC 9111): responses to GET with a freshness lifetime are stored and served again. Each route has its own cache.",
)
.default("false");

const MEMORY: Defaulted<u64> =
    size("memory", "Maximum memory of stored responses, for all workers.").default("16MiB");
const ENTRY: Defaulted<u64> = size("entry", "Maximum size of a stored body.").default("1MiB");
const CREDENTIALS: Defaulted<Credentials> = choice("credentials", "Requests with a credential or a cookie: `none` bypasses the cache, `shared` serves the same responses to every authorized caller, `each` stores responses per caller.").default("none");

/// `cache` as a mapping.
pub(super) static CACHE: Shape = Shape {
    misspellings: &[
        ("size", "write `memory`"),
        ("max_size", "write `entry`"),
        ("max_age", "write `ttl`"),
    ],
    ..Shape::new(
        "a cache",
        "Response cache of a handler.",
        &[
            MEMORY.key,
            ENTRY.key,
            Key::new(
                "ttl",
                Kind::Format(format::POSITIVE_DURATION),
                "Freshness lifetime of responses without one of their own.",
            )
            .absent("they are not stored"),
            CREDENTIALS.key,
        ],
    )
};

impl Choice for Credentials {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("shared", Self::Shared), ("each", Self::Each)];
}

/// `cache` of an API or a route: `None` if it is absent, `Some(None)` if it is off.
pub(super) fn cache(fields: &Fields<'_>) -> Option<Option<Cache>> {
    fields.get("cache")?;
    if fields.bool("cache") == Some(false) {
        return Some(None);
    }
    let own = fields.object_or_empty("cache", &CACHE);
    Some(Some(Cache {
        memory: own.read(&MEMORY),
        entry: own.read(&ENTRY),
        ttl: own.duration("ttl"),
        credentials: own.read(&CREDENTIALS),
    }))
}
