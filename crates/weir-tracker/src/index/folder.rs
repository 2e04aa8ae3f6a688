//! Opens the parts in the folder of the index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::part::SealedPart;
use crate::part::block::Depth;

/// The depth of the newest part of the index in `data`; none if there is no part.
#[must_use]
pub fn stored_depth(data: &Path) -> Option<Depth> {
    let days = folders(&data.join("index")).ok()?;
    let parts = days.iter().filter_map(|day| folders(day).ok()).flatten();
    let newest = parts.filter_map(|part| Some((number(&part)?, part))).max()?;
    SealedPart::open(&newest.1).ok().map(|part| part.head.metadata.depth)
}

/// The parts that were found.
pub(super) struct Found {
    pub(super) parts: Vec<SealedPart>,
    pub(super) damaged: u64,
    /// Number of the next part.
    pub(super) next: u64,
}

/// Opens all parts. Removes damaged and unfinished ones, and provisional ones unless `provisional`.
pub(super) fn find(folder: &Path, provisional: bool) -> Result<Found, Error> {
    let mut found = Found { parts: Vec::new(), damaged: 0, next: 1 };
    for partition in folders(folder)? {
        for folder in folders(&partition)? {
            // A part without a number is unfinished.
            if let Some(number) = number(&folder) {
                found.next = found.next.max(number + 1);
                match SealedPart::open(&folder) {
                    Ok(part) if provisional || !part.head.metadata.provisional => {
                        found.parts.push(part);
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) if error.is_damage() => found.damaged += 1,
                    Err(error) => return Err(error),
                }
            }
            fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
        }
    }
    Ok(found)
}

fn number(part: &Path) -> Option<u64> {
    part.file_name()?.to_str()?.parse().ok()
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        if entry.file_type().map_err(Error::io(folder))?.is_dir() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}
