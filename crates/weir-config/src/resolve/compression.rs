//! Response compression.

use super::Fields;
use crate::config::{Compression, ContentCoding};
use weir_document::shape::typed::{Defaulted, choices, integer, size};
use weir_document::shape::{Key, Kind, Shape};
use weir_model::Choice;

const COMPRESSION: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&COMPRESS)]);

pub(super) const COMPRESS_KEY: Key = Key::new(
    "compress",
    COMPRESSION,
    "Compression of responses: zstd, brotli or gzip, negotiated by Accept-Encoding.",
)
.default("false");

const MIN_SIZE: Defaulted<u64> =
    size("min_size", "Minimum size of a body to compress.").default("1KiB");
const LEVEL: Defaulted<u32> = integer(
    "level",
    (1, 9),
    "Compression level, on the scale of each coding; brotli is expensive above 4.",
)
.default("1");
const CODINGS: Defaulted<Vec<ContentCoding>> = choices(
    "codings",
    "Codings in order of preference. The client's preference decides first, the order second.",
)
.default("[zstd, br, gzip]");

/// `compress`.
pub(super) static COMPRESS: Shape = Shape::new(
    "compression",
    "Compression of responses by zstd, brotli or gzip, negotiated by Accept-Encoding. Small and already compressed bodies are left as they are.",
    &[MIN_SIZE.key, LEVEL.key, CODINGS.key],
);

impl Choice for ContentCoding {
    const CHOICES: &'static [(&'static str, Self)] = &[
        (Self::Zstd.name(), Self::Zstd),
        (Self::Br.name(), Self::Br),
        (Self::Gzip.name(), Self::Gzip),
    ];
}

/// No compression.
pub(super) fn off() -> Compression {
    from(&Fields::empty(&COMPRESS), false)
}

/// `compress` of an API or a route.
pub(super) fn compression(fields: &Fields<'_>) -> Option<Compression> {
    fields.get("compress")?;
    Some(match fields.object("compress", &COMPRESS) {
        Some(own) => from(&own, true),
        None => from(&Fields::empty(&COMPRESS), fields.bool("compress").unwrap_or(false)),
    })
}

fn from(fields: &Fields<'_>, enabled: bool) -> Compression {
    // Each coding once, in order.
    let mut codings = [None; 3];
    let mut free = 0;
    for coding in fields.read(&CODINGS) {
        if !codings.contains(&Some(coding)) {
            codings[free] = Some(coding);
            free += 1;
        }
    }
    Compression { enabled, min_size: fields.read(&MIN_SIZE), level: fields.read(&LEVEL), codings }
}
