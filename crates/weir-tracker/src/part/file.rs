//! Version 1 of the file of a part's columns. All numbers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `WEIRCOL1` |
//! | 8 | 4 | CRC-32 of the head |
//! | 12 | 4 | length of the head |
//! | 16 | | the head: number of rows `u32`, number of sections `u32`, then the sections |
//!
//! A section in the head: tag `u8`, width `u8`, zeros (2), CRC-32 of its bytes `u32`, minimum `u64`,
//! maximum `u64`, offset `u64`, length `u64`. The sections:
//!
//! | tag | content |
//! |---|---|
//! | 0–3 | time, elapsed time, status, state: the value of each row minus the minimum, in `width` bytes (0, 1, 2, 4 or 8) |
//! | 4, 5 | lane and position in the journal, in the same form |
//! | 6 | ids, 16 bytes each; minimum and maximum of their upper halves |
//! | 16–24 | numbers of names, as 0–3 |
//! | 25–28 | numbers of names of later versions; absent in files of earlier ones |
//! | 32–40 | the names: for each the length `u16` and the bytes |
//! | 41 | the names of [business keys](crate::part::keys), as 32–40 |
//! | 42 | the business keys of all rows |
//! | 48–51 | the names to 25–28 |
//! | 64 | for each lane the range of the journal: start `u64`, end `u64` |
//! | 65 | the file of the terms: length `u64`, CRC-32 `u32` |
//! | 66 | one byte: 0 if only business keys are indexed, 1 for payloads |
//! | 67 | empty; present only if the business keys were unknown |
//! | 68–70 | [filters for phrases](crate::part::pairs); absent if no block has one |

mod phrases;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use weir_journal::{Address, Outcome, Position};

use crate::error::Error;
use crate::field::{Name, Number};
use crate::part::block::Depth;
use crate::part::columns::Columns;
use crate::part::keys::Keys;
use crate::part::pairs::PairFilter;
use crate::part::row::{NAMES, Row};

const MAGIC: &[u8; 8] = b"WEIRCOL1";
const SECTION: usize = 40;
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Most rows of a part.
pub(crate) const MAX_ROWS: usize = 1 << 16;

const LANE: u8 = 4;
const POSITION: u8 = 5;
const IDS: u8 = 6;
const CODES: u8 = 16;
const VALUES: u8 = 32;
/// Number of columns of names that every file has.
const FIRST_NAMES: u8 = 9;
const LATER_VALUES: u8 = 48;
const KEY_NAMES: u8 = 41;
const KEYS: u8 = 42;
const SPANS: u8 = 64;
const TERMS: u8 = 65;
const DEPTH: u8 = 66;
const PROVISIONAL: u8 = 67;

/// Range of a lane that a part covers: start and end.
pub(crate) type Span = (Position, Position);

/// Data of a part besides its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartMetadata {
    pub(crate) spans: Vec<Span>,
    /// Length and CRC-32 of the file of the terms.
    pub(crate) terms: (u64, u32),
    pub(crate) depth: Depth,
    /// As in [`crate::Settings`].
    pub(crate) provisional: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Section {
    tag: u8,
    width: u8,
    sum: u32,
    min: u64,
    max: u64,
    offset: u64,
    length: u64,
}

/// What the file of a part's columns says about itself: enough to decide whether a search needs the
/// part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartHead {
    rows: usize,
    sections: Vec<Section>,
    /// Length of the file.
    length: u64,
    terms: (u64, u32),
    /// Whether payloads are indexed.
    payload: bool,
}

impl Section {
    /// Whether it fits to the number of rows and the length of the file.
    fn is_valid(&self, rows: usize, file: u64) -> bool {
        let Self { tag, width, offset, length, .. } = *self;
        let column = tag <= IDS || (CODES..VALUES).contains(&tag);
        let is_complete = offset.checked_add(length).is_some_and(|end| end <= file);
        let fits = !column || length == rows as u64 * u64::from(width);
        let known = if tag == IDS { width == 16 } else { matches!(width, 0 | 1 | 2 | 4 | 8) };
        is_complete && fits && known && rows <= MAX_ROWS
    }
}

/// The sections of a column of names: the numbers of its rows, and the names.
fn name_sections(index: u8) -> (u8, u8) {
    let values = match index.checked_sub(FIRST_NAMES) {
        None => VALUES + index,
        Some(later) => LATER_VALUES + later,
    };
    (CODES + index, values)
}

