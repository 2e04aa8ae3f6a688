//! Version 1 of a sealed segment: three files, each dropped on its own. All numbers are
//! little-endian.
//!
//! - `N.meta`: every transaction, without what may be secret or long.
//! - `N.payload`: heads, bodies, properties and logs of completed transactions.
//! - `N.failed`: every other transaction whole.
//!
//! A file begins with magic `WEIRSEAL` (8), version `u32` and part `u32` (0, 1, 2 as above). Blocks
//! follow, each a zstd frame of rows: offset of the transaction's `completed` frame in segment `N`
//! `u32`, length `u32`, then fields as in [`crate::record`]. Rows are in the order of their offsets.
//! Behind the blocks stands their index, for each: offset of the first row `u32`, length `u32`,
//! place in the file `u64`, length when decompressed `u32`, CRC-32 of the compressed bytes `u32`.
//! The last 40 bytes are: number of blocks `u32`, number of rows `u32`, stamp in µs since 1970
//! `u64`, place of the index `u64`, zeros (8), CRC-32 of the index and of these 32 bytes `u32`,
//! magic `SEAL`. The stamp is the time of the newest transaction, but never before that of the
//! segment before it, so that a clock that jumps back does not make it old; unless that one lies in
//! the future, as after a clock that was ahead.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use zstd::bulk::Decompressor;

use crate::damage::Damages;
use crate::files::{Files, State};
use crate::format::{Address, Position, u32_at, u64_at};
use crate::manifest::Parts;
use crate::record::{Outcome, Transaction};

pub(crate) const MAGIC: [u8; 8] = *b"WEIRSEAL";
pub(crate) const TAIL_MAGIC: [u8; 4] = *b"SEAL";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEAD: usize = 16;
pub(crate) const TAIL: usize = 40;
pub(crate) const ENTRY: usize = 24;
/// Length of a row's head.
pub(crate) const ROW: usize = 8;
/// Longest block that is believed: the longest row and a little.
const BLOCK_LIMIT: u32 = 80 << 20;
/// Longest index that is believed.
const INDEX_LIMIT: u64 = 64 << 20;

/// One of the three files.
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

/// What is known of a sealed segment without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Lengths of the files by [`Part`]; 0 for one that is not there.
    pub(crate) sizes: [u64; 3],
    pub(crate) rows: u32,
    pub(crate) stamp_us: u64,
}

