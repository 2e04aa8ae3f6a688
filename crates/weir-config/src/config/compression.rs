//! Response compression.

use strum::{AsRefStr, EnumString, VariantNames};
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::Kind;
use weir_document::shape::settings::{choice_of, items};

settings! {
    /// Compression of responses by zstd, brotli or gzip, negotiated by Accept-Encoding. Small and
    /// already compressed bodies are left as they are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Compression is "compression" {
        /// Minimum size of a body to compress.
        pub min_size: u64 = size().default("1KiB"),
        /// Compression level, on the scale of each coding; brotli is expensive above 4.
        pub level: u32 = integer(1, 9).default("1"),
        /// Codings in order of preference. The client's preference decides first, the order second.
        pub codings: [Option<ContentCoding>; 3] =
            value(CODINGS, codings).default("[zstd, br, gzip]"),
    } given {
        /// Whether compression is on.
        pub enabled: bool,
    }
}

const CODINGS: Kind = Kind::OneOrMany(&Kind::Enum(ContentCoding::VARIANTS));

/// Each coding once, in order.
fn codings(node: &Node) -> Option<[Option<ContentCoding>; 3]> {
    let mut codings = [None; 3];
    let mut free = 0;
    for coding in items(node).iter().filter_map(choice_of) {
        if !codings.contains(&Some(coding)) {
            codings[free] = Some(coding);
            free += 1;
        }
    }
    Some(codings)
}

/// A content coding (RFC 9110 section 8.4.1) for responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, AsRefStr, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ContentCoding {
    /// `zstd` (RFC 8878).
    Zstd,
    /// `br` (RFC 7932).
    Br,
    /// `gzip` (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All codings, the one with the best ratio of density to cost first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Br, Self::Gzip];
}
