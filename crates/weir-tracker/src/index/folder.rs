//! The folder of the index: opens the pieces in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::part::SealedPiece;
use crate::part::block::Depth;

/// What the newest piece of the index in `data` has indexed; none if there is no piece.
#[must_use]
pub fn stored_depth(data: &Path) -> Option<Depth> {
    let days = folders(&data.join("index")).ok()?;
    let places = days.iter().filter_map(|day| folders(day).ok()).flatten();
    let number = |place: &PathBuf| place.file_name()?.to_str()?.parse::<u64>().ok();
    let newest = places.filter_map(|place| Some((number(&place)?, place))).max()?;
    SealedPiece::open(&newest.1).ok().map(|piece| piece.head.about.depth)
}

/// The pieces that there are.
pub(super) struct Found {
    pub(super) pieces: Vec<SealedPiece>,
    pub(super) damaged: u64,
    /// The number of the next piece.
    pub(super) next: u64,
}

/// Opens all pieces; what is damaged or unfinished is removed, and what is provisional unless that
/// is as good as it gets.
pub(super) fn find(folder: &Path, provisional: bool) -> Result<Found, Error> {
    let mut found = Found { pieces: Vec::new(), damaged: 0, next: 1 };
    for partition in folders(folder)? {
        for place in folders(&partition)? {
            let number = place.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            let Some(number) = number else {
                // The folder of a piece that was never finished.
                fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                continue;
            };
            found.next = found.next.max(number + 1);
            match SealedPiece::open(&place) {
                Ok(piece) if piece.head.about.provisional && !provisional => {
                    fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                }
                Ok(piece) => found.pieces.push(piece),
                Err(error) if error.is_damage() => {
                    found.damaged += 1;
                    fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
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
