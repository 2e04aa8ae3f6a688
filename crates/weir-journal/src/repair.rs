//! What can be put right in a folder that no weir uses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failpoint::Faults;
use crate::follower;
use crate::journal::{self, Error};

/// A data folder that is held: no weir can open its journal meanwhile.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is locked as long as it is open")] fs::File);

/// Holds a data folder.
///
/// # Errors
/// [`Error::Held`] if a weir uses it; [`Error::Io`] if files fail.
pub fn hold(data: &Path) -> Result<Held, Error> {
    journal::hold(data).map(Held)
}

/// Checkpoints of followers that are damaged.
///
/// # Errors
/// The folder cannot be read.
pub fn damaged_checkpoints(data: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = data.join("journal").join("followers");
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut damaged = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if follower::is_damaged(&path, &Faults::default()) {
            damaged.push(path);
        }
    }
    damaged.sort();
    Ok(damaged)
}
