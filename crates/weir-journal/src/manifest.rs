//! What should be there: which segments each lane has, in which files, so that files that somebody
//! deleted are missed.
//!
//! It is in a folder of its own beside the journal, `journal-manifest`, as a journal may be lost
//! as a whole:
//!
//! - `segments`, one entry for each segment: lane `u16`, parts that there are `u8` and parts that
//!   are gone `u8` (bits told in [`Parts`]), number `u32`, transactions `u32`, parts whose loss is
//!   accepted `u8`, zeros (3), number of the first transaction `u64`, time at which the parts were
//!   found to be gone `u64`, in µs since 1970; little-endian. It ends with the CRC-32 of it all. It is
//!   durable before a file is dropped on purpose, so that such a file is not missed.
//! - `ends`, likewise: for each lane the position `u64` of its end and the number `u64` that the next
//!   transaction gets, about a second old.
//!
//! A manifest that cannot be brought up to date is removed: nothing is missed then. Damaged
//! `segments` are kept aside as `segments.damaged-SECONDS`, and reported.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::background::LaneState;
use crate::failpoint::Faults;
use crate::files::{Files, State, create_folder};
use crate::follower::{put_aside, write_whole};
use crate::format::{Position, u32_at, u64_at};
use crate::recovery;
use crate::retention::now;
use crate::sealed::Part;

/// Name of its folder beside the journal's.
const FOLDER: &str = "journal-manifest";
/// Length of an entry of `segments`, and of `ends`.
const ENTRY: usize = 32;
const END: usize = 16;
/// How long it is remembered that files are gone, at least.
const REMEMBERED: Duration = Duration::from_secs(100 * 24 * 60 * 60);

/// Files of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    /// The segment as it was appended.
    pub(crate) const RAW: Self = Self(1);
    pub(crate) const META: Self = Self(2);
    pub(crate) const PAYLOAD: Self = Self(4);
    pub(crate) const FAILED: Self = Self(8);
    /// It was there and nothing in it could be read: damage, not a file that is gone.
    pub(crate) const UNREADABLE: Self = Self(16);
    /// Parts that are files of their own.
    const FILES: Self = Self(15);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn of(part: Part) -> Self {
        match part {
            Part::Meta => Self::META,
            Part::Payload => Self::PAYLOAD,
            Part::Failed => Self::FAILED,
        }
    }
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) parts: Parts,
    pub(crate) gone: Parts,
    /// Those of `gone` that somebody has accepted.
    accepted: Parts,
    transactions: u32,
    first_ticket: u64,
    gone_us: u64,
}

/// Files that should be there and are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// Index of the lane.
    pub lane: u16,
    /// Number of the segment.
    pub segment: u32,
    /// What the file is called behind the number: `segment`, `meta`, `payload` or `failed`.
    pub kind: &'static str,
    /// Transactions that were in it, at least; of a `payload` or `failed` file, transactions of the
    /// segment, some of which were in it.
    pub transactions: u64,
    /// It was found missing now, and not at an earlier start.
    pub new: bool,
    /// Somebody has accepted that it is missing ([`crate::Journal::accept_missing`]).
    pub accepted: bool,
}

/// The manifest was damaged when the journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedManifest {
    /// The file.
    pub path: PathBuf,
    /// Where the damaged file is now; none if it could not be moved.
    pub kept: Option<PathBuf>,
}

impl std::fmt::Display for DamagedManifest {
    /// The file, and what is lost with it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the manifest {} is damaged: files that are missing by now go unnoticed, and those \
             known to be missing are forgotten",
            self.path.display(),
        )?;
        self.kept
            .iter()
            .try_for_each(|kept| write!(f, "; the damaged file is {} now", kept.display()))
    }
}

impl std::fmt::Display for MissingFile {
    /// Its path in the journal, and how many transactions were in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lane, segment, kind, transactions, .. } = self;
        write!(f, "lane-{lane:04}/{segment:010}.{kind} ({transactions} transactions)")
    }
}

/// How far a lane had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) position: Position,
    pub(crate) next_ticket: u64,
}