impl Summary {
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    pub(crate) fn read(files: &Files, number: u32) -> io::Result<Self> {
        let mut summary = Self::default();
        for part in Part::ALL {
            match fs::metadata(files.path(number, part.extension())) {
                Ok(metadata) => summary.sizes[part as usize] = metadata.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(blocks) = Blocks::open(files, number, Part::Meta)? {
            (summary.rows, summary.stamp_us) = (blocks.rows, blocks.stamp_us);
        } else {
            // Damaged: as old as its file is.
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
    place: u64,
    raw: u32,
    sum: u32,
}

/// One of the files, opened.
#[derive(Debug)]
struct Blocks {
    segment: u32,
    part: Part,
    damages: Arc<Damages>,
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
    /// None if the file is not there or cannot be used.
    fn open(files: &Files, number: u32, part: Part) -> io::Result<Option<Self>> {
        let file = match File::open(files.path(number, part.extension())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let damages = Arc::clone(&files.damages);
        let of = (number, part.extension());
        let lost = || {
            damages.note(number, part.extension(), 0, length.max(1));
            Ok(None)
        };
        if length < (HEAD + TAIL) as u64 {
            return lost();
        }
        let mut head = [0; HEAD];
        damages.read(&file, of, 0, &mut head)?;
        let mut tail = [0; TAIL];
        damages.read(&file, of, length - TAIL as u64, &mut tail)?;
        let (count, place) = (u32_at(&tail, 0), u64_at(&tail, 16));
        let index_length = u64::from(count) * ENTRY as u64;
        let whole = head[..8] == MAGIC
            && u32_at(&head, 8) == VERSION
            && u32_at(&head, 12) == part as u32
            && tail[36..] == TAIL_MAGIC
            && index_length <= INDEX_LIMIT
            && place.checked_add(index_length) == Some(length - TAIL as u64);
        if !whole {
            return lost();
        }
        let mut index = vec![0; index_length as usize];
        damages.read(&file, of, place, &mut index)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&index);
        sum.update(&tail[..32]);
        if sum.finalize() != u32_at(&tail, 32) {
            return lost();
        }
        let block = |entry: &[u8]| Block {
            first: u32_at(entry, 0),
            length: u32_at(entry, 4),
            place: u64_at(entry, 8),
            raw: u32_at(entry, 16),
            sum: u32_at(entry, 20),
        };
        Ok(Some(Self {
            segment: number,
            part,
            damages,
            file,
            index: index.chunks_exact(ENTRY).map(block).collect(),
            rows: u32_at(&tail, 4),
            stamp_us: u64_at(&tail, 8),
            current: usize::MAX,
            bytes: Vec::new(),
            at: Vec::new(),
        }))
    }

    /// Makes a block the current one; one that is damaged has no rows.
    fn enter(&mut self, number: usize) -> io::Result<()> {
        if self.current == number {
            return Ok(());
        }
        // While it cannot be read it is no current one: it is not to look as if it had no rows.
        self.current = usize::MAX;
        self.at.clear();
        let block = self.index[number];
        let unpacked = self.unpack(block)?;
        self.current = number;
        let Some(bytes) = unpacked else {
            let (kind, length) = (self.part.extension(), u64::from(block.length).max(1));
            self.damages.note(self.segment, kind, block.place, length);
            return Ok(());
        };
        self.bytes = bytes;
        let mut start = 0;
        while let Some(head) = self.bytes.get(start..start + ROW) {
            let end = start + ROW + u32_at(head, 4) as usize;
            if end > self.bytes.len() {
                break;
            }
            self.at.push((u32_at(head, 0), start + ROW..end));
            start = end;
        }
        Ok(())
    }

    /// The rows of a block; none if it is damaged.
    fn unpack(&self, block: Block) -> io::Result<Option<Vec<u8>>> {
        if block.raw > BLOCK_LIMIT || block.length > BLOCK_LIMIT {
            return Ok(None);
        }
        let mut packed = vec![0; block.length as usize];
        let of = (self.segment, self.part.extension());
        self.damages.read(&self.file, of, block.place, &mut packed)?;
        if crc32fast::hash(&packed) != block.sum {
            return Ok(None);
        }
        Ok(decompress(&packed, block.raw as usize))
    }

    /// The fields of the row at `offset`.
    fn row(&mut self, offset: u32) -> io::Result<Option<&[u8]>> {
        match self.next(offset)? {
            Some((found, range)) if found == offset => Ok(Some(&self.bytes[range])),
            _ => Ok(None),
        }
    }

    /// The first row at or behind `offset`.
    fn next(&mut self, offset: u32) -> io::Result<Option<(u32, Range<usize>)>> {
        let behind = self.index.partition_point(|block| block.first <= offset);
        for number in behind.saturating_sub(1)..self.index.len() {
            self.enter(number)?;
            let at = self.at.partition_point(|(found, _)| *found < offset);
            if let Some(row) = self.at.get(at) {
                return Ok(Some(row.clone()));
            }
        }
        Ok(None)
    }
}

thread_local! {
    /// Kept, as making one costs as much as decompressing a block of metadata.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// None if it is damaged.
fn decompress(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new().ok()?),
        };
        decompressor.decompress(packed, length).ok()
    })
}

/// A sealed segment opened for reading.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) number: u32,
    lane: u16,
    meta: Option<Blocks>,
    /// Payloads of completed transactions, and all others; none if they are not asked for.
    rest: Option<(Option<Blocks>, Option<Blocks>)>,
    /// What should be there and is not.
    gone: Parts,
}

impl Sealed {
    /// Opens it for reading transactions whole, or without their `payload`.
    pub(crate) fn open(
        files: &Files,
        state: &State,
        number: u32,
        payload: bool,
    ) -> io::Result<Self> {
        let gone = state.gone.get(&number).copied().unwrap_or_default();
        let open = |part| Blocks::open(files, number, part);
        let rest = if payload { (open(Part::Payload)?, open(Part::Failed)?) } else { (None, None) };
        Ok(Self {
            number,
            lane: files.lane,
            meta: open(Part::Meta)?,
            rest: payload.then_some(rest),
            gone,
        })
    }

    /// The transaction at `offset`, if there is one.
    pub(crate) fn get(&mut self, offset: u32) -> io::Result<Option<Transaction>> {
        let position = Position::new(self.number, offset);
        let address = Some(Address { lane: self.lane, position });
        let mut transaction = Transaction { address, ..Transaction::default() };
        let Some(meta) = &mut self.meta else { return Ok(None) };
        let Some(fields) = meta.row(offset)? else { return Ok(None) };
        transaction.absorb(fields, true);
        let Some((payload, failed)) = &mut self.rest else { return Ok(Some(transaction)) };
        let whole = transaction.outcome != Outcome::Completed;
        match if whole { failed } else { payload } {
            None => {
                let part = if whole { Parts::FAILED } else { Parts::PAYLOAD };
                transaction.missing = self.gone.has(part);
                transaction.expired = !transaction.missing;
            }
            Some(rest) => match rest.row(offset)? {
                None => transaction.damaged = true,
                Some(fields) if whole => {
                    transaction = Transaction { address, ..Transaction::default() };
                    transaction.absorb(fields, true);
                }
                Some(fields) => transaction.absorb(fields, true),
            },
        }
        Ok(Some(transaction))
    }

    /// Offset of the first transaction at or behind `offset`.
    pub(crate) fn next(&mut self, offset: u32) -> io::Result<Option<u32>> {
        let Some(meta) = &mut self.meta else { return Ok(None) };
        Ok(meta.next(offset)?.map(|(found, _)| found))
    }
}
