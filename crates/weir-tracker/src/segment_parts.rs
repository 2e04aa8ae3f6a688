//! Parts that are written for one sealed segment, to be searched without its data folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use weir_journal::SealedSegment;

use crate::error::Error;
use crate::index::Settings;
use crate::keys::read_keys;
use crate::part::file::PartHead;
use crate::part::{Build, OpenPart};

/// The parts of one sealed segment.
#[derive(Debug, Default)]
pub struct SegmentParts {
    /// Folder and description of each; none if the segment has no visible transaction.
    pub parts: Vec<(PathBuf, PartHead)>,
    /// Transactions in them.
    pub transactions: u64,
    /// Those whose headers and bodies the journal had deleted.
    pub expired: u64,
    /// Times at which the first and the last were received, in microseconds since 1970.
    pub times: (u64, u64),
    /// Greatest sequence number of the segment.
    pub sequence: u64,
}

/// File names of a part.
pub const PART_FILES: [&str; 2] = ["columns", "terms"];

impl SegmentParts {
    /// Indexes a sealed segment into parts of its own, in folders in `folder`.
    ///
    /// # Errors
    /// The segment cannot be read, or a file not be written.
    pub fn write(
        segment: &mut SealedSegment,
        settings: &Settings,
        folder: &Path,
    ) -> Result<Self, Error> {
        let mut found = Self { times: (u64::MAX, 0), ..Self::default() };
        let mut build = Build::new(settings.depth);
        let mut open = OpenPart::new(settings.depth, build.seed());
        while let Some(mut transaction) = segment.next_transaction().map_err(Error::Journal)? {
            found.sequence = found.sequence.max(transaction.sequence);
            if transaction.is_count() {
                continue;
            }
            found.transactions += 1;
            found.expired += u64::from(transaction.expired);
            let received = transaction.received_us;
            found.times = (found.times.0.min(received), found.times.1.max(received));
            // Data of one client must not end this: it is indexed without words or keys then.
            let keys = AssertUnwindSafe(|| read_keys(&settings.keys, &mut transaction));
            let _ = catch_unwind(keys);
            let _ = catch_unwind(AssertUnwindSafe(|| build.add_terms(&transaction)));
            open.blocks.extend(build.end_row(&transaction));
            open.columns.push(&transaction);
            if build.is_full() {
                found.add(&mut build, &mut open, folder)?;
            }
        }
        if open.columns.len() > 0 {
            found.add(&mut build, &mut open, folder)?;
        }
        Ok(found)
    }

    fn add(&mut self, build: &mut Build, open: &mut OpenPart, folder: &Path) -> Result<(), Error> {
        open.blocks.extend(build.last());
        let path = folder.join(self.parts.len().to_string());
        let part = open.write(Vec::new(), false, &folder.join("building"), &path)?;
        self.parts.push((path, part.head.describe()?));
        *build = Build::new(open.depth);
        open.reset(build.seed());
        Ok(())
    }
}
