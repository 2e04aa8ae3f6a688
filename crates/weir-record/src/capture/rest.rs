//! A keyed hash of the part of a body that is not stored. With the true length and the stored bytes
//! it tells whether two bodies are equal. HMAC-SHA-256 (RFC 2104), cut to 128 bits.
//!
//! The key is created once and stays in the data folder, so that bodies cannot be guessed from a
//! hash alone.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use std::fs;
use std::io;
use std::path::Path;
use weir_config::secret_file;

/// Name of the key file in the data folder.
const FILE: &str = "hash.key";
/// Length of the key in bytes.
const KEY: usize = 32;

/// Hint for a damaged key: consequences and repair.
const HINT: &str = "the key is damaged. Without the key, hashes of bodies recorded before and \
    later cannot be compared. `weir repair --data DIR` moves the file aside, and the next start \
    creates a new key";

/// Whether a data folder has a valid key, or none at all.
///
/// # Errors
/// The key file cannot be read.
pub fn hash_key_is_whole(data: &Path) -> io::Result<bool> {
    match fs::metadata(data.join(FILE)) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.len() == KEY as u64),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// The key of a data folder.
pub(super) struct HashKey(Key);

impl HashKey {
    /// Reads the key, or creates one.
    ///
    /// # Errors
    /// The key can be neither read nor written, or is invalid.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let key = match secret_file::read(&path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path)?,
            Err(error) => return Err(error),
        };
        if key.len() != KEY {
            let message = format!("{} is not a key of {KEY} bytes: {HINT}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Self(Key::new(HMAC_SHA256, &key)))
    }
}

/// Writes a new key atomically: after a crash there is either no key or a complete one.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
    secret_file::replace(path, &key)?;
    Ok(key)
}

/// The hash of the rest of one body, in progress.
pub(super) struct RestHash(Context);

impl RestHash {
    pub(super) fn new(key: &HashKey) -> Self {
        Self(Context::with_key(&key.0))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> [u8; 16] {
        let tag = self.0.sign();
        let mut hash = [0; 16];
        hash.copy_from_slice(&tag.as_ref()[..16]);
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::PermissionsExt;

    fn hash(key: &HashKey, pieces: &[&[u8]]) -> [u8; 16] {
        let mut hash = RestHash::new(key);
        pieces.iter().for_each(|piece| hash.add(piece));
        hash.finish()
    }

    #[test]
    fn the_key_is_made_once_and_for_its_user_alone() {
        let data = tempfile::tempdir().unwrap();
        let first = HashKey::open(data.path()).unwrap();
        let path = data.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let reopened = HashKey::open(data.path()).unwrap();
        assert_eq!(hash(&first, &[b"ab", b"c"]), hash(&reopened, &[b"abc"]));
        let other = HashKey::open(tempfile::tempdir().unwrap().path()).unwrap();
        assert_ne!(hash(&first, &[b"abc"]), hash(&other, &[b"abc"]));
        fs::write(&path, "short").unwrap();
        assert!(HashKey::open(data.path()).is_err());
    }
}
