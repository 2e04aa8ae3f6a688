//! A snapshot of the files of a journal while it is written.
//!
//! All files but the last segment of each lane never change again: they are linked, which takes no
//! room and no time. [`Catalog::recycle`](crate::catalog::Catalog::recycle) reuses no file that is
//! linked. Of the last segment the snapshot has what was appended before it was taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::journal::Journal;
use crate::lane_state::LaneState;

/// A segment of a snapshot that is still written to: a copy ends after so many bytes, and has zeros up
/// to the length of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Path relative to the data folder.
    pub path: PathBuf,
    /// Bytes that were appended.
    pub bytes: u64,
}

impl Journal {
    /// Links the files of the journal in `data` into the folder `target` on the same file system, at
    /// the same relative paths. Sealing and retention wait meanwhile; recording does not.
    ///
    /// # Errors
    /// A file cannot be linked, or another process has taken over the journal.
    pub fn snapshot(&self, data: &Path, target: &Path) -> io::Result<Vec<Unfinished>> {
        let state = self.state();
        let released = state.released.lock();
        if *released {
            return Err(io::Error::other("another process has taken over the journal"));
        }
        let mut unfinished = Vec::new();
        for lane in &state.lanes {
            unfinished.extend(link_lane(lane, data, target)?);
        }
        for folder in ["journal/followers", "journal-manifest"] {
            let all = |_: &str| true;
            link_files(&data.join(folder), &target.join(folder), all)?;
        }
        drop(released);
        Ok(unfinished)
    }
}

fn link_lane(lane: &LaneState, data: &Path, target: &Path) -> io::Result<Option<Unfinished>> {
    let LaneState { catalog, shared } = lane;
    // No file is removed as long as this is held.
    let _segments = catalog.segments.read();
    let end = shared.end();
    let folder = &catalog.files.folder;
    let relative = folder.strip_prefix(data).map_err(io::Error::other)?;
    let last = catalog.files.segment(end.segment());
    let is_part = |name: &str| match name.split_once('.') {
        // Segments after the last one are prepared and empty.
        Some((number, "segment")) => {
            number.parse().is_ok_and(|number: u32| number <= end.segment())
        }
        Some((_, "meta" | "payload" | "failed" | "carry")) => true,
        _ => false,
    };
    link_files(folder, &target.join(relative), is_part)?;
    let name = last.file_name().filter(|_| last.exists());
    Ok(name.map(|name| Unfinished { path: relative.join(name), bytes: u64::from(end.offset()) }))
}

/// Links the files of a folder whose names are accepted. A folder that does not exist is empty.
fn link_files(from: &Path, to: &Path, accepts: impl Fn(&str) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let accepted = name.to_str().is_some_and(|name| !name.ends_with(".new") && accepts(name));
        if accepted && entry.file_type()?.is_file() {
            fs::hard_link(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
