//! Small files that are replaced as a whole: the old content or the new one, never half of either.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::unix_time;

/// Replaces a file as a whole. A running process sees the old content or the new one; after a loss
/// of power the file may hold anything.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, false)
}

/// Replaces a file as a whole, durably.
pub(crate) fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, true)?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn write_new(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    if sync {
        file.sync_all()?;
    }
    fs::rename(&new, path)
}

/// Appends the CRC-32 of all bytes.
pub(crate) fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The bytes before the CRC-32 at the end; `None` if the checksum is wrong.
pub(crate) fn verified(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(bytes) == u32::from_le_bytes(*sum)).then_some(bytes)
}

/// Moves a damaged file to a name that nothing reads. `None` if the move fails: that stops nothing.
pub(crate) fn quarantine(path: &Path) -> Option<PathBuf> {
    let kept = path.with_added_extension(format!("damaged-{}", unix_time().as_secs()));
    fs::rename(path, &kept).ok().map(|()| kept)
}

/// The result of an access to a file, `None` if the file does not exist.
///
/// # Errors
/// All other errors.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Makes the entries of a folder durable.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates a folder that only its owner can enter, and those above it that do not exist.
///
/// # Errors
/// It cannot be created.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
