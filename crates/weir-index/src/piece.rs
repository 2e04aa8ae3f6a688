//! A piece of the index: up to [`MOST_ROWS`] transactions, first in memory, then in a folder.
//!
//! A piece that is written never changes. Its folder holds the file `columns`, which says where in
//! the journal it begins and ends, and the folder `terms`. It is made beside the others and takes
//! its place by being renamed, so that it is there whole or not at all: what was only in memory
//! when the process ended is read again from the journal.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use weir_journal::{Address, Position, Transaction};

use crate::bitmap::Bitmap;
use crate::block::{Block, Depth, ROWS};
use crate::columns::Columns;
use crate::error::Error;
use crate::file::{self, About, Head, TermsFile};
use crate::postings::{Reader, Writer};

pub(crate) use crate::file::MOST_ROWS;

/// Most hashes of terms that a piece in memory may hold.
const MOST_HASHES: usize = 6 << 20;
/// Most bytes that the terms of a piece may take while they are gathered.
const MOST_MEMORY: usize = 96 << 20;

/// The hashes of a finished block's terms.
#[derive(Debug)]
pub(crate) struct BlockHashes {
    hashes: Box<[u32]>,
    overflowed: bool,
}

/// A piece that grows, as far as searches need it.
#[derive(Debug)]
pub(crate) struct OpenPiece {
    pub(crate) columns: Columns,
    pub(crate) blocks: Vec<BlockHashes>,
    pub(crate) depth: Depth,
    pub(crate) random: RandomState,
}

impl OpenPiece {
    pub(crate) fn new(depth: Depth, random: RandomState) -> Self {
        Self { columns: Columns::default(), blocks: Vec::new(), depth, random }
    }

    /// Where a row is in the journal.
    pub(crate) fn address(&self, row: usize) -> Address {
        let position = Position::from_bits(self.columns.positions[row]);
        Address { lane: self.columns.lanes[row] as u16, position }
    }

    /// The rows whose block may have a term; those of the unfinished block always may.
    pub(crate) fn blocks(&self, term: &[u8]) -> Bitmap {
        use std::hash::BuildHasher;
        let hash = self.random.hash_one(term) as u32;
        let rows = self.columns.len();
        let mut found = Bitmap::none(rows);
        for block in 0..rows.div_ceil(ROWS) {
            let finished = self.blocks.get(block);
            if finished.is_none_or(|block| block.overflowed || block.hashes.contains(&hash)) {
                found.add_block(block);
            }
        }
        found
    }
}

/// What gathers the terms of a piece.
#[derive(Debug)]
pub(crate) struct Build {
    folder: PathBuf,
    writer: Writer,
    block: Block,
    rows: usize,
    hashes: usize,
    depth: Depth,
}

impl Build {
    /// Begins in `folder`, which is emptied.
    pub(crate) fn begin(folder: &Path, depth: Depth) -> Result<Self, Error> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(folder)(error));
            }
            _ => {}
        }
        let terms = folder.join("terms");
        make_folder(&terms)?;
        let writer = Writer::create(&terms).map_err(Error::terms(&terms))?;
        let folder = folder.to_owned();
        Ok(Self { folder, writer, block: Block::default(), rows: 0, hashes: 0, depth })
    }

    pub(crate) fn random(&self) -> RandomState {
        self.block.random()
    }

    /// Adds a transaction; gives the block that it finishes.
    pub(crate) fn add(&mut self, transaction: &Transaction) -> Result<Option<BlockHashes>, Error> {
        self.block.add(transaction, self.depth);
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS) { self.end_block().map(Some) } else { Ok(None) }
    }

    fn end_block(&mut self) -> Result<BlockHashes, Error> {
        let finished = self.block.finish();
        self.writer.add(&finished).map_err(Error::terms(&self.folder))?;
        self.hashes += finished.hashes.len();
        let ended = BlockHashes { overflowed: finished.overflowed, hashes: finished.hashes };
        self.block.clear();
        Ok(ended)
    }

    /// Whether the piece has to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= MOST_ROWS || self.hashes > MOST_HASHES || self.writer.memory() > MOST_MEMORY
    }

    /// Writes the piece and puts it in its place.
    pub(crate) fn seal(
        mut self,
        columns: &Columns,
        spans: Vec<(Position, Position)>,
        place: &Path,
    ) -> Result<SealedPiece, Error> {
        if !self.rows.is_multiple_of(ROWS) {
            self.end_block()?;
        }
        let terms = self.folder.join("terms");
        self.writer.finish().map_err(Error::terms(&terms))?;
        let files = settle(&terms).map_err(Error::io(&terms))?;
        let about = About { spans, files, depth: self.depth };
        let path = self.folder.join("columns");
        write(&path, &file::encode(columns, &about)).map_err(Error::io(&path))?;
        sync(&self.folder)?;
        let partition = place.parent().unwrap_or(place);
        make_folder(partition)?;
        fs::rename(&self.folder, place).map_err(Error::io(place))?;
        sync(partition)?;
        SealedPiece::open(place)
    }
}

/// Makes a folder that only its owner can enter.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(Error::io(path))
}

fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io(folder))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the files of the terms durable and takes their checksums.
fn settle(terms: &Path) -> io::Result<Vec<TermsFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(terms)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Locks and the like say nothing of the terms.
        if name.starts_with('.') {
            fs::remove_file(entry.path())?;
            continue;
        }
        fs::set_permissions(entry.path(), Permissions::from_mode(0o600))?;
        let file = File::open(entry.path())?;
        file.sync_all()?;
        let (length, sum) = checksum(file)?;
        files.push(TermsFile { name, length, sum });
    }
    File::open(terms)?.sync_all()?;
    Ok(files)
}

fn checksum(mut file: File) -> io::Result<(u64, u32)> {
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

/// A piece on disk.
#[derive(Debug)]
pub(crate) struct SealedPiece {
    pub(crate) folder: PathBuf,
    pub(crate) head: Head,
    /// Opened, and compared with its checksums, when terms are looked up first.
    terms: Mutex<Option<Arc<Reader>>>,
}

impl SealedPiece {
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let head = Head::open(&folder.join("columns"))?;
        Ok(Self { folder: folder.to_owned(), head, terms: Mutex::new(None) })
    }

    /// The rows whose block may have a term.
    pub(crate) fn blocks(&self, term: &[u8]) -> Result<Bitmap, Error> {
        let reader = self.reader()?;
        let mut found = Bitmap::none(self.head.rows);
        let all = reader.blocks(term, |block| found.add_block(block));
        all.map_err(|error| Error::damaged(&self.folder, error.to_string()))?;
        Ok(found)
    }

    fn reader(&self) -> Result<Arc<Reader>, Error> {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = &*terms {
            return Ok(Arc::clone(reader));
        }
        let folder = self.folder.join("terms");
        for expected in &self.head.about.files {
            let path = folder.join(&expected.name);
            let found = File::open(&path).and_then(checksum);
            let found = found.map_err(|error| Error::damaged(&path, error.to_string()))?;
            if found != (expected.length, expected.sum) {
                return Err(Error::damaged(&path, "its checksum is wrong"));
            }
        }
        let reader = Reader::open(&folder);
        let reader = Arc::new(reader.map_err(|error| Error::damaged(&folder, error.to_string()))?);
        *terms = Some(Arc::clone(&reader));
        Ok(reader)
    }
}
