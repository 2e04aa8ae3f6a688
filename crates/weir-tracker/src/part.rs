//! A part of the index: up to [`MAX_ROWS`] transactions, first in memory, then in a folder.
//!
//! A part on disk is immutable. Its folder has the file `columns`, which also states the range of
//! the journal that the part covers, and the file `terms`. The folder is written under another name
//! and then renamed, so that it is complete or absent. Transactions that were only in memory when
//! the process ended are read from the journal again.

pub(crate) mod bitmap;
pub(crate) mod block;
pub(crate) mod columns;
pub(crate) mod file;
pub(crate) mod keys;
pub(crate) mod pairs;
pub(crate) mod row;
pub(crate) mod terms;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weir_journal::{
    Address, Position, Transaction, create_folder, failpoint, if_exists, sync_folder,
};

use self::bitmap::Bitmap;
use self::block::{Block, Depth, ROWS};
use self::columns::Columns;
use self::file::{Fetch, Head, PartHead, PartMetadata, Span};
use self::pairs::PairFilter;
use self::terms::{BlockTerms, Reader};
use crate::error::Error;
use crate::field::Number;

pub(crate) use self::file::MAX_ROWS;

/// Most term hashes of a part in memory, and what filters take in their place.
const MAX_HASHES: usize = 6 << 20;
/// Most bytes of business keys of a part in memory.
const MAX_KEY_BYTES: usize = 8 << 20;

/// A part in memory, as searches see it.
#[derive(Debug)]
pub(crate) struct OpenPart {
    pub(crate) columns: Columns,
    pub(crate) blocks: Vec<BlockTerms>,
    pub(crate) depth: Depth,
    pub(crate) seed: u64,
}

impl OpenPart {
    pub(crate) fn new(depth: Depth, seed: u64) -> Self {
        Self { columns: Columns::default(), blocks: Vec::new(), depth, seed }
    }

    /// Clears it for the next part. The memory is kept for it.
    pub(crate) fn reset(&mut self, seed: u64) {
        self.columns.clear();
        self.blocks.clear();
        self.seed = seed;
    }

    /// Address of a row in the journal.
    pub(crate) fn address(&self, row: usize) -> Address {
        let position = Position::from_bits(self.columns.positions[row]);
        Address { lane: self.columns.lanes[row] as u16, position }
    }

    /// Rows of blocks that may have a term, among them always the unfinished block.
    pub(crate) fn blocks(&self, term: &[u8]) -> Bitmap {
        let hash = terms::short(terms::hash(self.seed, term));
        let rows = self.columns.len();
        let mut found = Bitmap::none(rows);
        for block in 0..rows.div_ceil(ROWS) {
            let finished = self.blocks.get(block);
            if finished.is_none_or(|block| block.may_have(hash)) {
                found.add_block(block);
            }
        }
        found
    }

    /// Removes the blocks that cannot have a phrase from `candidates`.
    pub(crate) fn without_phrase(&self, phrase: &[String], candidates: &mut Bitmap) {
        let hashes = terms::short_hashes(self.seed, phrase);
        for (group, filter) in filters(&self.blocks).enumerate() {
            if let Some(filter) = filter
                && !filter.may_have(&filter.common.pairs(&hashes))
            {
                pairs::blocks(group).for_each(|block| candidates.remove_block(block));
            }
        }
    }
}

/// The filter of each complete group of blocks.
fn filters(blocks: &[BlockTerms]) -> impl Iterator<Item = Option<&PairFilter>> {
    blocks.chunks_exact(pairs::GROUP).map(|group| group[pairs::GROUP - 1].pairs.as_ref())
}

/// Collects the terms of a part.
#[derive(Debug)]
pub(crate) struct Build {
    block: Block,
    rows: usize,
    hashes: usize,
    key_bytes: usize,
    depth: Depth,
}

impl Build {
    pub(crate) fn new(depth: Depth) -> Self {
        Self { block: Block::new(), rows: 0, hashes: 0, key_bytes: 0, depth }
    }

    /// The seed of the terms' hashes.
    pub(crate) fn seed(&self) -> u64 {
        self.block.seed()
    }

    /// Adds the terms of a transaction.
    pub(crate) fn add_terms(&mut self, transaction: &Transaction) {
        failpoint::pass("index.words");
        self.block.add(transaction, self.depth);
    }

    /// Ends the row whose terms were added last. Returns the block if that is full.
    pub(crate) fn end_row(&mut self, transaction: &Transaction) -> Option<BlockTerms> {
        self.rows += 1;
        self.key_bytes += keys::size(transaction);
        self.rows.is_multiple_of(ROWS).then(|| {
            let finished = self.block.finish();
            self.hashes += finished.len() + finished.pairs.as_ref().map_or(0, PairFilter::size);
            finished
        })
    }

    /// The terms of the unfinished block, if there is one.
    pub(crate) fn last(&mut self) -> Option<BlockTerms> {
        (!self.rows.is_multiple_of(ROWS)).then(|| self.block.finish())
    }

    /// Rows until the block is full.
    pub(crate) fn left(&self) -> usize {
        ROWS - self.rows % ROWS
    }

    /// Whether the part has to be written to disk.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= MAX_ROWS || self.hashes > MAX_HASHES || self.key_bytes > MAX_KEY_BYTES
    }
}

