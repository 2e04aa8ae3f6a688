//! Version 1 of a sealed segment: three files, dropped independently. All numbers are
//! little-endian.
//!
//! - `N.meta`: every transaction without fields that may be secret or long.
//! - `N.payload`: heads, bodies, properties and logs of completed transactions.
//! - `N.failed`: all other transactions, complete.
//!
//! A file begins with magic `WEIRSEAL` (8), version `u32` and part `u32` (0, 1, 2 as above). Blocks
//! follow, each a zstd frame of rows: offset of the transaction's `completed` frame in segment `N`
//! `u32`, length `u32`, then fields as in [`crate::record`]. Rows are sorted by offset. After the
//! blocks comes the index; for each block: offset of the first row `u32`, length `u32`, offset in
//! the file `u64`, decompressed length `u32`, CRC-32 of the compressed bytes `u32`. The last 40
//! bytes are: number of blocks `u32`, number of rows `u32`, timestamp in µs since 1970 `u64`,
//! offset of the index `u64`, zeros (8), CRC-32 of the index and of these 32 bytes `u32`, magic
//! `SEAL`.
//!
//! The timestamp is the time of the newest transaction, but not before the timestamp of the
//! previous segment: a clock that jumps back does not make a segment old. A previous timestamp in
//! the future, from a clock that was ahead, does not count.

pub(crate) mod writer;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use zstd::bulk::Decompressor;

use crate::files::damage::DamageLog;
use crate::files::{Files, Part, Parts};
use crate::format::{Address, Kind, Position, u32_at, u64_at};
use crate::os::atomic_file::if_exists;
use crate::record::Transaction;
use crate::record::undecoded::{Undecoded, is_completed};
use weir_model::Outcome;

const MAGIC: [u8; 8] = *b"WEIRSEAL";
const TAIL_MAGIC: [u8; 4] = *b"SEAL";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const TAIL_BYTES: usize = 40;
const INDEX_ENTRY_BYTES: usize = 24;
/// Length of a row's header.
const ROW_HEADER_BYTES: usize = 8;
/// Limit for the length of a block, against damaged indexes: the longest row and some more.
const MAX_BLOCK_BYTES: u32 = 80 << 20;
/// Limit for the length of an index.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The metadata of a sealed segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Lengths of the files by [`Part`]; 0 for a file that does not exist.
    pub(crate) sizes: [u64; 3],
    pub(crate) rows: u32,
    pub(crate) stamp_us: u64,
}

impl Summary {
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// The files that exist.
    pub(crate) fn parts(&self) -> Parts {
        Part::ALL
            .into_iter()
            .filter(|part| self.sizes[*part as usize] > 0)
            .map(Parts::from)
            .collect()
    }

