//! Files with secrets in the data folder: tokens, private keys, hash keys.
//!
//! Only the owner can read them (mode 0600), and symbolic links are not followed: a user who can
//! create one there must not redirect a secret, or substitute another file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Maximum size of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file with a secret, of at most 1 MiB.
///
/// # Errors
/// The file is a symbolic link or not a regular file, too large, or cannot be read; the kind is
/// `NotFound` if it does not exist.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO must not wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::other("symbolic links are not followed"),
            _ => error,
        }
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(bytes)
}

/// Replaces a file durably, with mode 0600: after a crash there is the old or the new content.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    // A file left by a crash, or a link: the new file is created (O_EXCL), or the call fails.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Overwrites a file durably, where a full disk has no room for a second one. Content that is shorter than
/// before is padded with spaces. After a crash the content is old or new only if it fits into a sector of the
/// disk (512 bytes).
///
/// # Errors
/// The file does not exist, or cannot be written.
pub fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let before = usize::try_from(file.metadata()?.len().min(MAX_FILE_BYTES)).unwrap_or_default();
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().max(before), b' ');
    file.write_all_at(&padded, 0)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_secret_is_replaced_privately_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        for secret in [&b"one"[..], b"two"] {
            replace(&path, secret).unwrap();
            assert_eq!(read(&path).unwrap(), secret);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        overwrite(&path, b"2").unwrap();
        assert_eq!(read(&path).unwrap(), b"2  ");
        overwrite(&path, b"longer").unwrap();
        assert_eq!(read(&path).unwrap(), b"longer");
        assert!(overwrite(&folder.path().join("none"), b"1").is_err());
        fs::write(&path, vec![0; MAX_FILE_BYTES as usize + 1]).unwrap();
        assert!(read(&path).is_err());
        assert!(read(folder.path()).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("a.key"), folder.path().join("elsewhere"));
        fs::write(&elsewhere, "mine").unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("symbolic link"));
        symlink(&elsewhere, folder.path().join("a.key.new")).unwrap();
        replace(&path, b"secret").unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
        assert_eq!(read(&path).unwrap(), b"secret");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    }
}
