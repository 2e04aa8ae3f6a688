//! Backups of a data folder: written while weir serves, verified when they are restored.
//!
//! A backup is a folder with `manifest.json`, the data folder in `data/`, and the files of the
//! configuration in `configuration/`. The manifest is written last: a folder without one is not a
//! backup.
//!
//! The order makes the copy consistent. The index is copied first, then the database, then the
//! journal. The index and the counts of the database state how far they have read the journal, and
//! read on from there: a journal that is newer than both is the state after a kill, which every start
//! recovers from. An older journal would lack transactions that were counted.

mod manifest;
pub(crate) mod restore;
mod write;

pub(crate) use manifest::Manifest;
pub(crate) use write::{Backup, remove_leftovers};

use std::path::Path;

/// Name of the manifest.
const MANIFEST: &str = "manifest.json";
/// Folder of the data folder in a backup, and of the configuration.
const DATA: &str = "data";
const CONFIGURATION: &str = "configuration";

/// `name.partial`, beside it: a folder that is being written.
fn partial(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

/// Whether there is nothing at a path, or an empty folder.
fn is_vacant(path: &Path) -> std::io::Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
