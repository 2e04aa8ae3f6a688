//! The response cache.

use super::Fields;
use crate::config::Cache;
use weir_document::shape::{Key, Kind};

/// `cache` of an API or a route.
pub(super) const CACHE_KEY: Key = Key::new(
    "cache",
    Kind::Either(&[Kind::Bool, Kind::Object(Cache::SHAPE)]),
    "Response cache (RFC 9111): responses to GET with a freshness lifetime are stored and served again. Each route has its own cache.",
)
.default("false");

/// `cache` of an API or a route: `None` if it is absent, `Some(None)` if it is off.
pub(super) fn cache(fields: &Fields<'_>) -> Option<Option<Cache>> {
    fields.get("cache")?;
    let is_on = fields.bool("cache").unwrap_or(true);
    Some(is_on.then(|| Cache::read(&fields.object_or_empty("cache", Cache::SHAPE))))
}
