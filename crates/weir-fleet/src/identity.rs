//! The identity of a node: the file `node.id` in its data folder.
//!
//! The file has an id, drawn once, and the boot that the node made last: its number and its token. At
//! a start the node draws a new token, writes it to the file, and then makes the next boot in the
//! database by compare-and-set: the row must still have the boot of the file. After a crash in between
//! the row has either boot, and the file knows the tokens of both.
//!
//! A copy of a data folder has the same file. Of folder and copy the first to start keeps the identity.
//! While the lease of the row is valid, a folder that is not the one that the file was written in waits
//! and watches whether another process renews the lease. A folder is recognized by its inode number and
//! its time of creation.

use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use uuid::Uuid;
use weir_config::secret_file;

/// Name of the file.
const FILE: &str = "node.id";

/// A boot of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot {
    /// Number, from 1.
    pub(crate) number: i64,
    /// Drawn by the process that made this boot.
    pub(crate) token: Uuid,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    id: Uuid,
    /// The boot that was made last; `None` before the first.
    boot: Option<Boot>,
    /// Token of a boot that may have been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Uuid>,
    folder: Folder,
}

/// What distinguishes a folder from its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Folder {
    inode: u64,
    /// Time of creation in nanoseconds since 1970; 0 where the file system does not have it.
    created: u64,
}

impl Folder {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created = created.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Ok(Self { inode: metadata.ino(), created: created.unwrap_or_default() })
    }
}

/// Why the identity cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is malformed.
    #[error("{path}: {source}; move the file away to make this a new node")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
}

/// The identity of a node.
#[derive(Debug)]
pub struct Identity {
    path: PathBuf,
    content: Content,
    /// The data folder now.
    folder: Folder,
}

impl Identity {
    /// Reads the identity of a data folder; draws one, if there is none.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn open(data: &Path) -> Result<Self, IdentityError> {
        let path = data.join(FILE);
        let failed = |source| IdentityError::Io { path: path.clone(), source };
        let folder = Folder::of(data).map_err(failed)?;
        match secret_file::read(&path) {
            Ok(bytes) => {
                let content = serde_json::from_slice(&bytes);
                let malformed = |source| IdentityError::Malformed { path: path.clone(), source };
                let content = content.map_err(malformed)?;
                Ok(Self { path, content, folder })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = Self { path, content: new(folder), folder };
                identity.write()?;
                Ok(identity)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.content.id
    }

    /// The boot that was made last.
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.content.boot
    }

    /// Tokens of boots that this folder has made, or may have made.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Uuid> {
        self.content.boot.map(|boot| boot.token).into_iter().chain(self.content.next)
    }

    /// Whether the data folder is the one in which the file was written.
    pub(crate) fn is_in_place(&self) -> bool {
        self.content.folder == self.folder
    }

    /// Draws the token of the next boot and stores it; again the same, until [`Identity::booted`].
    pub(crate) fn next_token(&mut self) -> Result<Uuid, IdentityError> {
        if let Some(token) = self.content.next {
            return Ok(token);
        }
        let token = Uuid::new_v4();
        self.content.next = Some(token);
        self.write()?;
        Ok(token)
    }

    /// Stores a boot that was made.
    pub(crate) fn booted(&mut self, boot: Boot) -> Result<(), IdentityError> {
        self.content =
            Content { boot: Some(boot), next: None, folder: self.folder, ..self.content.clone() };
        self.write()
    }

    /// Draws a new identity: another folder has this one.
    pub(crate) fn replace(&mut self) -> Result<(), IdentityError> {
        self.content = new(self.folder);
        self.write()
    }

    fn write(&self) -> Result<(), IdentityError> {
        let bytes = serde_json::to_vec(&self.content).unwrap_or_default();
        let written = match secret_file::replace(&self.path, &bytes) {
            // It is shorter than a sector. A node whose disk is full stays a member.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                secret_file::overwrite(&self.path, &bytes)
            }
            written => written,
        };
        written.map_err(|source| IdentityError::Io { path: self.path.clone(), source })
    }
}

fn new(folder: Folder) -> Content {
    Content { id: Uuid::new_v4(), boot: None, next: None, folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_drawn_once_and_survives_a_start_that_ended_between_its_steps() {
        let data = tempfile::tempdir().unwrap();
        let mut first = Identity::open(data.path()).unwrap();
        let token = first.next_token().unwrap();
        let mut again = Identity::open(data.path()).unwrap();
        assert_eq!((again.id(), again.next_token().unwrap()), (first.id(), token));
        assert_eq!(again.tokens().collect::<Vec<_>>(), [token]);
        again.booted(Boot { number: 1, token }).unwrap();
        let mut third = Identity::open(data.path()).unwrap();
        assert_eq!(third.boot(), Some(Boot { number: 1, token }));
        assert_ne!(third.next_token().unwrap(), token);
    }

    #[test]
    fn a_copy_is_recognized_by_its_folder() {
        let (data, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let original = Identity::open(data.path()).unwrap();
        assert!(original.is_in_place());
        std::fs::copy(data.path().join(FILE), copy.path().join(FILE)).unwrap();
        let mut copied = Identity::open(copy.path()).unwrap();
        assert_eq!(copied.id(), original.id());
        assert!(!copied.is_in_place());
        copied.replace().unwrap();
        let copied = Identity::open(copy.path()).unwrap();
        assert!(copied.id() != original.id() && copied.is_in_place());
    }

    #[test]
    fn a_malformed_file_is_an_error_that_names_it() {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join(FILE), "{}").unwrap();
        let error = Identity::open(data.path()).unwrap_err().to_string();
        assert!(error.contains("node.id") && error.contains("move the file away"), "{error}");
    }
}
