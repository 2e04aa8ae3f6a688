//! The files of a lane: names, kinds, and what of them cannot be read.
//!
//! | name | content |
//! |---|---|
//! | `N.segment` | a segment as it was appended; zeros instead of a header if it was never started |
//! | `N.spare` | the file of a sealed segment, kept for reuse |
//! | `N.meta`, `N.payload`, `N.failed` | the three parts of a sealed segment, described in [`crate::segment::sealed`] |
//! | `N.carry` | frames of transactions that were open at the end of segment `N`, described in [`crate::catalog::carry_over`] |
//! | `*.new` | a file that was being written |
//!
//! `N.meta` is renamed into place last and dropped last: a segment is sealed if `N.meta` exists. If
//! it does not, the other parts of `N` are removed when the journal is opened.

pub(crate) mod damage;
mod part;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::failpoint::Faults;
use crate::os::atomic_file::sync_folder;
use damage::DamageLog;
pub(crate) use part::{Part, Parts};

/// The folder of a lane.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) lane: u16,
    pub(crate) folder: PathBuf,
    pub(crate) damage: Arc<DamageLog>,
    pub(crate) faults: Faults,
}

impl Files {
    pub(crate) fn new(lane: u16, folder: PathBuf, faults: Faults) -> Self {
        let damage = Arc::new(DamageLog::new(faults.clone()));
        Self { lane, folder, damage, faults }
    }

    pub(crate) fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.folder.join(format!("{number:010}.{kind}"))
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.path(number, "segment")
    }

    /// Makes renames and removals durable.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }
}