#[derive(Default)]
struct Builder {
    sections: Vec<Section>,
    data: Vec<u8>,
}

impl Builder {
    fn add(&mut self, tag: u8, width: u8, (min, max): (u64, u64), bytes: &[u8]) {
        self.sections.push(Section {
            tag,
            width,
            sum: crc32fast::hash(bytes),
            min,
            max,
            offset: self.data.len() as u64,
            length: bytes.len() as u64,
        });
        self.data.extend_from_slice(bytes);
    }

    fn names(&mut self, tag: u8, names: &[String]) {
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
        self.add(tag, 0, (0, 0), &bytes);
    }

    fn numbers(&mut self, tag: u8, values: impl Iterator<Item = u64> + Clone) {
        let min = values.clone().min().unwrap_or(0);
        let max = values.clone().max().unwrap_or(0);
        let width = match max - min {
            0 => 0,
            1..=0xFF => 1,
            0x100..=0xFFFF => 2,
            0x1_0000..=0xFFFF_FFFF => 4,
            _ => 8,
        };
        let mut bytes = Vec::new();
        for value in values.filter(|_| width > 0) {
            let value = (value - min).to_le_bytes();
            // Constant lengths are written several times faster.
            match width {
                1 => bytes.push(value[0]),
                2 => bytes.extend_from_slice(&value[..2]),
                4 => bytes.extend_from_slice(&value[..4]),
                _ => bytes.extend_from_slice(&value),
            }
        }
        self.add(tag, width as u8, (min, max), &bytes);
    }
}

/// The bytes of the file.
pub(crate) fn encode(
    columns: &Columns,
    metadata: &PartMetadata,
    filters: &[Option<&PairFilter>],
) -> Vec<u8> {
    let mut builder = Builder::default();
    for (tag, values) in columns.numbers.iter().enumerate() {
        builder.numbers(tag as u8, values.iter().copied());
    }
    builder.numbers(LANE, columns.lanes.iter().copied());
    builder.numbers(POSITION, columns.positions.iter().copied());
    let mut ids = Vec::with_capacity(columns.ids.len() * 16);
    columns.ids.iter().for_each(|id| ids.extend_from_slice(&id.to_le_bytes()));
    let min = columns.ids.iter().min().map_or(0, |id| (id >> 64) as u64);
    let max = columns.ids.iter().max().map_or(0, |id| (id >> 64) as u64);
    builder.add(IDS, 16, (min, max), &ids);
    for (index, column) in (0..).zip(&columns.names) {
        let (codes, values) = name_sections(index);
        builder.numbers(codes, column.codes.iter().map(|code| u64::from(*code)));
        builder.names(values, &column.values);
    }
    builder.names(KEY_NAMES, &columns.keys.names);
    builder.add(KEYS, 0, (0, 0), &columns.keys.bytes);
    let spans = metadata.spans.iter().flat_map(|(from, to)| [from.to_bits(), to.to_bits()]);
    let spans: Vec<u8> = spans.flat_map(u64::to_le_bytes).collect();
    builder.add(SPANS, 0, (0, 0), &spans);
    let mut terms = metadata.terms.0.to_le_bytes().to_vec();
    terms.extend_from_slice(&metadata.terms.1.to_le_bytes());
    builder.add(TERMS, 0, (0, 0), &terms);
    builder.add(DEPTH, 0, (0, 0), &[u8::from(metadata.depth == Depth::Payload)]);
    if metadata.provisional {
        builder.add(PROVISIONAL, 0, (0, 0), &[]);
    }
    builder.filters(filters);
    builder.finish(columns.len())
}

impl Builder {
    fn finish(self, rows: usize) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend_from_slice(&(rows as u32).to_le_bytes());
        head.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        let start = (16 + 8 + self.sections.len() * SECTION) as u64;
        for section in &self.sections {
            head.extend_from_slice(&[section.tag, section.width, 0, 0]);
            head.extend_from_slice(&section.sum.to_le_bytes());
            for number in [section.min, section.max, start + section.offset, section.length] {
                head.extend_from_slice(&number.to_le_bytes());
            }
        }
        let mut file = MAGIC.to_vec();
        file.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        file.extend_from_slice(&(head.len() as u32).to_le_bytes());
        file.extend_from_slice(&head);
        file.extend_from_slice(&self.data);
        file
    }
}

/// Reads numbers from the front of bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(bytes))
    }
}

type FetchFile = dyn Fn(&Path) -> io::Result<()> + Send + Sync;

