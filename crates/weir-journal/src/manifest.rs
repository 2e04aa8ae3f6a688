//! Which segments each lane should have, and in which files, to detect files that were deleted from
//! outside.
//!
//! The manifest is in its own folder `journal-manifest` beside the journal, as the whole journal
//! may be lost:
//!
//! - `segments`, one entry for each segment: lane `u16`, existing parts `u8` and missing parts `u8`
//!   (bits as in [`Parts`]), number `u32`, transactions `u32`, missing parts that are accepted
//!   `u8`, zeros (3), sequence number of the first transaction `u64`, time at which the parts were
//!   found missing `u64`, in µs since 1970; little-endian. At the end the CRC-32 of everything. An
//!   entry is durable before weir drops a file, so that the file does not count as missing.
//! - `ends`, likewise: for each lane the position `u64` of its end and the next sequence number
//!   `u64`, about a second old.
//!
//! A manifest that cannot be updated is removed: no file counts as missing then. Damaged `segments`
//! are kept as `segments.damaged-SECONDS`, and reported.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::catalog::{Catalog, Segments};
use crate::failpoint::Faults;
use crate::files::{Part, Parts};
use crate::format::{Position, u32_at, u64_at};
use crate::lane_state::LaneState;
use crate::os::atomic_file::{
    create_folder, if_exists, quarantine, replace, replace_durably, verified, with_checksum,
};
use crate::os::unix_time;
use crate::segment;

/// Name of the manifest's folder.
const FOLDER_NAME: &str = "journal-manifest";
/// Length of an entry of `segments`, and of `ends`.
const ENTRY_BYTES: usize = 32;
const END_BYTES: usize = 16;
/// Minimum time for which missing files are remembered.
const MISSING_RETENTION: Duration = Duration::from_secs(100 * 24 * 60 * 60);

/// An entry of `segments`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SegmentEntry {
    parts: Parts,
    missing: Parts,
    /// Missing parts that a user has accepted.
    accepted: Parts,
    transactions: u32,
    first_sequence: u64,
    missing_since_us: u64,
}

/// A missing file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingFile {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// `segment`, `meta`, `payload` or `failed`.
    pub kind: String,
    /// Minimum number of its transactions; for `payload` and `failed`, the number of the segment.
    pub transactions: u64,
    /// The file was not missing at an earlier start.
    #[serde(skip)]
    pub new: bool,
    /// The loss was accepted with `weir repair --accept-missing`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

impl std::fmt::Display for MissingFile {
    /// Its path in the journal, and the number of transactions in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lane, segment, kind, transactions, .. } = self;
        write!(f, "lane-{lane:04}/{segment:010}.{kind} ({transactions} transactions)")
    }
}

/// LaneEnd of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneEnd {
    pub(crate) position: Position,
    pub(crate) next_sequence: u64,
}

impl LaneEnd {
    /// Number of the first segment that was certainly not started.
    pub(crate) fn next_segment(self) -> u32 {
        self.position.segment() + u32::from(self.position.offset() > 0)
    }
}

#[derive(Debug, Default)]
struct Contents {
    /// By lane and number.
    segments: BTreeMap<(u16, u32), SegmentEntry>,
    ends: Vec<LaneEnd>,
    /// The content of both files as written last.
    written: [Vec<u8>; 2],
}

/// The manifest of a data folder.
#[derive(Debug)]
pub(crate) struct Manifest {
    folder: PathBuf,
    faults: Faults,
    contents: Mutex<Contents>,
}

