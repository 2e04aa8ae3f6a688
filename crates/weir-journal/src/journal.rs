//! Opening a journal: one weir per folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::{Address, Position};
use crate::lane::{Lane, Shared};
use crate::reader::{self, Reader};
use crate::record::{Completed, Outcome, Transaction};
use crate::recovery::{self, RecoveryReport};
use crate::segment;

/// Most lanes of a journal.
const LANES: u16 = 1024;

/// How a journal is kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lanes to write to, one per worker.
    pub lanes: u16,
    /// Length of a segment in bytes.
    pub segment_bytes: u32,
    /// Most bytes that the segments of a lane may take.
    pub lane_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { lanes: 1, segment_bytes: 64 << 20, lane_bytes: 4 << 30 }
    }
}

impl Settings {
    /// Most transactions that a lane may have open: their list and the room kept for them take
    /// less than half a segment.
    pub(crate) fn open_limit(&self) -> usize {
        (self.segment_bytes as usize / 256).min(16_384)
    }
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it open.
    #[error("the data folder is in use by process {pid}")]
    Held {
        /// Its process id as it wrote it, or `?`.
        pid: String,
    },
    /// A file could not be made, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

/// What all lanes have done since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Appends refused.
    pub refused: u64,
    /// Transactions of which only outcome and status were written.
    pub shortened: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Segments begun.
    pub segments: u64,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    shared: Vec<Arc<Shared>>,
    _lock: File,
}

impl Journal {
    /// Opens the journal in `data`, recovers it, and gives one lane for each worker.
    ///
    /// # Errors
    /// [`Error::Held`] if another process has it open, [`Error::Io`] if files fail.
    pub fn open(
        data: &Path,
        settings: Settings,
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        let folder = data.join("journal");
        segment::folder(&folder).map_err(at(&folder))?;
        let lock = lock(&folder.join("lock"))?;
        let mut report = RecoveryReport::default();
        let (mut lanes, mut shared) = (Vec::new(), Vec::new());
        for index in 0..LANES {
            let path = lane_folder(&folder, index);
            if index >= settings.lanes && !path.exists() {
                break;
            }
            segment::folder(&path).map_err(at(&path))?;
            let past = recovery::recover(index, &path, &mut report).map_err(at(&path))?;
            let ends = Arc::new(Shared::default());
            ends.end.store(Position::new(past.next_segment, 0).to_bits(), Ordering::Release);
            let mut lane = Lane::new(index, path, settings, Arc::clone(&ends), past);
            for ticket in lane.tickets() {
                let end = Completed { outcome: Outcome::Interrupted, ..Completed::default() };
                match lane.completed(ticket, &end) {
                    Ok(_) => report.interrupted += 1,
                    Err(_) => report.left_open += 1,
                }
            }
            shared.push(ends);
            if index < settings.lanes {
                lanes.push(lane);
            }
        }
        Ok((Self { folder, shared, _lock: lock }, lanes, report))
    }

    /// Number of lanes that can be read: those of this opening and of earlier ones.
    #[must_use]
    pub fn lanes(&self) -> u16 {
        self.shared.len() as u16
    }

    /// A reader of a lane from a position on. A lane that does not exist reads as empty.
    #[must_use]
    pub fn reader(&self, lane: u16, from: Position) -> Reader {
        let shared = self.shared.get(usize::from(lane)).cloned().unwrap_or_default();
        Reader::new(lane, lane_folder(&self.folder, lane), shared, from)
    }

    /// The transaction at an address; none if the journal does not have it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn get(&self, address: Address) -> io::Result<Option<Transaction>> {
        reader::get(&lane_folder(&self.folder, address.lane), address)
    }

    /// What was done since the journal was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for shared in &self.shared {
            sum.records += shared.records.load(Ordering::Relaxed);
            sum.bytes += shared.bytes.load(Ordering::Relaxed);
            sum.refused += shared.refused.load(Ordering::Relaxed);
            sum.shortened += shared.shortened.load(Ordering::Relaxed);
            sum.errors += shared.errors.load(Ordering::Relaxed);
            sum.segments += shared.segments.load(Ordering::Relaxed);
        }
        sum
    }
}

fn lane_folder(folder: &Path, lane: u16) -> PathBuf {
    folder.join(format!("lane-{lane:04}"))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path).unwrap_or_default();
            let pid = if pid.is_empty() { "?".to_owned() } else { pid };
            return Err(Error::Held { pid });
        }
        Err(TryLockError::Error(source)) => return Err(at(path)(source)),
    }
    file.set_len(0).map_err(at(path))?;
    write!(file, "{}", std::process::id()).map_err(at(path))?;
    Ok(file)
}