/// Fetches a file of a remote part, unless it is there.
#[derive(Clone)]
pub(crate) struct Fetch(pub(crate) Arc<FetchFile>);

impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fetch")
    }
}

/// The head of a file of columns, read and checked.
#[derive(Debug)]
pub(crate) struct Head {
    path: PathBuf,
    pub(crate) rows: usize,
    sections: Vec<Section>,
    /// Whether the checksums of all sections were compared.
    verified: AtomicBool,
    pub(crate) metadata: PartMetadata,
    /// Where its files are fetched from.
    pub(crate) fetch: Option<Fetch>,
}

impl Head {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io(path))?;
        let length = file.metadata().map_err(Error::io(path))?.len();
        let mut start = [0; 16];
        read(&file, path, &mut start, 0)?;
        let mut bytes = Bytes(&start[8..]);
        let sum = bytes.number(4).unwrap_or(0);
        let size = bytes.number(4).unwrap_or(0) as usize;
        if &start[..8] != MAGIC || size > MAX_HEAD_BYTES {
            return Err(Error::damaged(path, "not a file of columns of version 1"));
        }
        let mut head = vec![0; size];
        read(&file, path, &mut head, 16)?;
        if u64::from(crc32fast::hash(&head)) != sum {
            return Err(Error::damaged(path, "the checksum of its head is wrong"));
        }
        let (rows, sections) = sections(&head, length)
            .ok_or_else(|| Error::damaged(path, "its head contradicts itself"))?;
        let (path, metadata) = (path.to_owned(), PartMetadata::default());
        let verified = AtomicBool::new(false);
        let mut this = Self { path, rows, sections, verified, metadata, fetch: None };
        this.metadata = this.metadata(&file)?;
        Ok(this)
    }

    /// The checksums need not be compared.
    pub(crate) fn trust(&self) {
        self.verified.store(true, Ordering::Relaxed);
    }

    /// Fetches a file of the part, if it is remote.
    pub(crate) fn fetch(&self, path: &Path) -> Result<(), Error> {
        self.fetch.as_ref().map_or(Ok(()), |fetch| (fetch.0)(path).map_err(Error::Remote))
    }

    /// What the file says about itself.
    pub(crate) fn describe(&self) -> Result<PartHead, Error> {
        let length = self.path.metadata().map_err(Error::io(&self.path))?.len();
        Ok(PartHead {
            rows: self.rows,
            sections: self.sections.clone(),
            length,
            terms: self.metadata.terms,
            payload: self.metadata.depth == Depth::Payload,
        })
    }

    /// The head of a file that is fetched when its columns are read. The journal has its transactions
    /// in `lane`.
    pub(crate) fn remote(
        path: PathBuf,
        head: PartHead,
        lane: u16,
        fetch: Fetch,
    ) -> Result<Self, Error> {
        let PartHead { rows, mut sections, length, terms, payload } = head;
        if !sections.iter().all(|section| section.is_valid(rows, length)) {
            return Err(Error::damaged(&path, "its head contradicts itself"));
        }
        // All transactions of a segment are in one lane: the column has no bytes.
        for section in sections.iter_mut().filter(|section| section.tag == LANE) {
            if section.width > 0 {
                return Err(Error::damaged(&path, "it has several lanes"));
            }
            (section.min, section.max) = (lane.into(), lane.into());
        }
        let depth = if payload { Depth::Payload } else { Depth::Keys };
        let metadata = PartMetadata { terms, depth, ..PartMetadata::default() };
        let verified = AtomicBool::new(false);
        Ok(Self { path, rows, sections, verified, metadata, fetch: Some(fetch) })
    }

    fn section(&self, tag: u8) -> Result<&Section, Error> {
        let found = self.sections.iter().find(|section| section.tag == tag);
        found.ok_or_else(|| Error::damaged(&self.path, format!("section {tag} is missing")))
    }

    /// Minimum and maximum of a column.
    pub(crate) fn bounds(&self, number: Number) -> Result<(u64, u64), Error> {
        let section = self.section(number as u8)?;
        Ok((section.min, section.max))
    }

    /// Minimum and maximum of the upper halves of the ids.
    pub(crate) fn id_bounds(&self) -> Result<(u64, u64), Error> {
        let section = self.section(IDS)?;
        Ok((section.min, section.max))
    }

    /// Opens the columns; compares their checksums the first time.
    pub(crate) fn columns(&self) -> Result<Sealed<'_>, Error> {
        self.fetch(&self.path)?;
        let file = File::open(&self.path).map_err(Error::io(&self.path))?;
        if !self.verified.load(Ordering::Relaxed) {
            self.sections.iter().try_for_each(|one| self.bytes(&file, one.tag).map(drop))?;
            self.verified.store(true, Ordering::Relaxed);
        }
        Ok(Sealed { head: self, file })
    }

    fn bytes(&self, file: &File, tag: u8) -> Result<(Section, Vec<u8>), Error> {
        let section = *self.section(tag)?;
        let mut bytes = vec![0; section.length as usize];
        read(file, &self.path, &mut bytes, section.offset)?;
        if !self.verified.load(Ordering::Relaxed) && crc32fast::hash(&bytes) != section.sum {
            return Err(Error::damaged(
                &self.path,
                format!("the checksum of section {tag} is wrong"),
            ));
        }
        Ok((section, bytes))
    }

    fn metadata(&self, file: &File) -> Result<PartMetadata, Error> {
        let bad = || Error::damaged(&self.path, "its metadata cannot be read");
        let (_, spans) = self.bytes(file, SPANS)?;
        let spans = spans.chunks_exact(16).map(|pair| {
            let mut pair = Bytes(pair);
            let mut next = || Position::from_bits(pair.number(8).unwrap_or(0));
            (next(), next())
        });
        let spans = spans.collect();
        let (_, terms) = self.bytes(file, TERMS)?;
        let mut terms = Bytes(&terms);
        let terms = (terms.number(8).ok_or_else(bad)?, terms.number(4).ok_or_else(bad)? as u32);
        let (_, depth) = self.bytes(file, DEPTH)?;
        let depth = if depth == [1] { Depth::Payload } else { Depth::Keys };
        let provisional = self.section(PROVISIONAL).is_ok();
        Ok(PartMetadata { spans, terms, depth, provisional })
    }
}

