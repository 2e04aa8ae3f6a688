//! Retention: drops files because of their age or the budget, but nothing that a follower has not
//! read.
//!
//! Each part of a segment has its own retention; the metadata goes with the last part. For the
//! budget the oldest payloads of completed transactions are dropped first, then the oldest failed
//! transactions and metadata.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use crate::backlog::KeptFor;
use crate::failpoint;
use crate::files::Part;
use crate::journal_state::JournalState;
use crate::lane_state::LaneState;
use crate::os::atomic_file::if_exists;
use crate::os::unix_time;
use crate::segment::sealed::Summary;

/// The effective timestamp of each sealed segment. A timestamp in the future is replaced by the
/// next one that is not, and none is older than the one before it: either the clock was ahead then,
/// or it was behind later.
fn timestamps(sealed: &BTreeMap<u32, Summary>, now: Duration) -> Vec<(u32, u64)> {
    let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    let mut latest = 0;
    let mut timestamps: Vec<_> = sealed
        .iter()
        .map(|(number, summary)| {
            let plausible = summary.stamp_us <= now_us;
            latest = if plausible { summary.stamp_us.max(latest) } else { latest };
            (*number, if plausible { latest } else { u64::MAX })
        })
        .collect();
    let mut next = u64::MAX;
    for (_, stamp_us) in timestamps.iter_mut().rev() {
        next = next.min(*stamp_us);
        *stamp_us = next;
    }
    timestamps
}

impl JournalState {
    /// Drops everything that is due.
    pub(crate) fn enforce_retention(&self) -> io::Result<()> {
        let now = unix_time();
        self.limit_backlogs();
        for lane in self.lanes.iter().filter(|lane| !lane.shared.is_held()) {
            self.drop_expired(lane, now)?;
        }
        while self.budget.is_short(self.lanes.len()) && self.drop_oldest()? {}
        Ok(())
    }

    fn drop_expired(&self, lane: &LaneState, now: Duration) -> io::Result<()> {
        let expired = |stamp_us, keep| Duration::from_micros(stamp_us).saturating_add(keep) < now;
        loop {
            let segments = lane.catalog.segments.read();
            let found =
                timestamps(&segments.sealed, now).into_iter().find_map(|(number, stamp_us)| {
                    let summary = segments.sealed.get(&number)?;
                    let there = |part: Part| summary.sizes[part as usize] > 0;
                    let completed = expired(stamp_us, self.settings.keep_completed);
                    let failed = expired(stamp_us, self.settings.keep_failed);
                    let part = match () {
                        () if completed && there(Part::Payload) => Part::Payload,
                        () if failed && there(Part::Failed) => Part::Failed,
                        () if completed && failed => Part::Meta,
                        () => return None,
                    };
                    let lane = lane.catalog.files.lane;
                    let needed = self.checkpoints.is_needed(lane, number, KeptFor::All);
                    (!needed).then_some((number, part))
                });
            drop(segments);
            let Some((number, part)) = found else { return Ok(()) };
            self.drop_part(lane, number, part)?;
        }
    }

    /// Drops one file to stay within the budget; false if there is none that may be dropped.
    fn drop_oldest(&self) -> io::Result<bool> {
        // A bounded backlog goes before a record is refused.
        Ok(self.drop_oldest_not_kept_for(KeptFor::All)?
            || self.drop_oldest_not_kept_for(KeptFor::Unbounded)?)
    }

    fn drop_oldest_not_kept_for(&self, kept_for: KeptFor) -> io::Result<bool> {
        let oldest = |payload: bool| {
            let of_lane = |lane: &LaneState| {
                let segments = lane.catalog.segments.read();
                let index = lane.catalog.files.lane;
                let mut passed = segments.sealed.iter().filter(|(number, summary)| {
                    (!payload || summary.sizes[Part::Payload as usize] > 0)
                        && !self.checkpoints.is_needed(index, **number, kept_for)
                });
                passed.next().map(|(number, summary)| (summary.stamp_us, *number, *summary))
            };
            let lanes = self.lanes.iter().enumerate();
            let lanes = lanes.filter(|(_, lane)| !lane.shared.is_held());
            lanes
                .filter_map(|(index, lane)| Some((of_lane(lane)?, index)))
                .min_by_key(|((stamp_us, number, _), index)| (*stamp_us, *number, *index))
        };
        if let Some(((_, number, _), lane)) = oldest(true) {
            self.drop_part(&self.lanes[lane], number, Part::Payload)?;
            return Ok(true);
        }
        let Some(((_, number, summary), lane)) = oldest(false) else { return Ok(false) };
        let failed = summary.sizes[Part::Failed as usize] > 0;
        let part = if failed { Part::Failed } else { Part::Meta };
        self.drop_part(&self.lanes[lane], number, part)?;
        Ok(true)
    }

    fn drop_part(&self, lane: &LaneState, number: u32, part: Part) -> io::Result<()> {
        let files = &lane.catalog.files;
        files.faults.check("retention.drop")?;
        // Otherwise the file would count as missing after a crash.
        self.manifest.update(&self.lanes, Some((files.lane, number, Some(part))))?;
        let mut segments = lane.catalog.segments.write();
        let last = part == Part::Meta;
        let unread = if last { self.unread(files, &segments, number) } else { Vec::new() };
        if_exists(fs::remove_file(files.path(number, part.extension())))?;
        failpoint::pass("retention.dropped");
        files.damage.clear_failures((number, part.extension()), 0..u64::MAX);
        if let Some(summary) = segments.sealed.get_mut(&number) {
            self.budget.release(std::mem::take(&mut summary.sizes[part as usize]));
        }
        if last {
            segments.sealed.remove(&number);
        }
        self.skip(unread);
        self.counters.lock().dropped += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps_of(written: &[u64], now: u64) -> Vec<u64> {
        let summary = |stamp_us: &u64| Summary { stamp_us: *stamp_us, ..Summary::default() };
        let sealed = (1..).zip(written.iter().map(summary)).collect();
        let plausible = timestamps(&sealed, Duration::from_micros(now));
        plausible.into_iter().map(|(_, stamp_us)| stamp_us).collect()
    }

    #[test]
    fn what_counts_is_what_the_clock_of_now_can_have_said() {
        const NEVER: u64 = u64::MAX;
        assert_eq!(stamps_of(&[100, 110, 120], 130), [100, 110, 120]);
        // The clock was ahead, and is correct again.
        assert_eq!(stamps_of(&[100, 900, 120], 130), [100, 120, 120]);
        assert_eq!(stamps_of(&[100, 900], 130), [100, NEVER]);
        // The clock is behind, and correct later.
        assert_eq!(stamps_of(&[100, 110, 3], 5), [3, 3, 3]);
        assert_eq!(stamps_of(&[100, 110, 3], 130), [100, 110, 110]);
    }
}
