//! The files that a segment may consist of.

/// A file of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Meta,
    Payload,
    Failed,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Meta, Self::Payload, Self::Failed];

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Payload => "payload",
            Self::Failed => "failed",
        }
    }
}

/// A set of files of a segment, as bits of the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(pub(crate) u8);

impl Parts {
    /// The segment as it was appended.
    pub(crate) const RAW: Self = Self(1);
    pub(crate) const META: Self = Self(2);
    pub(crate) const PAYLOAD: Self = Self(4);
    pub(crate) const FAILED: Self = Self(8);
    /// The segment existed and nothing in it could be read: damage, not a missing file.
    pub(crate) const UNREADABLE: Self = Self(16);
    /// Parts that are files.
    pub(crate) const FILES: Self = Self(15);

    pub(crate) fn of(part: Part) -> Self {
        match part {
            Part::Meta => Self::META,
            Part::Payload => Self::PAYLOAD,
            Part::Failed => Self::FAILED,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