impl End {
    /// Number of the first segment that had surely not been begun.
    pub(crate) fn next_segment(self) -> u32 {
        self.position.segment() + u32::from(self.position.offset() > 0)
    }
}

#[derive(Debug, Default)]
struct Book {
    /// By lane and number.
    segments: BTreeMap<(u16, u32), Entry>,
    ends: Vec<End>,
    /// What was written last.
    written: [Vec<u8>; 2],
}

/// The manifest of a data folder.
#[derive(Debug)]
pub(crate) struct Manifest {
    folder: PathBuf,
    faults: Faults,
    book: Mutex<Book>,
}

impl Manifest {
    /// Reads it; what is not there or damaged knows of nothing. Damaged `segments` are put aside.
    pub(crate) fn open(
        data: &Path,
        faults: Faults,
        damaged: &mut Option<DamagedManifest>,
    ) -> io::Result<Self> {
        let folder = data.join(FOLDER);
        create_folder(&folder)?;
        let path = folder.join("segments");
        let segments = read(&path, ENTRY)?.unwrap_or_else(|| {
            let kept = put_aside(&path);
            *damaged = Some(DamagedManifest { path, kept });
            Vec::new()
        });
        // They are not durable: a loss of power may leave anything.
        let ends = read(&folder.join("ends"), END)?.unwrap_or_default();
        let mut book = Book::default();
        for entry in segments.chunks_exact(ENTRY) {
            let lane = u16::from_le_bytes([entry[0], entry[1]]);
            let known = Entry {
                parts: Parts(entry[2]),
                gone: Parts(entry[3]),
                accepted: Parts(entry[12]),
                transactions: u32_at(entry, 8),
                first_ticket: u64_at(entry, 16),
                gone_us: u64_at(entry, 24),
            };
            book.segments.insert((lane, u32_at(entry, 4)), known);
        }
        let end = |entry: &[u8]| End {
            position: Position::from_bits(u64_at(entry, 0)),
            next_ticket: u64_at(entry, 8),
        };
        book.ends = ends.chunks_exact(END).map(end).collect();
        Ok(Self { folder, faults, book: Mutex::new(book) })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more than the index of the last lane that is known.
    pub(crate) fn lanes(&self) -> u16 {
        let book = self.book();
        book.segments.last_key_value().map_or(0, |((lane, _), _)| lane.saturating_add(1))
    }

    /// How far a lane had come about a second before it was last written to.
    pub(crate) fn end(&self, lane: u16) -> End {
        self.book().ends.get(usize::from(lane)).copied().unwrap_or_default()
    }

    /// What is known of the segments of a lane.
    pub(crate) fn of_lane(&self, lane: u16) -> BTreeMap<u32, Entry> {
        let book = self.book();
        let range = book.segments.range((lane, 0)..=(lane, u32::MAX));
        range.map(|((_, number), entry)| (*number, *entry)).collect()
    }

    /// Compares what is known of a lane with what there is, and notes in its state what is gone.
    pub(crate) fn compare(&self, files: &Files, found: &mut Vec<MissingFile>) {
        let lane = files.lane;
        let known = self.of_lane(lane);
        let mut state = files.change();
        let mut book = self.book();
        let now_us = u64::try_from(now().as_micros()).unwrap_or(u64::MAX);
        let old_us = u64::try_from(now().saturating_sub(REMEMBERED).as_micros()).unwrap_or(0);
        for (number, entry) in &known {
            let before = entry.gone;
            if before != Parts::default() && entry.gone_us <= old_us {
                continue;
            }
            let gone = gone(entry, *number, &state);
            if let Some(entry) = book.segments.get_mut(&(lane, *number)) {
                entry.gone = gone;
                // What came back and is lost again has to be accepted again.
                entry.accepted = entry.accepted.common(gone);
                if gone != Parts::default() && before != gone {
                    entry.gone_us = now_us;
                }
            }
            if gone == Parts::default() {
                continue;
            }
            state.gone.insert(*number, gone);
            found.extend(missing_files(&book, (lane, *number), before));
        }
    }

    /// Accepts what is gone; gives the files of which that was not so before.
    ///
    /// # Errors
    /// It cannot be written; nothing is accepted then.
    pub(crate) fn accept(&self) -> io::Result<Vec<MissingFile>> {
        let mut book = self.book();
        let mut found = Vec::new();
        let mut accepted = book.segments.clone();
        for (key, entry) in &mut accepted {
            let files = missing_files(&book, *key, entry.gone).filter(|file| !file.accepted);
            found.extend(files);
            entry.accepted = entry.gone.common(Parts::FILES);
        }
        if found.is_empty() {
            return Ok(found);
        }
        let bytes = encode(&accepted);
        self.faults.check("manifest.write")?;
        write_whole(&self.folder.join("segments"), &summed(bytes.clone()))?;
        book.segments = accepted;
        book.written[0] = bytes;
        Ok(found)
    }

    /// Brings it up to date with what there is, as if `dropped` files of segments were not there:
    /// it is durable then.
    ///
    /// # Errors
    /// It cannot be written, nor removed.
    pub(crate) fn bring_up_to_date(
        &self,
        lanes: &[LaneState],
        dropped: Option<(u16, u32, Option<Part>)>,
    ) -> io::Result<()> {
        let mut book = self.book();
        let old_us = now().saturating_sub(REMEMBERED).as_micros();
        let mut segments = BTreeMap::new();
        for ((lane, number), entry) in &book.segments {
            let stays = entry.gone != Parts::default() && u128::from(entry.gone_us) > old_us;
            if stays {
                let parts = Parts::default();
                segments.insert((*lane, *number), Entry { parts, ..*entry });
            }
        }
        for LaneState { files, shared, .. } in lanes {
            let (state, end) = (files.state(), shared.end());
            for number in &state.raw {
                let begun = *number < end.segment() || *number == end.segment() && end.offset() > 0;
                if !begun || state.sealed.contains_key(number) {
                    continue;
                }
                let key = (files.lane, *number);
                let first_ticket = match book.segments.get(&key) {
                    Some(known) if known.first_ticket > 0 => known.first_ticket,
                    _ => recovery::first_ticket(files, std::iter::once(*number))
                        .unwrap_or_default()
                        .unwrap_or_default(),
                };
                let parts = Parts::RAW;
                segments.insert(key, Entry { parts, first_ticket, ..Entry::default() });
            }
            for (number, summary) in &state.sealed {
                let entry = segments.entry((files.lane, *number)).or_default();
                let there = Part::ALL.into_iter().filter(|part| summary.sizes[*part as usize] > 0);
                entry.parts = there.map(Parts::of).fold(Parts::META, Parts::with);
                entry.transactions = summary.rows;
            }
            for (number, gone) in &state.gone {
                let key = (files.lane, *number);
                let since = book.segments.get(&key).map_or(0, |known| known.gone_us);
                let entry = segments.entry(key).or_default();
                entry.gone = *gone;
                entry.gone_us = match since {
                    0 => u64::try_from(now().as_micros()).unwrap_or(u64::MAX),
                    since => since,
                };
            }
        }
        if let Some((lane, number, part)) = dropped
            && let Some(entry) = segments.get_mut(&(lane, number))
        {
            match part {
                Some(Part::Meta) | None => entry.parts = Parts::default(),
                Some(part) => entry.parts = entry.parts.without(Parts::of(part)),
            }
        }
        segments.retain(|_, entry| *entry != Entry::default() && !entry.is_empty());
        book.segments = segments;
        let bytes = encode(&book.segments);
        self.write(&mut book, 0, bytes)
    }

    /// Notes how far the lanes have come. It need not be durable.
    ///
    /// # Errors
    /// As [`Manifest::bring_up_to_date`].
    pub(crate) fn note_ends(&self, lanes: &[LaneState]) -> io::Result<()> {
        let mut book = self.book();
        let mut bytes = Vec::with_capacity(lanes.len() * END + 4);
        for lane in lanes {
            let next = lane.shared.next_ticket.load(std::sync::atomic::Ordering::Relaxed);
            bytes.extend_from_slice(&lane.shared.end().to_bits().to_le_bytes());
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        self.write(&mut book, 1, bytes)
    }

    fn write(&self, book: &mut Book, which: usize, bytes: Vec<u8>) -> io::Result<()> {
        if book.written[which] == bytes {
            return Ok(());
        }
        let path = self.folder.join(["segments", "ends"][which]);
        let kept = bytes.clone();
        let bytes = summed(bytes);
        let written = self.faults.check("manifest.write").and_then(|()| match which {
            0 => write_whole(&path, &bytes),
            _ => replace(&path, &bytes),
        });
        match written {
            Ok(()) => {
                book.written[which] = kept;
                Ok(())
            }
            // What it would say of files that are dropped from now on is not true any more.
            Err(error) => {
                book.written[which].clear();
                match fs::remove_file(&path) {
                    Err(left) if left.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.parts == Parts::default() && self.gone == Parts::default()
    }
}

/// The files of a segment that are gone; `before` are those that were known to be gone.
fn missing_files(
    book: &Book,
    (lane, segment): (u16, u32),
    before: Parts,
) -> impl Iterator<Item = MissingFile> {
    let entry = book.segments.get(&(lane, segment)).copied().unwrap_or_default();
    let later = book.segments.range((lane, segment.saturating_add(1))..=(lane, u32::MAX));
    let next = later.map(|(_, next)| next.first_ticket).find(|first| *first > 0);
    let end = book.ends.get(usize::from(lane)).map_or(0, |end| end.next_ticket);
    let begun = match entry.first_ticket {
        0 => 0,
        first => next.unwrap_or(end).saturating_sub(first),
    };
    let kinds = [
        (Parts::RAW, "segment", begun),
        (Parts::META, "meta", entry.transactions.into()),
        (Parts::PAYLOAD, "payload", entry.transactions.into()),
        (Parts::FAILED, "failed", entry.transactions.into()),
    ];
    kinds.into_iter().filter(move |(part, ..)| entry.gone.has(*part)).map(
        move |(part, kind, transactions)| {
            let (new, accepted) = (!before.has(part), entry.accepted.has(part));
            MissingFile { lane, segment, kind, transactions, new, accepted }
        },
    )
}

/// The entries as they are written.
fn encode(segments: &BTreeMap<(u16, u32), Entry>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(segments.len() * ENTRY + 4);
    for ((lane, number), entry) in segments {
        bytes.extend_from_slice(&lane.to_le_bytes());
        bytes.extend_from_slice(&[entry.parts.0, entry.gone.0]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&entry.transactions.to_le_bytes());
        bytes.extend_from_slice(&[entry.accepted.0, 0, 0, 0]);
        bytes.extend_from_slice(&entry.first_ticket.to_le_bytes());
        bytes.extend_from_slice(&entry.gone_us.to_le_bytes());
    }
    bytes
}

/// With the checksum at the end.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Which parts of a segment are not there that should be.
fn gone(entry: &Entry, number: u32, state: &State) -> Parts {
    let all = entry.parts.with(entry.gone);
    if state.raw.contains(&number) {
        return Parts::default();
    }
    let Some(summary) = state.sealed.get(&number) else {
        return all;
    };
    let mut gone = all.without(Parts::RAW.with(Parts::META).with(Parts::UNREADABLE));
    for part in [Part::Payload, Part::Failed] {
        if summary.sizes[part as usize] > 0 {
            gone = gone.without(Parts::of(part));
        }
    }
    gone
}

/// The entries of a file, no bytes if it is not there; `None` if it is not as it was written.
fn read(path: &Path, entry: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
        Err(error) => return Err(error),
    };
    let Some((whole, sum)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
    if crc32fast::hash(whole) != u32::from_le_bytes(*sum) || whole.len() % entry != 0 {
        return Ok(None);
    }
    bytes.truncate(bytes.len() - 4);
    Ok(Some(bytes))
}

/// Puts a whole file in place of another one, as far as the process is concerned.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let new = path.with_added_extension("new");
    let mut options = fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}
