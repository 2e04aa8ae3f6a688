//! One version of a file: identity, validators, and its bytes, in memory if they are few.

use super::disk::{self, IoMode, ReadError};
use bytes::Bytes;
use rustix::fs::{FileType, Stat};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use weir_http::compress::Gzip;

/// Files up to this size are kept in memory; larger ones stay open and are read in chunks.
const MAX_IN_MEMORY_BYTES: u64 = 64 * 1024;
/// Attempts to read a file that changes meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// A file.
#[derive(Debug)]
pub struct Stored {
    identity: Identity,
    bytes: Contents,
    /// Its `ETag`, with quotes. It differs between versions, unless they have the same length and
    /// were written in the same tick of the system clock.
    pub tag: String,
    /// Time of modification in seconds since 1970.
    pub modified: i64,
    /// Value of `Last-Modified`.
    pub last_modified: String,
    /// Its gzip form, once compressed.
    gzip: OnceLock<Bytes>,
    /// It is being compressed.
    compressing: AtomicBool,
}

#[derive(Debug)]
enum Contents {
    Memory(Bytes),
    Open(OwnedFd),
}

/// Identifies one version of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        // The system's types differ by platform.
        #[expect(clippy::unnecessary_cast, reason = "not everywhere")]
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Time of modification and size, which are the same on all machines with a copy of the file.
    fn tag(&self, suffix: &str) -> String {
        let (seconds, nanos) = self.modified;
        let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        format!("\"{time:x}-{:x}{suffix}\"", self.size)
    }
}

/// Whether it is a regular file.
pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

impl Stored {
    /// Loads an open file, or returns `before` if it is unchanged. `suffix` distinguishes the tags
    /// of compressed siblings.
    pub fn load(
        file: OwnedFd,
        stat: &Stat,
        before: Option<&Arc<Self>>,
        suffix: &str,
        mode: IoMode,
    ) -> Result<Arc<Self>, ReadError> {
        let mut identity = Identity::of(stat);
        if let Some(same) = before.filter(|before| before.identity == identity) {
            return Ok(Arc::clone(same));
        }
        let mut bytes = None;
        for _ in 0..MAX_ATTEMPTS {
            if identity.size > MAX_IN_MEMORY_BYTES {
                break;
            }
            let read = disk::read_all(&file, identity.size as usize, mode)?;
            let after = Identity::of(&disk::stat(&file)?);
            if after == identity && read.len() as u64 == identity.size {
                bytes = Some(Bytes::from(read));
                break;
            }
            identity = after;
        }
        let modified = identity.modified.0;
        Ok(Arc::new(Self {
            identity,
            bytes: bytes.map_or(Contents::Open(file), Contents::Memory),
            tag: identity.tag(suffix),
            modified,
            last_modified: weir_http::date::http_date(u64::try_from(modified).unwrap_or(0)),
            gzip: OnceLock::new(),
            compressing: AtomicBool::new(false),
        }))
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.identity.size
    }

    /// All bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.bytes {
            Contents::Memory(bytes) => Some(bytes),
            Contents::Open(_) => None,
        }
    }

    /// The open file, if its bytes are not in memory.
    pub fn open(&self) -> Option<&OwnedFd> {
        match &self.bytes {
            Contents::Memory(_) => None,
            Contents::Open(file) => Some(file),
        }
    }

    /// Its memory in bytes.
    pub fn weight(&self) -> usize {
        let gzip = self.gzip.get().map_or(0, Bytes::len);
        self.in_memory().map_or(0, Bytes::len) + gzip
    }

    /// Whether the open file is still the same version.
    pub fn is_unchanged(&self) -> bool {
        let Contents::Open(file) = &self.bytes else { return true };
        disk::stat(file).is_ok_and(|stat| Identity::of(&stat) == self.identity)
    }

    /// Whether the bytes that were read belong to one version, as far as that is known: appending
    /// does not change earlier bytes.
    pub(crate) fn is_consistent(&self) -> bool {
        let Contents::Open(file) = &self.bytes else { return true };
        disk::stat(file).is_ok_and(|stat| {
            let now = Identity::of(&stat);
            now.modified == self.identity.modified || now.size > self.identity.size
        })
    }

    /// Its gzip form, if it was compressed.
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.get()
    }
}

/// The right to compress a file, which one task has at a time.
#[derive(Debug)]
pub struct Compressing(Arc<Stored>);

impl Compressing {
    /// Claims the right; `None` if the file is compressed, or being compressed.
    pub fn claim(file: &Arc<Stored>) -> Option<Self> {
        let claimed = file.gzip.get().is_some() || file.compressing.swap(true, Ordering::AcqRel);
        (!claimed).then(|| Self(Arc::clone(file)))
    }

    /// The file.
    pub fn file(&self) -> &Stored {
        &self.0
    }

    /// Compresses these bytes, the entire file, and keeps the result.
    pub fn compress(&self, bytes: &[u8], level: u32) {
        let mut gzip = Gzip::new(level);
        let mut out = Vec::new();
        if gzip.write(bytes, &mut out).and_then(|()| gzip.finish(&mut out)).is_ok() {
            out.shrink_to_fit();
            // Only the holder of the right sets it.
            let _ = self.0.gzip.set(Bytes::from(out));
        }
    }
}

impl Drop for Compressing {
    fn drop(&mut self) {
        self.0.compressing.store(false, Ordering::Release);
    }
}
