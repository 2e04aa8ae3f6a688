//! The file beside the database that SQLite maps (`weir.db-shm`), with real blocks behind all of it.
//!
//! SQLite makes that file by writing one byte in each page. Where blocks are smaller than a page the
//! rest is a hole, and on a full disk a store into it ends the process (`SIGBUS`). So the file is
//! written from end to end before SQLite opens it. SQLite cuts it off where no other process uses it,
//! which the lock of another owner on its "dead man's switch" tells: that lock is held here, as an
//! open file description's own, for as long as the process runs.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes that are made ready: SQLite takes 32 KiB for each 16 MiB of its write-ahead log.
const BYTES: usize = 128 << 10;
/// The byte that SQLite locks as long as it uses the file, behind those for 22 words and 8 locks.
const SWITCH: libc::off_t = 128;

/// The files that this process holds.
static HELD: Mutex<Option<HashMap<PathBuf, File>>> = Mutex::new(None);

/// Where it is.
pub(super) fn path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-shm");
    path.into()
}

/// Makes the file ready, and holds it. To be called before each opening of the database.
///
/// # Errors
/// It cannot be made, or there is no room for it.
pub(super) fn prepare(database: &Path) -> io::Result<()> {
    let path = path(database);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let held = held.get_or_insert_default();
    // It is not opened while SQLite uses it here: closing it again would give up SQLite's locks.
    if let (Some(file), Ok(there)) = (held.get(&path), path.metadata())
        && file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (there.dev(), there.ino()))
    {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
    if lock(&file, libc::F_WRLCK)? {
        // Nobody uses it. What it says is of a process that has ended.
        file.set_len(0)?;
        if let Err(error) = file.write_all(&vec![0; BYTES]) {
            let _ = file.set_len(0);
            return Err(error);
        }
    }
    // Where that is not possible another process is just opening the database, and waits itself.
    lock(&file, libc::F_RDLCK)?;
    held.insert(path, file);
    Ok(())
}

/// Whether another process has the database open.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn is_in_use(database: &Path) -> io::Result<bool> {
    match OpenOptions::new().read(true).write(true).open(path(database)) {
        Ok(file) => lock(&file, libc::F_WRLCK).map(|free| !free),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks the switch for the open file; false if another owner's lock is in the way.
fn lock(file: &File, kind: libc::c_int) -> io::Result<bool> {
    let wanted = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: SWITCH,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&wanted)) {
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
            let there = path(&data.path().join("weir.db")).metadata().unwrap();
            assert!(there.len() >= BYTES as u64 && there.blocks() * 512 >= there.len());
        }
    }
}
