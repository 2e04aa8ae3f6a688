//! What is asked of the file system, without waiting for a disk where a worker asks.
//!
//! A worker takes what the system has in memory already: a path all of whose names are in its
//! cache (`RESOLVE_CACHED`, Linux 5.12), bytes that are in the page cache (`RWF_NOWAIT`). Whatever
//! would have to wait is done again on a thread that may.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use std::cell::OnceCell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Threads of one worker that wait for a disk at a time; whoever comes then waits for one of them.
const MAX_THREADS: usize = 16;
/// How often a path is followed that others are changing meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// A worker: nothing may be waited for.
    NonBlocking,
    /// A thread that may wait.
    Blocking,
}

/// Why something cannot be had.
#[derive(Debug)]
pub enum ReadError {
    /// It is not in memory: a thread has to ask.
    WouldBlock,
    /// It is there and cannot be read.
    Unreadable(io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(errno.into())
    }
}

/// Opens a folder to look beneath it; `None` if there is none.
pub(crate) fn open_folder(path: &Path, mode: IoMode) -> Result<Option<OwnedFd>, ReadError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    open(CWD, path.as_os_str().as_encoded_bytes(), flags, ResolveFlags::empty(), mode)
}

/// Opens what a path leads to beneath a folder; `None` if it leads nowhere, or out of it.
///
/// The system itself sees to it that the path, symbolic links included, stays beneath (openat2(2),
/// `RESOLVE_BENEATH`): what was looked at is what is opened, whatever happens meanwhile. A pipe or
/// a device does not hold up who opens it.
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
            // Also what a path is told that leads out of the folder (`EXDEV`).
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV,
            ) => Ok(None),
            // `INVAL` from a system that cannot look into its memory only.
            Err(Errno::AGAIN | Errno::INVAL) if mode == IoMode::NonBlocking => {
                Err(ReadError::WouldBlock)
            }
            // Somebody renames folders on the way.
            Err(Errno::AGAIN) => continue,
            Err(error) => Err(error.into()),
        };
    }
    Err(Errno::AGAIN.into())
}

/// What is known of an open file.
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

/// Reads bytes at a place; 0 is the end.
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
            // Not every file system can tell whether it would have to wait.
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

/// Does on a thread what may have to wait.
///
/// The thread is one of this worker's runtime, so it shares the worker's table of descriptors.
pub async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let threads = THREADS
        .with(|threads| Arc::clone(threads.get_or_init(|| Arc::new(Semaphore::new(MAX_THREADS)))));
    let permit = threads.acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        // Held until it is done, even if nobody waits for it any more.
        let _permit = permit;
        work()
    });
    done.await.unwrap_or_else(|error| Err(ReadError::Unreadable(io::Error::other(error))))
}
