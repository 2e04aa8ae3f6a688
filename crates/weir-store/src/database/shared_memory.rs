//! Allocates all blocks of the shared memory file of SQLite (`weir.db-shm`).
//!
//! SQLite creates that file by writing one byte in each page. If blocks are smaller than a page, the
//! file has holes, and on a full disk a store into a hole ends the process (`SIGBUS`). So the file is
//! written completely before SQLite opens it. SQLite truncates it if no other owner has a lock on its
//! "dead man's switch". That lock is held here, as an open file description lock, for the lifetime of
//! the process.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use weir_journal::if_exists;

/// Bytes that are allocated: SQLite uses 32 KiB for each 16 MiB of its write-ahead log.
const BYTES: usize = 128 << 10;
/// Offset of the byte that SQLite locks while it uses the file, after 22 words and 8 locks.
const SWITCH: libc::off_t = 128;

/// The files that this process has locked.
static LOCKED: Mutex<Option<HashMap<PathBuf, File>>> = Mutex::new(None);

/// Path of the file.
pub(super) fn path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-shm");
    path.into()
}

/// Allocates and locks the file. Has to be called before each opening of the database.
///
/// # Errors
/// It cannot be created, or the disk is full.
pub(super) fn prepare(database: &Path) -> io::Result<()> {
    let path = path(database);
    let mut locked = LOCKED.lock();
    let locked = locked.get_or_insert_default();
    // It is not opened while this process uses it: closing it would release the locks of SQLite.
    if let (Some(file), Ok(found)) = (locked.get(&path), path.metadata())
        && file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
    {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
    if lock(&file, libc::F_WRLCK)? {
        // No process uses it: its content is obsolete.
        file.set_len(0)?;
        if let Err(error) = file.write_all(&vec![0; BYTES]) {
            let _ = file.set_len(0);
            return Err(error);
        }
    }
    // If this fails, another process is opening the database now, and waits itself.
    lock(&file, libc::F_RDLCK)?;
    locked.insert(path, file);
    Ok(())
}

/// Whether another process has the database open.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn is_in_use(database: &Path) -> io::Result<bool> {
    match if_exists(OpenOptions::new().read(true).write(true).open(path(database)))? {
        Some(file) => lock(&file, libc::F_WRLCK).map(|free| !free),
        None => Ok(false),
    }
}

/// Locks the switch for the open file; false if another owner has a lock.
fn lock(file: &File, kind: libc::c_int) -> io::Result<bool> {
    let request = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: SWITCH,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&request)) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_blocks_behind_all_of_it_while_the_database_is_used() {
        let data = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let first = crate::open(data.path()).unwrap();
            let second = crate::open(data.path()).unwrap();
            first.execute_batch("CREATE TABLE IF NOT EXISTS t (a)").unwrap();
            second.execute("INSERT INTO t VALUES (1)", []).unwrap();
            let found = path(&data.path().join("weir.db")).metadata().unwrap();
            assert!(found.len() >= BYTES as u64 && found.blocks() * 512 >= found.len());
        }
    }
}
