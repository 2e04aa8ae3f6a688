//! Access to the file system; a worker never waits for a disk.
//!
//! A worker reads only from memory: a path whose names are all in the cache of the system
//! (`RESOLVE_CACHED`, Linux 5.12), bytes in the page cache (`RWF_NOWAIT`). An operation that would
//! block is repeated on another thread.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use std::cell::OnceCell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Threads of one worker that wait for a disk at a time; further operations wait for a thread.
const MAX_THREADS: usize = 16;
/// Attempts to follow a path that changes meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// Whether an operation may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// On a worker.
    NonBlocking,
    /// On another thread.
    Blocking,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// Not in memory: a thread must repeat the operation.
    WouldBlock,
    /// The file exists and cannot be read.
    Unreadable(io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(errno.into())
    }
}

/// Opens a folder; `None` if it does not exist.
pub(crate) fn open_folder(path: &Path, mode: IoMode) -> Result<Option<OwnedFd>, ReadError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    open(CWD, path.as_os_str().as_encoded_bytes(), flags, ResolveFlags::empty(), mode)
}

/// Opens a path beneath a folder; `None` if it does not exist, or leads out of the folder.
///
/// The system checks that the path, symbolic links included, stays beneath (openat2(2),
/// `RESOLVE_BENEATH`), so that no change in between matters. A pipe or a device does not block the
/// caller.
pub(crate) fn open_beneath(
    folder: &OwnedFd,
    path: &[u8],
    mode: IoMode,
) -> Result<Option<OwnedFd>, ReadError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(folder, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS, mode)
}

fn open(
    folder: impl AsFd,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
    mode: IoMode,
) -> Result<Option<OwnedFd>, ReadError> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = match mode {
        IoMode::NonBlocking => resolve | ResolveFlags::CACHED,
        IoMode::Blocking => resolve,
    };
    for _ in 0..MAX_ATTEMPTS {
        return match rustix::fs::openat2(&folder, path, flags, Mode::empty(), resolve) {
            Ok(file) => Ok(Some(file)),
            // `EXDEV`: the path leads out of the folder.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV,
            ) => Ok(None),
            // `INVAL` from a system without `RESOLVE_CACHED`.
            Err(Errno::AGAIN | Errno::INVAL) if mode == IoMode::NonBlocking => {
                Err(ReadError::WouldBlock)
            }
            // A folder of the path was renamed meanwhile.
            Err(Errno::AGAIN) => continue,
            Err(error) => Err(error.into()),
        };
    }
    Err(Errno::AGAIN.into())
}

/// Metadata of an open file.
pub(crate) fn stat(file: &OwnedFd) -> Result<Stat, ReadError> {
    Ok(rustix::fs::fstat(file)?)
}

/// Reads a file of about `size` bytes to its end, and at most one byte more than that.
pub fn read_all(file: &OwnedFd, size: usize, mode: IoMode) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; size + 1];
    let mut filled = 0;
    while filled < bytes.len() {
        match read(file, filled as u64, &mut bytes[filled..], mode)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Reads bytes at an offset; 0 is the end.
pub(crate) fn read(
    file: &OwnedFd,
    at: u64,
    room: &mut [u8],
    mode: IoMode,
) -> Result<usize, ReadError> {
    let flags = match mode {
        IoMode::NonBlocking => ReadWriteFlags::NOWAIT,
        IoMode::Blocking => ReadWriteFlags::empty(),
    };
    loop {
        return match rustix::io::preadv2(file, &mut [IoSliceMut::new(room)], at, flags) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => continue,
            // Not every file system supports `RWF_NOWAIT`.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) if mode == IoMode::NonBlocking => {
                Err(ReadError::WouldBlock)
            }
            Err(error) => Err(error.into()),
        };
    }
}

thread_local! {
    static THREADS: OnceCell<Arc<Semaphore>> = const { OnceCell::new() };
}

/// Runs an operation that may block on another thread.
///
/// The thread belongs to the runtime of this worker, so it shares the table of descriptors.
pub async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let threads = THREADS
        .with(|threads| Arc::clone(threads.get_or_init(|| Arc::new(Semaphore::new(MAX_THREADS)))));
    let permit = threads.acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        // Held until the operation ends, even if its request is cancelled.
        let _permit = permit;
        work()
    });
    done.await.unwrap_or_else(|error| Err(ReadError::Unreadable(io::Error::other(error))))
}
