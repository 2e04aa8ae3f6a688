//! Followers with a bounded backlog: the journal keeps what such a follower has not read up to a
//! number of bytes. Beyond them segments may be dropped unread, the oldest first; what the follower
//! skips by that is counted.

use std::collections::BTreeMap;

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::format::Position;
use crate::journal_state::JournalState;
use crate::lane_state::LaneState;

/// Records that were dropped before a follower with a bounded backlog had read them. Count-only
/// records are not among them, unless the number is an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Index of the lane.
    pub lane: u16,
    /// Position of the first record.
    pub from: Position,
    /// Position after the last record.
    pub to: Position,
    /// Number of records.
    pub records: u64,
    /// The number is an upper bound: the process ended before it was reported, so that it is
    /// computed from sequence numbers.
    pub at_most: bool,
}

/// The followers that a segment is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptFor {
    /// All followers; those with a bounded backlog only within their bound.
    All,
    /// Followers without a bound: there is no space left otherwise.
    Unbounded,
}

/// What the journal keeps for a follower with a bounded backlog, and what it did not keep.
#[derive(Debug)]
pub(crate) struct Backlog {
    max_bytes: u64,
    /// The lowest segment of each lane within the bound.
    floors: Vec<u32>,
    /// How far the follower has read each lane; its checkpoint is not later.
    read: Vec<Position>,
    skipped: Vec<Skipped>,
}

impl Backlog {
    pub(crate) fn new(max_bytes: u64, skipped: Vec<Skipped>) -> Self {
        Self { max_bytes, floors: Vec::new(), read: Vec::new(), skipped }
    }

    fn floor(&self, lane: u16) -> u32 {
        self.floors.get(usize::from(lane)).copied().unwrap_or(0)
    }

    fn read(&self, lane: u16) -> Position {
        self.read.get(usize::from(lane)).copied().unwrap_or_default()
    }

    fn skip(&mut self, skipped: Skipped) {
        let Skipped { lane, from, to, records, .. } = skipped;
        // Segments are dropped in their order.
        let last = self.skipped.iter_mut().rfind(|before| before.lane == lane);
        match last.filter(|before| before.to >= from && !before.at_most) {
            Some(before) => {
                before.to = to;
                before.records += records;
            }
            None => self.skipped.push(skipped),
        }
    }
}

impl Checkpoints {
    /// Whether a segment is kept for a follower.
    pub(crate) fn is_needed(&self, lane: u16, segment: u32, kept_for: KeptFor) -> bool {
        let backlogs = self.backlogs.lock();
        let needs = |(name, lanes): (&String, &Vec<Checkpoint>)| {
            let has_read = lanes
                .get(usize::from(lane))
                .is_some_and(|checkpoint| checkpoint.position.segment() > segment);
            let within_bound = backlogs
                .get(name)
                .is_none_or(|backlog| kept_for == KeptFor::All && segment >= backlog.floor(lane));
            !has_read && within_bound
        };
        self.all.lock().iter().any(needs)
    }

    /// Notes how far a follower with a bounded backlog has read a lane.
    pub(crate) fn set_read(&self, name: &str, lane: u16, position: Position) {
        if let Some(backlog) = self.backlogs.lock().get_mut(name) {
            let lane = usize::from(lane);
            backlog.read.resize(backlog.read.len().max(lane + 1), Position::START);
            backlog.read[lane] = position;
        }
    }

    /// What a follower skips, once each.
    pub(crate) fn take_skipped(&self, name: &str) -> Vec<Skipped> {
        let mut backlogs = self.backlogs.lock();
        backlogs
            .get_mut(name)
            .map(|backlog| std::mem::take(&mut backlog.skipped))
            .unwrap_or_default()
    }

    /// How far each follower with a bounded backlog has read a lane.
    fn read_positions(&self, lane: u16) -> Vec<(String, Position)> {
        let all = self.all.lock().clone();
        let backlogs = self.backlogs.lock();
        let position = |(name, backlog): (&String, &Backlog)| {
            let checkpoint = all.get(name).and_then(|lanes| lanes.get(usize::from(lane)));
            let checkpoint = checkpoint.copied().unwrap_or_default();
            (name.clone(), backlog.read(lane).max(checkpoint.position))
        };
        backlogs.iter().map(position).collect()
    }

    fn add_skipped(&self, name: &str, skipped: Skipped) {
        if let Some(backlog) = self.backlogs.lock().get_mut(name) {
            backlog.skip(skipped);
        }
    }
}

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

    /// The records of a sealed segment that followers with a bounded backlog have not read.
    pub(crate) fn unread(&self, lane: &LaneState, segment: u32) -> Unread {
        let index = lane.catalog.files.lane;
        let (begin, to) = (Position::new(segment, 0), Position::new(segment + 1, 0));
        let positions = self.checkpoints.read_positions(index).into_iter();
        let unread = positions.filter(|(_, position)| *position < to).map(|(name, position)| {
            let from = position.max(begin);
            let records = count_visible(lane, from);
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
fn count_visible(lane: &LaneState, from: Position) -> u64 {
    let segments = lane.catalog.segments.read();
    let number = from.segment();
    let rows = segments.sealed.get(&number).map_or(0, |summary| u64::from(summary.rows));
    let count = || -> std::io::Result<u64> {
        let mut sealed = segments.open_sealed(&lane.catalog.files, number, false)?;
        let (mut count, mut offset) = (0, from.offset());
        while let Some(found) = sealed.next(offset)? {
            count += u64::from(sealed.get(found)?.is_none_or(|one| !one.is_count()));
            offset = found + 1;
        }
        Ok(count)
    };
    count().unwrap_or(rows)
}