impl OpenPart {
    /// Writes the part into the folder `building`, which is then renamed to `folder`; `provisional`
    /// as in [`crate::Settings`].
    pub(crate) fn write(
        &self,
        spans: Vec<Span>,
        provisional: bool,
        building: &Path,
        folder: &Path,
    ) -> Result<SealedPart, Error> {
        if_exists(fs::remove_dir_all(building)).map_err(Error::io(building))?;
        create_folder(building).map_err(Error::io(building))?;
        let terms = terms::encode(self.seed, &self.blocks);
        let metadata = PartMetadata {
            spans,
            terms: (terms.len() as u64, crc32fast::hash(&terms)),
            depth: self.depth,
            provisional,
        };
        let path = building.join("terms");
        write(&path, &terms).map_err(Error::io(&path))?;
        drop(terms);
        failpoint::pass("index.terms");
        let path = building.join("columns");
        let filters: Vec<_> = filters(&self.blocks).collect();
        let bytes = file::encode(&self.columns, &metadata, &filters);
        write(&path, &bytes).map_err(Error::io(&path))?;
        sync_folder(building).map_err(Error::io(building))?;
        failpoint::pass("index.columns");
        let partition = folder.parent().unwrap_or(folder);
        create_folder(partition).map_err(Error::io(partition))?;
        fs::rename(building, folder).map_err(Error::io(folder))?;
        sync_folder(partition).map_err(Error::io(partition))?;
        SealedPart::written(folder)
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn checksum(mut file: &File) -> io::Result<(u64, u32)> {
    let (mut hasher, mut length) = (crc32fast::Hasher::new(), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((length, hasher.finalize())),
            read => {
                hasher.update(&chunk[..read]);
                length += read as u64;
            }
        }
    }
}

/// A part on disk.
#[derive(Debug)]
pub(crate) struct SealedPart {
    pub(crate) folder: PathBuf,
    pub(crate) head: Head,
    /// Read, and compared with its checksum, with the first lookup of a term.
    terms: OnceLock<Reader>,
}

impl SealedPart {
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let head = Head::open(&folder.join("columns"))?;
        Ok(Self { folder: folder.to_owned(), head, terms: OnceLock::new() })
    }

    /// A part that was just written: what was written need not be compared with its checksums.
    fn written(folder: &Path) -> Result<Self, Error> {
        let part = Self::open(folder)?;
        part.head.trust();
        let path = folder.join("terms");
        let file = File::open(&path).map_err(Error::io(&path))?;
        part.read_terms(&path, &file)?;
        Ok(part)
    }

    /// A part whose files are fetched when they are needed.
    pub(crate) fn remote(
        folder: PathBuf,
        head: PartHead,
        lane: u16,
        fetch: Fetch,
    ) -> Result<Self, Error> {
        let head = Head::remote(folder.join("columns"), head, lane, fetch)?;
        Ok(Self { folder, head, terms: OnceLock::new() })
    }

    /// First and last time of its transactions.
    pub(crate) fn times(&self) -> (u64, u64) {
        self.head.bounds(Number::Time).unwrap_or((0, u64::MAX))
    }

    /// Whether it may have transactions with ids in this range.
    pub(crate) fn may_have(&self, (low, high): (u128, u128)) -> bool {
        let (min, max) = self.head.id_bounds().unwrap_or((0, u64::MAX));
        (low >> 64) as u64 <= max && min <= (high >> 64) as u64
    }

    /// Rows of blocks that may have a term.
    pub(crate) fn blocks(&self, term: &[u8]) -> Result<Bitmap, Error> {
        let (path, file) = self.open_terms()?;
        let reader = self.terms(&path, &file)?;
        let mut found = Bitmap::none(self.head.rows);
        let all = reader.blocks(&file, term, |block| found.add_block(block));
        all.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Error::damaged(&path, "its buckets make no sense")
            }
            _ => Error::io(&path)(error),
        })?;
        Ok(found)
    }

    /// The stored hashes of words.
    pub(crate) fn hashes(&self, words: &[String]) -> Result<Vec<u32>, Error> {
        let (path, file) = self.open_terms()?;
        Ok(terms::short_hashes(self.terms(&path, &file)?.seed(), words))
    }

    fn open_terms(&self) -> Result<(PathBuf, File), Error> {
        let path = self.folder.join("terms");
        self.head.fetch(&path)?;
        let file = File::open(&path).map_err(Error::io(&path))?;
        Ok((path, file))
    }

    fn terms(&self, path: &Path, file: &File) -> Result<&Reader, Error> {
        if let Some(reader) = self.terms.get() {
            return Ok(reader);
        }
        if checksum(file).map_err(Error::io(path))? != self.head.metadata.terms {
            return Err(Error::damaged(path, "its checksum is wrong"));
        }
        self.read_terms(path, file)
    }

    fn read_terms(&self, path: &Path, file: &File) -> Result<&Reader, Error> {
        let reader = Reader::open(file).map_err(Error::io(path))?;
        let unknown = || Error::damaged(path, "not a file of terms of version 1");
        let reader = reader.ok_or_else(unknown)?;
        Ok(self.terms.get_or_init(|| reader))
    }
}
