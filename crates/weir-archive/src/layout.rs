//! Names and contents of objects.
//!
//! Below the prefix, each node has a folder; its name is the identity of the node:
//!
//! | object | content |
//! |---|---|
//! | `NODE/node.json` | version of the layout, display name, number of lanes |
//! | `NODE/manifests/LAST_FIRST_LANE-SEGMENT.json` | the objects of a segment; in the name the times at which its last and first transaction were received (UTC) |
//! | `NODE/files/LANE-SEGMENT-HASH.meta`, `.payload`, `.failed` | the files of the sealed segment |
//! | `NODE/files/LANE-SEGMENT-HASH.columns`, `.terms` | the files of parts of the index of this segment |
//! | `NODE/gaps/TIME_LANE-FROM-TO.json` | transactions that the journal dropped before they were uploaded |
//!
//! `HASH` is the begin of the SHA-256 of the content, so that a name always has the same content.
//! Manifests are written last and deleted last. They sort by the time of the last transaction: a listing
//! from a time on has everything that a search from there on needs.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use weir_tracker::PartHead;

/// Version of the layout.
pub(crate) const VERSION: u32 = 1;
/// Format of times in names; they sort as text.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S%.6f";
/// Digits of a hash in the name of an object.
const HASH_DIGITS: usize = 16;

/// `node.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeInfo {
    pub(crate) version: u32,
    /// Display name; may be empty.
    pub(crate) name: String,
    /// Number of lanes: all manifests have lower ones.
    pub(crate) lanes: u16,
}

/// An object that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// Name in the folder `files`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// SHA-256 in hexadecimal.
    pub(crate) sha256: String,
}

impl FileEntry {
    pub(crate) fn new(segment: (u16, u32), extension: &str, bytes: u64, sha256: String) -> Self {
        let (lane, number) = segment;
        let hash = sha256.get(..HASH_DIGITS).unwrap_or(&sha256);
        Self { name: format!("{lane:04}-{number:010}-{hash}.{extension}"), bytes, sha256 }
    }

    /// The kind of its content.
    pub(crate) fn extension(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// A part of the index of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartEntry {
    pub(crate) head: PartHead,
    pub(crate) columns: FileEntry,
    pub(crate) terms: FileEntry,
}

/// The objects of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    pub(crate) lane: u16,
    pub(crate) segment: u32,
    /// Transactions, without count-only ones.
    pub(crate) transactions: u64,
    /// Those whose headers and bodies the journal had deleted before.
    pub(crate) expired: u64,
    /// Times at which the first and the last were received, in microseconds since 1970.
    pub(crate) times: (u64, u64),
    /// The files of the segment.
    pub(crate) files: Vec<FileEntry>,
    pub(crate) parts: Vec<PartEntry>,
}

impl Manifest {
    /// Name of its object in the folder `manifests`.
    pub(crate) fn name(&self) -> String {
        let (first, last) = self.times;
        let (lane, number) = (self.lane, self.segment);
        format!("{}_{}_{lane:04}-{number:010}.json", time_text(last), time_text(first))
    }

    /// All objects that it names.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &FileEntry> {
        let of_parts = self.parts.iter().flat_map(|part| [&part.columns, &part.terms]);
        self.files.iter().chain(of_parts)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.all_files().map(|file| file.bytes).sum()
    }
}

/// Times of the first and the last transaction in the name of a manifest.
pub(crate) fn times_of(name: &str) -> Option<(u64, u64)> {
    let mut fields = name.split('_');
    let (last, first) = (fields.next()?, fields.next()?);
    Some((time_of(first)?, time_of(last)?))
}

/// Transactions that were not uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gap {
    pub(crate) lane: u16,
    /// First and last segment.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Number of transactions.
    pub(crate) records: u64,
    /// The number is an upper bound.
    pub(crate) at_most: bool,
    /// When the gap was found, in microseconds since 1970.
    pub(crate) time: u64,
}

impl Gap {
    /// Name of its object in the folder `gaps`.
    pub(crate) fn name(&self) -> String {
        let Self { lane, from, to, time, .. } = self;
        format!("{}_{lane:04}-{from:010}-{to:010}.json", time_text(*time))
    }
}

/// A time in microseconds since 1970, as in names.
pub(crate) fn time_text(time: u64) -> String {
    let time = i64::try_from(time).ok().and_then(|time| Timestamp::from_microsecond(time).ok());
    time.unwrap_or(Timestamp::MAX).strftime(TIME_FORMAT).to_string()
}

fn time_of(text: &str) -> Option<u64> {
    let time = DateTime::strptime("%Y%m%dT%H%M%S%.f", text).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    u64::try_from(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_manifests_sort_by_the_last_time_and_have_both() {
        let manifest = |times| Manifest {
            version: VERSION,
            lane: 3,
            segment: 7,
            transactions: 1,
            expired: 0,
            times,
            files: Vec::new(),
            parts: Vec::new(),
        };
        let name = manifest((1_795_719_925_000_001, 1_795_719_926_123_456)).name();
        assert_eq!(name, "20261126T190526.123456_20261126T190525.000001_0003-0000000007.json");
        assert_eq!(times_of(&name), Some((1_795_719_925_000_001, 1_795_719_926_123_456)));
        assert!(manifest((0, 5)).name() < manifest((0, 1_000_000)).name());
        assert_eq!(times_of("x"), None);
    }
}