    pub(crate) fn read(files: &Files, number: u32) -> io::Result<Self> {
        let mut summary = Self::default();
        for part in Part::ALL {
            let metadata = if_exists(fs::metadata(files.path(number, part.extension())))?;
            summary.sizes[part as usize] = metadata.map_or(0, |metadata| metadata.len());
        }
        if let Some(blocks) = Blocks::open(files, number, Part::Meta)? {
            (summary.rows, summary.stamp_us) = (blocks.rows, blocks.stamp_us);
        } else {
            // Damaged: the time of the file counts.
            let changed = fs::metadata(files.path(number, "meta"))?.modified()?;
            let age = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            summary.stamp_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        }
        Ok(summary)
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: u32,
    length: u32,
    offset: u64,
    raw: u32,
    sum: u32,
}

/// One of the files, open.
#[derive(Debug)]
struct Blocks {
    segment: u32,
    part: Part,
    damage: Arc<DamageLog>,
    file: File,
    index: Vec<Block>,
    rows: u32,
    stamp_us: u64,
    /// The block that was read last, and where its rows are.
    current: usize,
    bytes: Vec<u8>,
    at: Vec<(u32, Range<usize>)>,
}

impl Blocks {
    /// None if the file does not exist or is damaged.
    fn open(files: &Files, number: u32, part: Part) -> io::Result<Option<Self>> {
        let Some(file) = if_exists(File::open(files.path(number, part.extension())))? else {
            return Ok(None);
        };
        let length = file.metadata()?.len();
        let damage = Arc::clone(&files.damage);
        let of = (number, part.extension());
        let damaged = || {
            damage.record(number, part.extension(), 0, length.max(1));
            Ok(None)
        };
        if length < (HEADER_BYTES + TAIL_BYTES) as u64 {
            return damaged();
        }
        let mut head = [0; HEADER_BYTES];
        damage.read(&file, of, 0, &mut head)?;
        let mut tail = [0; TAIL_BYTES];
        damage.read(&file, of, length - TAIL_BYTES as u64, &mut tail)?;
        let (count, offset) = (u32_at(&tail, 0), u64_at(&tail, 16));
        let index_length = u64::from(count) * INDEX_ENTRY_BYTES as u64;
        let valid = head[..8] == MAGIC
            && u32_at(&head, 8) == VERSION
            && u32_at(&head, 12) == part as u32
            && tail[36..] == TAIL_MAGIC
            && index_length <= MAX_INDEX_BYTES
            && offset.checked_add(index_length) == Some(length - TAIL_BYTES as u64);
        if !valid {
            return damaged();
        }
        let mut index = vec![0; index_length as usize];
        damage.read(&file, of, offset, &mut index)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&index);
        sum.update(&tail[..32]);
        if sum.finalize() != u32_at(&tail, 32) {
            return damaged();
        }
        let block = |entry: &[u8]| Block {
            first: u32_at(entry, 0),
            length: u32_at(entry, 4),
            offset: u64_at(entry, 8),
            raw: u32_at(entry, 16),
            sum: u32_at(entry, 20),
        };
        Ok(Some(Self {
            segment: number,
            part,
            damage,
            file,
            index: index.chunks_exact(INDEX_ENTRY_BYTES).map(block).collect(),
            rows: u32_at(&tail, 4),
            stamp_us: u64_at(&tail, 8),
            current: usize::MAX,
            bytes: Vec::new(),
            at: Vec::new(),
        }))
    }

    /// Reads a block; a damaged one has no rows.
    fn load_block(&mut self, number: usize) -> io::Result<()> {
        if self.current == number {
            return Ok(());
        }
        // A block that cannot be read now must not look like one without rows.
        self.current = usize::MAX;
        self.at.clear();
        let block = self.index[number];
        let decompressed = self.decompress_block(block)?;
        self.current = number;
        let Some(bytes) = decompressed else {
            let (kind, length) = (self.part.extension(), u64::from(block.length).max(1));
            self.damage.record(self.segment, kind, block.offset, length);
            return Ok(());
        };
        self.bytes = bytes;
        let mut start = 0;
        while let Some(head) = self.bytes.get(start..start + ROW_HEADER_BYTES) {
            let end = start + ROW_HEADER_BYTES + u32_at(head, 4) as usize;
            if end > self.bytes.len() {
                break;
            }
            self.at.push((u32_at(head, 0), start + ROW_HEADER_BYTES..end));
            start = end;
        }
        Ok(())
    }

    /// The rows of a block; none if it is damaged.
    fn decompress_block(&self, block: Block) -> io::Result<Option<Vec<u8>>> {
        if block.raw > MAX_BLOCK_BYTES || block.length > MAX_BLOCK_BYTES {
            return Ok(None);
        }
        let mut compressed = vec![0; block.length as usize];
        let of = (self.segment, self.part.extension());
        self.damage.read(&self.file, of, block.offset, &mut compressed)?;
        if crc32fast::hash(&compressed) != block.sum {
            return Ok(None);
        }
        Ok(decompress(&compressed, block.raw as usize))
    }

    /// The fields of the row at `offset`.
    fn row(&mut self, offset: u32) -> io::Result<Option<&[u8]>> {
        match self.next(offset)? {
            Some((found, range)) if found == offset => Ok(Some(&self.bytes[range])),
            _ => Ok(None),
        }
    }

    /// The first row at or after `offset`.
    fn next(&mut self, offset: u32) -> io::Result<Option<(u32, Range<usize>)>> {
        let behind = self.index.partition_point(|block| block.first <= offset);
        for number in behind.saturating_sub(1)..self.index.len() {
            self.load_block(number)?;
            let at = self.at.partition_point(|(found, _)| *found < offset);
            if let Some(row) = self.at.get(at) {
                return Ok(Some(row.clone()));
            }
        }
        Ok(None)
    }
}

