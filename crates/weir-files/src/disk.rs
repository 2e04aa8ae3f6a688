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
const WAITING: usize = 16;
/// How often a path is followed that others are changing meanwhile.
const TRIES: usize = 16;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A worker: nothing may be waited for.
    Worker,
    /// A thread that may wait.
    Thread,
}

/// Why something cannot be had.
#[derive(Debug)]
pub enum Trouble {
    /// It is not in memory: a thread has to ask.
    Wait,
    /// It is there and cannot be read.
    Unreadable(io::Error),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(errno.into())
    }
}

/// Opens a folder to look beneath it; `None` if there is none.
pub(crate) fn open_folder(path: &Path, way: Way) -> Result<Option<OwnedFd>, Trouble> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    open(CWD, path.as_os_str().as_encoded_bytes(), flags, ResolveFlags::empty(), way)
}

/// Opens what a path leads to beneath a folder; `None` if it leads nowhere, or out of it.
///
/// The system itself sees to it that the path, symbolic links included, stays beneath (openat2(2),
/// `RESOLVE_BENEATH`): what was looked at is what is opened, whatever happens meanwhile. A pipe or
/// a device does not hold up who opens it.
pub(crate) fn open_beneath(
    folder: &OwnedFd,
    path: &[u8],
    way: Way,
) -> Result<Option<OwnedFd>, Trouble> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(folder, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS, way)
}

fn open(
    folder: impl AsFd,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
    way: Way,
) -> Result<Option<OwnedFd>, Trouble> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = match way {
        Way::Worker => resolve | ResolveFlags::CACHED,
        Way::Thread => resolve,
    };
    for _ in 0..TRIES {
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
            Err(Errno::AGAIN | Errno::INVAL) if way == Way::Worker => Err(Trouble::Wait),
            // Somebody renames folders on the way.
            Err(Errno::AGAIN) => continue,
            Err(error) => Err(error.into()),
        };
    }
    Err(Errno::AGAIN.into())
}

/// What is known of an open file.
pub(crate) fn stat(file: &OwnedFd) -> Result<Stat, Trouble> {
    Ok(rustix::fs::fstat(file)?)
}

/// Reads a file of about `size` bytes to its end, and at most one byte more than that.
pub fn read_whole(file: &OwnedFd, size: usize, way: Way) -> Result<Vec<u8>, Trouble> {
    let mut bytes = vec![0; size + 1];
    let mut filled = 0;
    while filled < bytes.len() {
        match read(file, filled as u64, &mut bytes[filled..], way)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Reads bytes at a place; 0 is the end.
pub(crate) fn read(file: &OwnedFd, at: u64, room: &mut [u8], way: Way) -> Result<usize, Trouble> {
    let flags = match way {
        Way::Worker => ReadWriteFlags::NOWAIT,
        Way::Thread => ReadWriteFlags::empty(),
    };
    loop {
        return match rustix::io::preadv2(file, &mut [IoSliceMut::new(room)], at, flags) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => continue,
            // Not every file system can tell whether it would have to wait.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) if way == Way::Worker => {
                Err(Trouble::Wait)
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
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let threads = THREADS
        .with(|threads| Arc::clone(threads.get_or_init(|| Arc::new(Semaphore::new(WAITING)))));
    let place = threads.acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        // Held until it is done, even if nobody waits for it any more.
        let _place = place;
        work()
    });
    done.await.unwrap_or_else(|error| Err(Trouble::Unreadable(io::Error::other(error))))
}