impl Manifest {
    /// Reads the manifest. A missing or damaged file has no entries; damaged `segments` are kept
    /// under another name.
    pub(crate) fn open(data: &Path, faults: Faults, damaged: &mut Vec<String>) -> io::Result<Self> {
        let folder = data.join(FOLDER_NAME);
        create_folder(&folder)?;
        let path = folder.join("segments");
        let segments = read(&path, ENTRY_BYTES)?.unwrap_or_else(|| {
            let now = quarantine(&path)
                .map(|kept| format!("; the damaged file is {} now", kept.display()))
                .unwrap_or_default();
            damaged.push(format!(
                "the manifest {} is damaged: files that are missing by now go unnoticed, and those \
                 known to be missing are forgotten{now}",
                path.display(),
            ));
            Vec::new()
        });
        // Not durable: after a loss of power the file may hold anything.
        let ends = read(&folder.join("ends"), END_BYTES)?.unwrap_or_default();
        let mut contents = Contents::default();
        for entry in segments.chunks_exact(ENTRY_BYTES) {
            let lane = u16::from_le_bytes([entry[0], entry[1]]);
            let known = SegmentEntry {
                parts: Parts::from_bits_retain(entry[2]),
                missing: Parts::from_bits_retain(entry[3]),
                accepted: Parts::from_bits_retain(entry[12]),
                transactions: u32_at(entry, 8),
                first_sequence: u64_at(entry, 16),
                missing_since_us: u64_at(entry, 24),
            };
            contents.segments.insert((lane, u32_at(entry, 4)), known);
        }
        let end = |entry: &[u8]| LaneEnd {
            position: Position::from_bits(u64_at(entry, 0)),
            next_sequence: u64_at(entry, 8),
        };
        contents.ends = ends.chunks_exact(END_BYTES).map(end).collect();
        Ok(Self { folder, faults, contents: Mutex::new(contents) })
    }

    /// One more than the index of the last known lane.
    pub(crate) fn lanes(&self) -> u16 {
        let contents = self.contents.lock();
        contents.segments.last_key_value().map_or(0, |((lane, _), _)| lane.saturating_add(1))
    }

    /// LaneEnd of a lane, about a second before it was last written to.
    pub(crate) fn end(&self, lane: u16) -> LaneEnd {
        self.contents.lock().ends.get(usize::from(lane)).copied().unwrap_or_default()
    }

    /// The entries of a lane.
    fn entries(&self, lane: u16) -> BTreeMap<u32, SegmentEntry> {
        let contents = self.contents.lock();
        let range = contents.segments.range((lane, 0)..=(lane, u32::MAX));
        range.map(|((_, number), entry)| (*number, *entry)).collect()
    }

    /// The files that each segment of a lane had.
    pub(crate) fn known_parts(&self, lane: u16) -> BTreeMap<u32, Parts> {
        let entries = self.entries(lane).into_iter();
        entries.map(|(number, entry)| (number, entry.parts | entry.missing)).collect()
    }

    /// Compares the entries of a lane with its files, and stores the missing ones in its catalog.
    pub(crate) fn compare(&self, catalog: &Catalog, found: &mut Vec<MissingFile>) {
        let lane = catalog.files.lane;
        let known = self.entries(lane);
        let mut segments = catalog.segments.write();
        let mut contents = self.contents.lock();
        let now_us = u64::try_from(unix_time().as_micros()).unwrap_or(u64::MAX);
        let old_us =
            u64::try_from(unix_time().saturating_sub(MISSING_RETENTION).as_micros()).unwrap_or(0);
        for (number, entry) in &known {
            let before = entry.missing;
            if !before.is_empty() && entry.missing_since_us <= old_us {
                continue;
            }
            let missing = missing(entry, *number, &segments);
            if let Some(entry) = contents.segments.get_mut(&(lane, *number)) {
                entry.missing = missing;
                // A file that was restored and is lost again has to be accepted again.
                entry.accepted &= missing;
                if !missing.is_empty() && before != missing {
                    entry.missing_since_us = now_us;
                }
            }
            if missing.is_empty() {
                continue;
            }
            segments.missing.insert(*number, missing);
            found.extend(missing_files(&contents, (lane, *number), before));
        }
    }

