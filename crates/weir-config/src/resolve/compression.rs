//! Response compression.

use super::Fields;
use crate::config::{Compression, ContentCoding};
use weir_document::shape::typed::{Choice, Defaulted, choices, integer, size};
use weir_document::shape::{Key, Kind, Shape};

const COMPRESSION: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&COMPRESS)]);

pub(super) const COMPRESS_KEY: Key =
    Key::new("compress", COMPRESSION, "zstd, brotli or gzip, as the client wants.")
        .default("false");

const MIN_SIZE: Defaulted<u64> =
    size("min_size", "Smallest body that is worth it.").default("1KiB");
const LEVEL: Defaulted<u32> =
    integer("level", (1, 9), "Level, as each coding understands it; brotli is dear above 4.")
        .default("1");
const CODINGS: Defaulted<Vec<ContentCoding>> = choices(
    "codings",
    "Codings on offer; a client gets the one it wants most, of those it wants alike the first.",
)
.default("[zstd, br, gzip]");

/// `compress`.
pub(super) static COMPRESS: Shape = Shape::new(
    "compression",
    "zstd, brotli or gzip, as the client wants, where the answer is neither small nor compressed already.",
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
    // Each once, in their order.
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
