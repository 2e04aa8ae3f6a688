//! The segment that is uploaded next: its files, linked, and its parts of the index, on the local disk.
//!
//! `data/archive/staged/` is a data folder with the links of one sealed segment, the folder `parts`, and
//! `staged.json`, which is written last. A process that ends in between finds it complete and uploads the
//! same objects again, or finds it incomplete and starts over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_journal::{
    Follower, Journal, SEALED_EXTENSIONS, SealedSegment, create_folder, if_exists, sealed_path,
};
use weir_tracker::{PART_FILES, SegmentParts};

use crate::bucket::checksum;
use crate::error::ArchiveError;
use crate::layout::{FileEntry, Manifest, PartEntry, VERSION};

const STATE_FILE: &str = "staged.json";

/// A segment with everything that is uploaded of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Staged {
    pub(crate) manifest: Manifest,
    /// Greatest sequence number of the segment: half of the checkpoint.
    pub(crate) sequence: u64,
    /// The local file of each object.
    paths: Vec<(FileEntry, PathBuf)>,
}

impl Staged {
    /// The segment that was staged when the process ended; `None` if there was none, or if it was not
    /// complete.
    pub(crate) fn open(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join(STATE_FILE)).ok()?;
        let staged: Self = serde_json::from_slice(&bytes).ok()?;
        staged.paths.iter().all(|(_, path)| path.exists()).then_some(staged)
    }

    /// Links and indexes a sealed segment; `None` if it was dropped already.
    pub(crate) fn new(
        folder: &Path,
        journal: &Journal,
        follower: &Follower,
        segment: (u16, u32),
        index: &weir_tracker::Settings,
    ) -> Result<Option<Self>, ArchiveError> {
        Self::remove(folder)?;
        create_folder(folder).map_err(ArchiveError::io(folder))?;
        let linked = journal.link_sealed(follower, segment, folder);
        if !linked.map_err(ArchiveError::Journal)? {
            return Ok(None);
        }
        let (lane, number) = segment;
        let opened = SealedSegment::open(folder, lane, number);
        let mut opened = opened.map_err(ArchiveError::Journal)?;
        let parts = folder.join("parts");
        create_folder(&parts).map_err(ArchiveError::io(&parts))?;
        let found = SegmentParts::write(&mut opened, index, &parts)?;
        let mut staged = Self {
            manifest: Manifest {
                version: VERSION,
                lane,
                segment: number,
                transactions: found.transactions,
                expired: found.expired,
                times: found.times,
                files: Vec::new(),
                parts: Vec::new(),
            },
            sequence: found.sequence,
            paths: Vec::new(),
        };
        for extension in SEALED_EXTENSIONS {
            let path = sealed_path(folder, lane, number, extension);
            if path.exists() {
                let entry = staged.add(segment, extension, path)?;
                staged.manifest.files.push(entry);
            }
        }
        for (part, head) in found.parts {
            let [columns, terms] = PART_FILES;
            let columns = staged.add(segment, columns, part.join(columns))?;
            let terms = staged.add(segment, terms, part.join(terms))?;
            staged.manifest.parts.push(PartEntry { head, columns, terms });
        }
        staged.write(folder)?;
        Ok(Some(staged))
    }

    fn add(
        &mut self,
        segment: (u16, u32),
        extension: &str,
        path: PathBuf,
    ) -> Result<FileEntry, ArchiveError> {
        let (bytes, sha256) = checksum(&path)?;
        let entry = FileEntry::new(segment, extension, bytes, sha256);
        self.paths.push((entry.clone(), path));
        Ok(entry)
    }

    fn write(&self, folder: &Path) -> Result<(), ArchiveError> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other);
        let path = folder.join(STATE_FILE);
        let written = bytes.and_then(|bytes| fs::write(folder.join("new"), bytes));
        written
            .and_then(|()| fs::rename(folder.join("new"), &path))
            .map_err(ArchiveError::io(&path))
    }

    /// The objects and the local file of each.
    pub(crate) fn files(&self) -> &[(FileEntry, PathBuf)] {
        &self.paths
    }

    /// Removes what is staged.
    pub(crate) fn remove(folder: &Path) -> Result<(), ArchiveError> {
        if_exists(fs::remove_dir_all(folder)).map(drop).map_err(ArchiveError::io(folder))
    }
}
