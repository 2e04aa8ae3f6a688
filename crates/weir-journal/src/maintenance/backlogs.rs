//! What the journal keeps for followers with a bounded backlog.

use std::collections::BTreeMap;
use std::io;

use crate::backlog::Skipped;
use crate::catalog::Segments;
use crate::checkpoint::Checkpoint;
use crate::files::Files;
use crate::format::Position;
use crate::journal_state::JournalState;

/// Records of a segment that followers have not read, by the name of the follower.
pub(crate) type Unread = Vec<(String, Skipped)>;

impl JournalState {
    /// Computes which segments are within the bounds of backlogs.
    pub(crate) fn limit_backlogs(&self) {
        let all = self.checkpoints.all.lock().clone();
        let bounds: BTreeMap<String, u64> = {
            let backlogs = self.checkpoints.backlogs.lock();
            backlogs.iter().map(|(name, backlog)| (name.clone(), backlog.max_bytes)).collect()
        };
        for (name, max_bytes) in bounds {
            let Some(checkpoints) = all.get(&name) else { continue };
            let floors = self.floors(checkpoints, max_bytes);
            if let Some(backlog) = self.checkpoints.backlogs.lock().get_mut(&name) {
                backlog.floors = floors;
            }
        }
    }

    /// The lowest segment of each lane so that unread ones from there on have at most `max_bytes`.
    fn floors(&self, checkpoints: &[Checkpoint], max_bytes: u64) -> Vec<u32> {
        let mut unread = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            let checkpoint = checkpoints.get(index).copied().unwrap_or_default();
            let (from, end) = (checkpoint.position.segment(), lane.shared.end().segment());
            let segments = lane.catalog.segments.read();
            let raw = segments.raw.iter().filter(|number| (from..=end).contains(number));
            let bytes = lane.catalog.segment_bytes();
            unread.extend(raw.map(|number| (u64::MAX, *number, index, bytes)));
            let sealed = segments.sealed.range(from..);
            unread.extend(
                sealed.map(|(number, found)| (found.stamp_us, *number, index, found.bytes())),
            );
        }
        unread.sort_unstable_by(|one, other| other.cmp(one));
        let (mut sum, mut floors) = (0, vec![0; self.lanes.len()]);
        for (_, number, lane, bytes) in unread {
            sum += bytes;
            if sum > max_bytes {
                floors[lane] = floors[lane].max(number + 1);
            }
        }
        floors
    }

    /// The records of a sealed segment that followers with a bounded backlog have not read. The lock
    /// of the segments is held for writing, so that no reader goes on meanwhile.
    pub(crate) fn unread(&self, files: &Files, segments: &Segments, segment: u32) -> Unread {
        let index = files.lane;
        let (begin, to) = (Position::new(segment, 0), Position::new(segment + 1, 0));
        let positions = self.checkpoints.read_positions(index).into_iter();
        let unread = positions.filter(|(_, position)| *position < to).map(|(name, position)| {
            let from = position.max(begin);
            let records = count_visible(files, segments, from);
            (name, Skipped { lane: index, from, to, records, at_most: false })
        });
        unread.collect()
    }

    pub(crate) fn skip(&self, unread: Unread) {
        for (name, skipped) in unread {
            self.checkpoints.add_skipped(&name, skipped);
        }
    }
}

/// Transactions of a sealed segment from a position on that are not count-only. Those that cannot be
/// read count, too.
fn count_visible(files: &Files, segments: &Segments, from: Position) -> u64 {
    let number = from.segment();
    let rows = segments.sealed.get(&number).map_or(0, |summary| u64::from(summary.rows));
    let count = || -> io::Result<u64> {
        let mut sealed = segments.open_sealed(files, number, false)?;
        let (mut count, mut offset) = (0, from.offset());
        while let Some(found) = sealed.next(offset)? {
            count += u64::from(sealed.get(found)?.is_none_or(|one| !one.is_count()));
            offset = found + 1;
        }
        Ok(count)
    };
    count().unwrap_or(rows)
}