thread_local! {
    /// Reused: creating one takes as long as decompressing a block of metadata.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// None if the data are damaged.
fn decompress(compressed: &[u8], length: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new().ok()?),
        };
        decompressor.decompress(compressed, length).ok()
    })
}

/// A sealed segment, open for reading.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) number: u32,
    lane: u16,
    meta: Option<Blocks>,
    /// Payloads of completed transactions, and all other transactions; none if only metadata is
    /// read.
    payloads: Option<(Option<Blocks>, Option<Blocks>)>,
    /// Files that should exist and do not.
    missing: Parts,
}

impl Sealed {
    /// Opens a sealed segment to read transactions with or without their payload.
    pub(crate) fn open(
        files: &Files,
        number: u32,
        missing: Parts,
        payload: bool,
    ) -> io::Result<Self> {
        let open = |part| Blocks::open(files, number, part);
        let rest = if payload { (open(Part::Payload)?, open(Part::Failed)?) } else { (None, None) };
        Ok(Self {
            number,
            lane: files.lane,
            meta: open(Part::Meta)?,
            payloads: payload.then_some(rest),
            missing,
        })
    }

    /// The transaction at `offset`, if there is one.
    pub(crate) fn get(&mut self, offset: u32) -> io::Result<Option<Transaction>> {
        let position = Position::new(self.number, offset);
        let address = Some(Address { lane: self.lane, position });
        let mut transaction = Transaction { address, ..Transaction::default() };
        let Some(meta) = &mut self.meta else { return Ok(None) };
        let Some(fields) = meta.row(offset)? else { return Ok(None) };
        transaction.add_fields(fields, true);
        let Some((payload, failed)) = &mut self.payloads else { return Ok(Some(transaction)) };
        let is_failed = transaction.outcome != Outcome::Completed;
        match if is_failed { failed } else { payload } {
            None => {
                let part = if is_failed { Parts::FAILED } else { Parts::PAYLOAD };
                transaction.missing = self.missing.intersects(part);
                transaction.expired = !transaction.missing;
            }
            Some(rest) => match rest.row(offset)? {
                None => transaction.damaged = true,
                Some(fields) if is_failed => {
                    transaction = Transaction { address, ..Transaction::default() };
                    transaction.add_fields(fields, true);
                }
                Some(fields) => transaction.add_fields(fields, true),
            },
        }
        Ok(Some(transaction))
    }

    /// Calls `each` with the transaction at `offset`, if it is complete.
    pub(crate) fn visit(
        &mut self,
        offset: u32,
        each: &mut dyn FnMut(&Undecoded<'_>),
    ) -> io::Result<()> {
        let Some(meta) = &mut self.meta else { return Ok(()) };
        let Some(meta) = meta.row(offset)? else { return Ok(()) };
        let rest = match &mut self.payloads {
            Some((payload, _)) if is_completed(meta) => payload,
            Some((_, failed)) => failed,
            None => return Ok(()),
        };
        let Some(rest) = rest else { return Ok(()) };
        if let Some(rest) = rest.row(offset)? {
            each(&Undecoded::new(&[(Kind::Completed, meta), (Kind::Completed, rest)]));
        }
        Ok(())
    }

    /// Offset of the first transaction at or after `offset`.
    pub(crate) fn next(&mut self, offset: u32) -> io::Result<Option<u32>> {
        let Some(meta) = &mut self.meta else { return Ok(None) };
        Ok(meta.next(offset)?.map(|(found, _)| found))
    }
}

/// The greatest sequence number in the last of these sealed segments that has any; 0 if none has.
pub(crate) fn last_sequence(files: &Files, sealed: &BTreeSet<u32>) -> io::Result<u64> {
    for number in sealed.iter().rev() {
        let mut segment = Sealed::open(files, *number, Parts::default(), false)?;
        let (mut offset, mut last) = (0, 0);
        while let Some(found) = segment.next(offset)? {
            last = segment.get(found)?.map_or(last, |one| last.max(one.sequence));
            let Some(behind) = found.checked_add(1) else { break };
            offset = behind;
        }
        if last > 0 {
            return Ok(last);
        }
    }
    Ok(0)
}
