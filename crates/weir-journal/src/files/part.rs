//! The files that a segment may consist of.

use bitflags::bitflags;

/// A file of a sealed segment; its name is the extension of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Part {
    Meta,
    Payload,
    Failed,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Meta, Self::Payload, Self::Failed];

    pub(crate) fn extension(self) -> &'static str {
        self.into()
    }
}

bitflags! {
    /// A set of files of a segment, as bits of the manifest.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Parts: u8 {
        /// The segment as it was appended.
        const RAW = 1;
        const META = 2;
        const PAYLOAD = 4;
        const FAILED = 8;
        /// The segment existed and nothing in it could be read: damage, not a missing file.
        const UNREADABLE = 16;
        /// Parts that are files.
        const FILES = 15;
    }
}

impl From<Part> for Parts {
    fn from(part: Part) -> Self {
        match part {
            Part::Meta => Self::META,
            Part::Payload => Self::PAYLOAD,
            Part::Failed => Self::FAILED,
        }
    }
}
