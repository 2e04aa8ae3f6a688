//! Data folders of servers and backends.

use std::path::{Path, PathBuf};

/// A data folder, which is deleted on drop, also after a failed start: only outputs stay with the results.
#[derive(Debug)]
pub(super) struct DataFolder(PathBuf);

impl DataFolder {
    /// Creates a folder; its path is absolute.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        // Remaining files are deleted together with the results.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
