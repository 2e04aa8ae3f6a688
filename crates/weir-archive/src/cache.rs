//! Fetched files by their hash, up to a number of bytes; those that were not used for the longest time
//! are deleted first. Several processes may use one folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::{NamedTempFile, TempDir};

use crate::error::ArchiveError;

/// Most bytes of files that no running command uses.
const MAX_BYTES: u64 = 4 << 30;
/// Age from which files of a command that has ended without removing them are deleted.
const MAX_SESSION_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder.
#[derive(Debug)]
pub(crate) struct Cache {
    files: PathBuf,
    sessions: PathBuf,
    max_bytes: u64,
}

impl Cache {
    /// Opens or creates it; other users cannot read it.
    pub(crate) fn open(folder: &Path) -> Result<Self, ArchiveError> {
        let (files, sessions) = (folder.join("files"), folder.join("sessions"));
        for folder in [&files, &sessions] {
            let mut builder = fs::DirBuilder::new();
            let created = builder.recursive(true).mode(0o700).create(folder);
            created.map_err(ArchiveError::io(folder))?;
        }
        remove_old(&sessions);
        Ok(Self { files, sessions, max_bytes: MAX_BYTES })
    }

    /// A folder for the files of this command, on the same file system; removed when dropped.
    pub(crate) fn session(&self) -> Result<TempDir, ArchiveError> {
        tempfile::tempdir_in(&self.sessions).map_err(ArchiveError::io(&self.sessions))
    }

    /// Links the file with this hash to `target`; false if it is not there.
    pub(crate) fn link(&self, hash: &str, target: &Path) -> Result<bool, ArchiveError> {
        let path = self.files.join(hash);
        match fs::hard_link(&path, target) {
            Ok(()) => {
                // It is used now; without permission it only counts as older.
                let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
            Err(error) => Err(ArchiveError::io(target)(error)),
        }
    }

    /// A file to be filled, then to be added.
    pub(crate) fn new_file(&self) -> Result<NamedTempFile, ArchiveError> {
        NamedTempFile::new_in(&self.sessions).map_err(ArchiveError::io(&self.sessions))
    }

    /// Adds a file.
    pub(crate) fn add(&self, file: NamedTempFile, hash: &str) -> Result<(), ArchiveError> {
        let path = self.files.join(hash);
        let added = file.persist(&path).map_err(|error| error.error);
        added.map_err(ArchiveError::io(&path))?;
        self.evict();
        Ok(())
    }

    /// The content of a file.
    pub(crate) fn read(&self, hash: &str) -> Option<Vec<u8>> {
        fs::read(self.files.join(hash)).ok()
    }

    fn evict(&self) {
        let Ok(entries) = fs::read_dir(&self.files) else { return };
        let mut found: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        let mut sum: u64 = found.iter().map(|(_, bytes, _)| bytes).sum();
        found.sort_unstable();
        for (_, bytes, path) in found {
            if sum <= self.max_bytes {
                return;
            }
            // Another process may have deleted it.
            let _ = fs::remove_file(path);
            sum -= bytes;
        }
    }
}

fn remove_old(sessions: &Path) {
    for entry in fs::read_dir(sessions).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > MAX_SESSION_AGE) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_least_recently_used_files_go_and_those_in_use_stay_readable() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = Cache::open(folder.path()).unwrap();
        cache.max_bytes = 25;
        let session = cache.session().unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        for (number, hash) in ["a", "b"].iter().enumerate() {
            let mut file = cache.new_file().unwrap();
            file.write_all(&[0; 10]).unwrap();
            let time = old + Duration::from_secs(number as u64);
            file.as_file().set_modified(time).unwrap();
            cache.add(file, hash).unwrap();
        }
        assert!(cache.link("a", &session.path().join("a")).unwrap(), "used: newer than b now");
        let mut file = cache.new_file().unwrap();
        file.write_all(&[0; 10]).unwrap();
        cache.add(file, "c").unwrap();
        assert_eq!(["a", "b", "c"].map(|hash| cache.read(hash).is_some()), [true, false, true]);
        cache.max_bytes = 0;
        cache.evict();
        assert!(cache.read("a").is_none());
        assert_eq!(fs::read(session.path().join("a")).unwrap().len(), 10);
    }
}