    /// Accepts all missing files. Returns those that were not accepted before.
    ///
    /// # Errors
    /// The manifest cannot be written; nothing is accepted then.
    pub(crate) fn accept(&self) -> io::Result<Vec<MissingFile>> {
        let mut contents = self.contents.lock();
        let mut found = Vec::new();
        let mut accepted = contents.segments.clone();
        for (key, entry) in &mut accepted {
            let files = missing_files(&contents, *key, entry.missing).filter(|file| !file.accepted);
            found.extend(files);
            entry.accepted = entry.missing & Parts::FILES;
        }
        if found.is_empty() {
            return Ok(found);
        }
        let bytes = encode(&accepted);
        self.faults.check("manifest.write")?;
        replace_durably(&self.folder.join("segments"), &with_checksum(bytes.clone()))?;
        contents.segments = accepted;
        contents.written[0] = bytes;
        Ok(found)
    }

    /// Writes the current files durably, as if the files of `dropped` did not exist.
    ///
    /// # Errors
    /// The manifest can be neither written nor removed.
    pub(crate) fn update(
        &self,
        lanes: &[LaneState],
        dropped: Option<(u16, u32, Option<Part>)>,
    ) -> io::Result<()> {
        let mut contents = self.contents.lock();
        let old_us = unix_time().saturating_sub(MISSING_RETENTION).as_micros();
        let mut segments = BTreeMap::new();
        for ((lane, number), entry) in &contents.segments {
            let stays = !entry.missing.is_empty() && u128::from(entry.missing_since_us) > old_us;
            if stays {
                let parts = Parts::default();
                segments.insert((*lane, *number), SegmentEntry { parts, ..*entry });
            }
        }
        for LaneState { catalog, shared } in lanes {
            let (state, end) = (catalog.segments.read(), shared.end());
            for number in &state.raw {
                let started =
                    *number < end.segment() || *number == end.segment() && end.offset() > 0;
                if !started || state.sealed.contains_key(number) {
                    continue;
                }
                let key = (catalog.files.lane, *number);
                let first_sequence = match contents.segments.get(&key) {
                    Some(known) if known.first_sequence > 0 => known.first_sequence,
                    _ => segment::first_sequence(&catalog.files, std::iter::once(*number))
                        .unwrap_or_default()
                        .unwrap_or_default(),
                };
                let parts = Parts::RAW;
                segments
                    .insert(key, SegmentEntry { parts, first_sequence, ..SegmentEntry::default() });
            }
            for (number, summary) in &state.sealed {
                let entry = segments.entry((catalog.files.lane, *number)).or_default();
                entry.parts = Parts::META | summary.parts();
                entry.transactions = summary.rows;
            }
            for (number, missing) in &state.missing {
                let key = (catalog.files.lane, *number);
                let since = contents.segments.get(&key).map_or(0, |known| known.missing_since_us);
                let entry = segments.entry(key).or_default();
                entry.missing = *missing;
                entry.missing_since_us = match since {
                    0 => u64::try_from(unix_time().as_micros()).unwrap_or(u64::MAX),
                    since => since,
                };
            }
        }
        if let Some((lane, number, part)) = dropped
            && let Some(entry) = segments.get_mut(&(lane, number))
        {
            match part {
                Some(Part::Meta) | None => entry.parts = Parts::empty(),
                Some(part) => entry.parts.remove(part.into()),
            }
        }
        segments.retain(|_, entry| *entry != SegmentEntry::default() && !entry.is_empty());
        contents.segments = segments;
        let bytes = encode(&contents.segments);
        self.write(&mut contents, 0, bytes)
    }

