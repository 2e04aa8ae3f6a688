//! Response compression.

use super::Fields;
use crate::config::Compression;
use weir_document::shape::{Key, Kind};

pub(super) const COMPRESS_KEY: Key = Key::new(
    "compress",
    Kind::Either(&[Kind::Bool, Kind::Object(Compression::SHAPE)]),
    "Compression of responses: zstd, brotli or gzip, negotiated by Accept-Encoding.",
)
.default("false");

/// No compression.
pub(super) fn off() -> Compression {
    Compression::read(&Fields::empty(Compression::SHAPE), false)
}

/// `compress` of an API or a route.
pub(super) fn compression(fields: &Fields<'_>) -> Option<Compression> {
    fields.get("compress")?;
    let own = fields.object_or_empty("compress", Compression::SHAPE);
    Some(Compression::read(&own, fields.bool("compress").unwrap_or(true)))
}
