//! Copies of sealed segments: links to be copied elsewhere, copies added to a journal, and segments read
//! without their journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::failpoint::Faults;
use crate::files::{Files, Part, Parts};
use crate::follower::Follower;
use crate::format::Position;
use crate::journal::Journal;
use crate::os::atomic_file::if_exists;
use crate::record::Transaction;
use crate::segment::sealed::{Sealed, Summary};

/// Extensions of the files of a sealed segment: metadata; headers and bodies of completed transactions;
/// all other transactions. Only the first always exists.
pub const SEALED_EXTENSIONS: [&str; 3] = ["meta", "payload", "failed"];

/// Path of a file of a sealed segment in a data folder.
#[must_use]
pub fn sealed_path(data: &Path, lane: u16, number: u32, extension: &str) -> PathBuf {
    lane_folder(data, lane).join(format!("{number:010}.{extension}"))
}

/// The folder of a lane in a data folder.
#[must_use]
pub fn lane_folder(data: &Path, lane: u16) -> PathBuf {
    data.join("journal").join(format!("lane-{lane:04}"))
}

impl Journal {
    /// The first segment of a lane that a follower has not passed, if it is sealed.
    #[must_use]
    pub fn next_sealed(&self, follower: &Follower, lane: u16) -> Option<u32> {
        let state = self.state().lanes.get(usize::from(lane))?;
        let segments = state.catalog.segments.read();
        let from = follower.position(lane).segment();
        let (sealed, _) = segments.sealed.range(from..).next()?;
        let raw = segments.raw.range(from..).next();
        raw.is_none_or(|raw| sealed <= raw).then_some(*sealed)
    }

    /// Links the files of a sealed segment into the same place of another data folder on the same file
    /// system, where they stay when the journal drops the segment: from then on it does not count as
    /// skipped by the follower. False if it was dropped already.
    ///
    /// # Errors
    /// A file cannot be linked.
    pub fn link_sealed(
        &self,
        follower: &Follower,
        (lane, number): (u16, u32),
        target: &Path,
    ) -> io::Result<bool> {
        let Some(state) = self.state().lanes.get(usize::from(lane)) else { return Ok(false) };
        let folder = lane_folder(target, lane);
        fs::create_dir_all(&folder)?;
        // No file is removed as long as this is held.
        let segments = state.catalog.segments.read();
        if !segments.sealed.contains_key(&number) {
            return Ok(false);
        }
        for part in Part::ALL {
            let path = state.catalog.files.path(number, part.extension());
            let link = sealed_path(target, lane, number, part.extension());
            if_exists(fs::hard_link(path, link))?;
        }
        if let Some(progress) = follower.progress(lane) {
            progress.store(Position::new(number + 1, 0).to_bits(), Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Adds a sealed segment whose files were put into the folder of its lane since the journal was
    /// opened; again, if more of its files are there now.
    ///
    /// # Errors
    /// There is no such lane, or its metadata cannot be read.
    pub fn add_sealed(&self, lane: u16, number: u32) -> io::Result<()> {
        let state = self.state().lanes.get(usize::from(lane));
        let state = state.ok_or_else(|| io::Error::other(format!("there is no lane {lane}")))?;
        let mut segments = state.catalog.segments.write();
        let summary = Summary::read(&state.catalog.files, number)?;
        self.state().budget.charge(summary.bytes());
        if let Some(before) = segments.sealed.insert(number, summary) {
            self.state().budget.release(before.bytes());
        }
        Ok(())
    }
}

/// A sealed segment that is read without its journal.
#[derive(Debug)]
pub struct SealedSegment {
    sealed: Sealed,
    offset: u32,
}

impl SealedSegment {
    /// Opens a sealed segment of a data folder.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn open(data: &Path, lane: u16, number: u32) -> io::Result<Self> {
        let files = Files::new(lane, lane_folder(data, lane), Faults::default());
        let sealed = Sealed::open(&files, number, Parts::default(), true)?;
        Ok(Self { sealed, offset: 0 })
    }

    /// The next transaction, count-only ones included; none after the last one.
    ///
    /// # Errors
    /// A file cannot be read. Damage is skipped.
    pub fn next_transaction(&mut self) -> io::Result<Option<Transaction>> {
        while let Some(found) = self.sealed.next(self.offset)? {
            self.offset = found.saturating_add(1);
            if let Some(transaction) = self.sealed.get(found)? {
                return Ok(Some(transaction));
            }
        }
        Ok(None)
    }
}