    /// Writes the ends of the lanes, not durably.
    ///
    /// # Errors
    /// As [`Manifest::update`].
    pub(crate) fn write_ends(&self, lanes: &[LaneState]) -> io::Result<()> {
        let mut contents = self.contents.lock();
        let mut bytes = Vec::with_capacity(lanes.len() * END_BYTES + 4);
        for lane in lanes {
            let next = lane.shared.next_sequence.load(std::sync::atomic::Ordering::Relaxed);
            bytes.extend_from_slice(&lane.shared.end().to_bits().to_le_bytes());
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        self.write(&mut contents, 1, bytes)
    }

    fn write(&self, contents: &mut Contents, which: usize, bytes: Vec<u8>) -> io::Result<()> {
        if contents.written[which] == bytes {
            return Ok(());
        }
        let path = self.folder.join(["segments", "ends"][which]);
        let kept = bytes.clone();
        let bytes = with_checksum(bytes);
        let written = self.faults.check("manifest.write").and_then(|()| match which {
            0 => replace_durably(&path, &bytes),
            _ => replace(&path, &bytes),
        });
        match written {
            Ok(()) => {
                contents.written[which] = kept;
                Ok(())
            }
            // An outdated manifest would report files as missing that are dropped from now on.
            Err(error) => {
                contents.written[which].clear();
                if_exists(fs::remove_file(&path)).map(drop).map_err(|_| error)
            }
        }
    }
}

impl SegmentEntry {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.missing.is_empty()
    }
}

/// The missing files of a segment; `before` are those that were known to be missing.
fn missing_files(
    contents: &Contents,
    (lane, segment): (u16, u32),
    before: Parts,
) -> impl Iterator<Item = MissingFile> {
    let entry = contents.segments.get(&(lane, segment)).copied().unwrap_or_default();
    let later = contents.segments.range((lane, segment.saturating_add(1))..=(lane, u32::MAX));
    let next = later.map(|(_, next)| next.first_sequence).find(|first| *first > 0);
    let end = contents.ends.get(usize::from(lane)).map_or(0, |end| end.next_sequence);
    let started = match entry.first_sequence {
        0 => 0,
        first => next.unwrap_or(end).saturating_sub(first),
    };
    let kinds = [
        (Parts::RAW, "segment", started),
        (Parts::META, "meta", entry.transactions.into()),
        (Parts::PAYLOAD, "payload", entry.transactions.into()),
        (Parts::FAILED, "failed", entry.transactions.into()),
    ];
    kinds.into_iter().filter(move |(part, ..)| entry.missing.intersects(*part)).map(
        move |(part, kind, transactions)| {
            let (new, accepted) = (!before.intersects(part), entry.accepted.intersects(part));
            MissingFile { lane, segment, kind: kind.to_owned(), transactions, new, accepted }
        },
    )
}

/// The entries as they are stored.
fn encode(segments: &BTreeMap<(u16, u32), SegmentEntry>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(segments.len() * ENTRY_BYTES + 4);
    for ((lane, number), entry) in segments {
        bytes.extend_from_slice(&lane.to_le_bytes());
        bytes.extend_from_slice(&[entry.parts.bits(), entry.missing.bits()]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&entry.transactions.to_le_bytes());
        bytes.extend_from_slice(&[entry.accepted.bits(), 0, 0, 0]);
        bytes.extend_from_slice(&entry.first_sequence.to_le_bytes());
        bytes.extend_from_slice(&entry.missing_since_us.to_le_bytes());
    }
    bytes
}

/// Files of a segment that should exist and do not.
fn missing(entry: &SegmentEntry, number: u32, segments: &Segments) -> Parts {
    let all = entry.parts | entry.missing;
    if segments.raw.contains(&number) {
        return Parts::empty();
    }
    let Some(summary) = segments.sealed.get(&number) else {
        return all;
    };
    all - Parts::RAW - Parts::META - Parts::UNREADABLE - summary.parts()
}

/// The entries of a file; empty if the file does not exist, `None` if it is damaged.
fn read(path: &Path, entry: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(bytes) = if_exists(fs::read(path))? else { return Ok(Some(Vec::new())) };
    let entries = verified(&bytes).filter(|entries| entries.len() % entry == 0);
    Ok(entries.map(<[u8]>::to_vec))
}
