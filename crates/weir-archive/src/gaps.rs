//! Gaps that the bucket does not have yet: the file `gaps.json`, bounded.

use std::fs;
use std::path::PathBuf;

use weir_journal::{Skipped, if_exists};

use crate::error::ArchiveError;
use crate::layout::Gap;

/// Most gaps in the file, and one for each lane: beyond them the last one of a lane grows.
const MAX_GAPS: usize = 1000;

/// The gaps that wait for their upload.
#[derive(Debug)]
pub(crate) struct Gaps {
    path: PathBuf,
    waiting: Vec<Gap>,
}

impl Gaps {
    /// Reads the file; a damaged one has no gaps.
    pub(crate) fn open(path: PathBuf) -> Result<Self, ArchiveError> {
        let bytes = if_exists(fs::read(&path)).map_err(ArchiveError::io(&path))?;
        let waiting = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(Self { path, waiting: waiting.unwrap_or_default() })
    }

    /// Adds what the follower has skipped.
    pub(crate) fn add(&mut self, skipped: &[Skipped], time: u64) -> Result<(), ArchiveError> {
        for one in skipped {
            let (from, to) = (one.from.segment(), one.to.segment().saturating_sub(1));
            let to = to.max(from);
            let is_full = self.waiting.len() >= MAX_GAPS;
            let last = self.waiting.iter_mut().rfind(|gap| gap.lane == one.lane);
            match last.filter(|gap| is_full || gap.to.saturating_add(1) >= from) {
                Some(gap) => {
                    gap.to = gap.to.max(to);
                    gap.records += one.records;
                    gap.at_most |= one.at_most || is_full;
                }
                None => self.waiting.push(Gap {
                    lane: one.lane,
                    from,
                    to,
                    records: one.records,
                    at_most: one.at_most,
                    time,
                }),
            }
        }
        if skipped.is_empty() { Ok(()) } else { self.write() }
    }

    /// The oldest gap that waits.
    pub(crate) fn first(&self) -> Option<&Gap> {
        self.waiting.first()
    }

    /// The oldest gap is in the bucket.
    pub(crate) fn uploaded(&mut self) -> Result<(), ArchiveError> {
        self.waiting.remove(0);
        self.write()
    }

    fn write(&self) -> Result<(), ArchiveError> {
        let bytes = serde_json::to_vec(&self.waiting).unwrap_or_default();
        let new = self.path.with_extension("new");
        fs::write(&new, bytes).map_err(ArchiveError::io(&new))?;
        fs::rename(&new, &self.path).map_err(ArchiveError::io(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_journal::Position;

    #[test]
    fn contiguous_gaps_of_a_lane_are_one_and_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gaps.json");
        let skipped = |lane, from: u64, to: u64, records| Skipped {
            lane,
            from: Position::from_bits(from << 32),
            to: Position::from_bits(to << 32),
            records,
            at_most: false,
        };
        let mut gaps = Gaps::open(path.clone()).unwrap();
        gaps.add(&[skipped(0, 1, 3, 10), skipped(1, 1, 2, 5)], 7).unwrap();
        gaps.add(&[skipped(0, 3, 4, 20), skipped(0, 9, 10, 1)], 8).unwrap();
        let mut again = Gaps::open(path).unwrap();
        let found: Vec<_> =
            again.waiting.iter().map(|gap| (gap.lane, gap.from, gap.to, gap.records)).collect();
        assert_eq!(found, [(0, 1, 3, 30), (1, 1, 1, 5), (0, 9, 9, 1)]);
        again.uploaded().unwrap();
        assert_eq!(again.first().map(|gap| gap.lane), Some(1));
    }
}
