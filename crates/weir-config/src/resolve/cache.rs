//! The response cache.

use super::Fields;
use crate::config::{Cache, Credentials};
use weir_document::shape::typed::{Choice, Defaulted, choice, size};
use weir_document::shape::{Key, Kind, Shape, format};

const SETTINGS: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&CACHE)]);

/// `cache` of an API or a route.
pub(super) const CACHE_KEY: Key = Key::new(
    "cache",
    SETTINGS,
    "Answers to GET that say how long they are fresh are stored and given again (RFC 9111). Each route has a store of its own.",
)
.default("false");

const MEMORY: Defaulted<u64> =
    size("memory", "Most memory that stored answers take, all workers together.").default("16MiB");
const ENTRY: Defaulted<u64> = size("entry", "Largest body that is stored.").default("1MiB");
const CREDENTIALS: Defaulted<Credentials> = choice("credentials", "Requests with a credential or a cookie: `none` has nothing to do with stored answers, `shared` gives whoever is let in the same, `each` keeps those of each caller apart.").default("none");

/// `cache` written out.
pub(super) static CACHE: Shape = Shape {
    slips: &[("size", "write `memory`"), ("max_size", "write `entry`"), ("max_age", "write `ttl`")],
    ..Shape::new(
        "a cache",
        "Stored answers of a handler.",
        &[
            MEMORY.key,
            ENTRY.key,
            Key::new(
                "ttl",
                Kind::Format(format::POSITIVE_DURATION),
                "How long an answer is fresh that does not say so itself.",
            )
            .absent("it is not stored"),
            CREDENTIALS.key,
        ],
    )
};

impl Choice for Credentials {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("shared", Self::Shared), ("each", Self::Each)];
}

/// `cache` of an API or a route: `None` if nothing is said, `Some(None)` if there is to be none.
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