fn read(file: &File, path: &Path, bytes: &mut [u8], at: u64) -> Result<(), Error> {
    file.read_exact_at(bytes, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(path, "it ends too early"),
        _ => Error::io(path)(error),
    })
}

fn sections(head: &[u8], length: u64) -> Option<(usize, Vec<Section>)> {
    let mut head = Bytes(head);
    let rows = head.number(4)? as usize;
    let count = head.number(4)?;
    let mut sections = Vec::new();
    for _ in 0..count {
        let tag = head.number(1)? as u8;
        let width = head.number(1)? as u8;
        head.take(2)?;
        let sum = head.number(4)? as u32;
        let (min, max) = (head.number(8)?, head.number(8)?);
        let (offset, size) = (head.number(8)?, head.number(8)?);
        let section = Section { tag, width, sum, min, max, offset, length: size };
        if !section.is_valid(rows, length) {
            return None;
        }
        sections.push(section);
    }
    Some((rows, sections))
}

/// Values of a column are read one by one if there are more rows than this for each of them.
const READ_SINGLY: usize = 512;

fn address(lane: u64, position: u64) -> Address {
    Address { lane: lane as u16, position: Position::from_bits(position) }
}

/// An opened file of columns.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    head: &'a Head,
    file: File,
}

impl Sealed<'_> {
    pub(crate) fn number(&self, number: Number) -> Result<Vec<u64>, Error> {
        self.numbers(number as u8)
    }

    pub(crate) fn codes(&self, name: Name) -> Result<Vec<u32>, Error> {
        if !self.has(name) {
            return Ok(vec![0; self.head.rows]);
        }
        let (codes, _) = name_sections(name as u8);
        Ok(self.numbers(codes)?.into_iter().map(|code| code as u32).collect())
    }

    pub(crate) fn values(&self, name: Name) -> Result<Vec<String>, Error> {
        if !self.has(name) {
            return Ok(vec![String::new()]);
        }
        self.names(name_sections(name as u8).1)
    }

    /// Whether the version that has written the file knew of the column; otherwise all its names are empty.
    pub(crate) fn has(&self, name: Name) -> bool {
        (name as u8) < FIRST_NAMES || self.head.section(name_sections(name as u8).0).is_ok()
    }

    /// The business keys of all rows.
    pub(crate) fn keys(&self) -> Result<Keys<'static>, Error> {
        let (_, bytes) = self.head.bytes(&self.file, KEYS)?;
        Ok(Keys::new(self.names(KEY_NAMES)?, bytes))
    }

    fn names(&self, tag: u8) -> Result<Vec<String>, Error> {
        let (_, bytes) = self.head.bytes(&self.file, tag)?;
        let mut bytes = Bytes(&bytes);
        let mut values = Vec::new();
        while let Some(length) = bytes.number(2) {
            let value = bytes.take(length as usize).unwrap_or_default();
            values.push(String::from_utf8_lossy(value).into_owned());
        }
        Ok(values)
    }

    pub(crate) fn ids(&self) -> Result<Vec<u128>, Error> {
        let (_, bytes) = self.head.bytes(&self.file, IDS)?;
        Ok(bytes.as_chunks().0.iter().map(|id| u128::from_le_bytes(*id)).collect())
    }

    fn numbers(&self, tag: u8) -> Result<Vec<u64>, Error> {
        let (section, bytes) = self.head.bytes(&self.file, tag)?;
        let add = |value: u64| section.min.wrapping_add(value);
        let (twos, fours, eights) = (bytes.as_chunks().0, bytes.as_chunks().0, bytes.as_chunks().0);
        Ok(match section.width {
            0 => vec![section.min; self.head.rows],
            // Constant widths are read several times faster.
            1 => bytes.iter().map(|byte| add((*byte).into())).collect(),
            2 => twos.iter().map(|value| add(u16::from_le_bytes(*value).into())).collect(),
            4 => fours.iter().map(|value| add(u32::from_le_bytes(*value).into())).collect(),
            _ => eights.iter().map(|value| add(u64::from_le_bytes(*value))).collect(),
        })
    }

    /// One value, without the rest of its column.
    fn value(&self, tag: u8, row: usize) -> Result<u64, Error> {
        let section = self.head.section(tag)?;
        let width = usize::from(section.width).min(8);
        let mut bytes = [0; 8];
        let at = section.offset + (row * width) as u64;
        read(&self.file, &self.head.path, &mut bytes[..width], at)?;
        Ok(section.min.wrapping_add(u64::from_le_bytes(bytes)))
    }

    fn address(&self, row: usize) -> Result<Address, Error> {
        Ok(address(self.value(LANE, row)?, self.value(POSITION, row)?))
    }

    /// Addresses of rows, in the same order.
    pub(crate) fn addresses(&self, rows: &[usize]) -> Result<Vec<Address>, Error> {
        if self.are_few(rows) {
            return rows.iter().map(|row| self.address(*row)).collect();
        }
        let (lanes, positions) = (self.numbers(LANE)?, self.numbers(POSITION)?);
        Ok(rows.iter().map(|row| address(lanes[*row], positions[*row])).collect())
    }

    /// Times and ids of rows, in the same order.
    pub(crate) fn times_and_ids(&self, rows: &[usize]) -> Result<Vec<(u64, u128)>, Error> {
        let time = Number::Time as u8;
        if self.are_few(rows) {
            return rows.iter().map(|row| Ok((self.value(time, *row)?, self.id(*row)?))).collect();
        }
        let (times, ids) = (self.numbers(time)?, self.ids()?);
        Ok(rows.iter().map(|row| (times[*row], ids[*row])).collect())
    }

    fn id(&self, row: usize) -> Result<u128, Error> {
        let mut id = [0; 16];
        let at = self.head.section(IDS)?.offset + row as u64 * 16;
        read(&self.file, &self.head.path, &mut id, at)?;
        Ok(u128::from_le_bytes(id))
    }

    /// Whether their values are better read one by one than with the whole column.
    fn are_few(&self, rows: &[usize]) -> bool {
        rows.len() < self.head.rows / READ_SINGLY
    }

    /// One row. Slow for many rows: each value is read separately.
    pub(crate) fn row(&self, row: usize) -> Result<Row, Error> {
        let mut names: [String; NAMES] = Default::default();
        for name in Name::ALL.iter().copied() {
            if !self.has(name) {
                continue;
            }
            let code = self.value(name_sections(name as u8).0, row)? as usize;
            names[name as usize] = self.values(name)?.into_iter().nth(code).unwrap_or_default();
        }
        Ok(Row {
            id: self.id(row)?,
            time: self.value(Number::Time as u8, row)?,
            elapsed: self.value(Number::Elapsed as u8, row)?,
            status: self.value(Number::Status as u8, row)? as u16,
            outcome: Outcome::from_code(self.value(Number::State as u8, row)?),
            address: Some(self.address(row)?),
            names,
        })
    }
}
