//! Dropping what is old, or what the budget does not allow: whole files, and nothing that a
//! follower has not passed.
//!
//! By age each part goes on its own clock, the metadata with the last of the others. For the
//! budget the oldest payloads of completed transactions go first; only when there are none left,
//! the oldest failed transactions and metadata.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::background::{Inner, LaneState};
use crate::failpoint;
use crate::files::State;
use crate::sealed::{Part, Summary};

/// Time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// When each sealed segment counts as recorded, by what the clock says now. One whose stamp lies in
/// the future is as old as the next one whose stamp does not, and none is older than the one before
/// it: either the clock was ahead then, or it was behind when later ones were recorded.
fn stamps(sealed: &BTreeMap<u32, Summary>, now: Duration) -> Vec<(u32, u64)> {
    let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    let mut latest = 0;
    let mut stamps: Vec<_> = sealed
        .iter()
        .map(|(number, summary)| {
            let told = summary.stamp_us <= now_us;
            latest = if told { summary.stamp_us.max(latest) } else { latest };
            (*number, if told { latest } else { u64::MAX })
        })
        .collect();
    let mut next = u64::MAX;
    for (_, stamp_us) in stamps.iter_mut().rev() {
        next = next.min(*stamp_us);
        *stamp_us = next;
    }
    stamps
}

impl Inner {
    /// Drops what is to be dropped now.
    pub(crate) fn retain(&self) -> io::Result<()> {
        let now = now();
        for lane in &self.lanes {
            self.drop_old(lane, now)?;
        }
        while self.budget.short(self.lanes.len()) && self.drop_oldest()? {}
        Ok(())
    }

    fn drop_old(&self, lane: &LaneState, now: Duration) -> io::Result<()> {
        let old = |stamp_us, keep| Duration::from_micros(stamp_us).saturating_add(keep) < now;
        loop {
            let state = lane.files.state();
            let found = stamps(&state.sealed, now).into_iter().find_map(|(number, stamp_us)| {
                let summary = state.sealed.get(&number)?;
                let there = |part: Part| summary.sizes[part as usize] > 0;
                let completed = old(stamp_us, self.settings.keep_completed);
                let failed = old(stamp_us, self.settings.keep_failed);
                let part = match () {
                    () if completed && there(Part::Payload) => Part::Payload,
                    () if failed && there(Part::Failed) => Part::Failed,
                    () if completed && failed => Part::Meta,
                    () => return None,
                };
                self.checkpoints.have_passed(lane.files.lane, number).then_some((number, part))
            });
            drop(state);
            let Some((number, part)) = found else { return Ok(()) };
            self.drop_part(lane, number, part)?;
        }
    }

    /// Drops one file to stay within the budget; false if there is none that may go.
    fn drop_oldest(&self) -> io::Result<bool> {
        let oldest = |payload: bool| {
            let of_lane = |lane: &LaneState| {
                let state: &State = &lane.files.state();
                let mut passed = state.sealed.iter().filter(|(number, summary)| {
                    (!payload || summary.sizes[Part::Payload as usize] > 0)
                        && self.checkpoints.have_passed(lane.files.lane, **number)
                });
                passed.next().map(|(number, summary)| (summary.stamp_us, *number, *summary))
            };
            let lanes = self.lanes.iter().enumerate();
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
        lane.files.faults().check("retention.drop")?;
        // Or it would be missed after a crash.
        self.manifest.bring_up_to_date(&self.lanes, Some((lane.files.lane, number, Some(part))))?;
        let mut state = lane.files.change();
        match fs::remove_file(lane.files.path(number, part.extension())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        failpoint::pass("retention.dropped");
        lane.files.damages.fails_no_more((number, part.extension()), 0..u64::MAX);
        if let Some(summary) = state.sealed.get_mut(&number) {
            self.budget.give_back(std::mem::take(&mut summary.sizes[part as usize]));
        }
        if part == Part::Meta {
            state.sealed.remove(&number);
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps_of(written: &[u64], now: u64) -> Vec<u64> {
        let summary = |stamp_us: &u64| Summary { stamp_us: *stamp_us, ..Summary::default() };
        let sealed = (1..).zip(written.iter().map(summary)).collect();
        let told = stamps(&sealed, Duration::from_micros(now));
        told.into_iter().map(|(_, stamp_us)| stamp_us).collect()
    }

    #[test]
    fn what_counts_is_what_the_clock_of_now_can_have_said() {
        const NEVER: u64 = u64::MAX;
        assert_eq!(stamps_of(&[100, 110, 120], 130), [100, 110, 120]);
        // It was ahead, and is right again.
        assert_eq!(stamps_of(&[100, 900, 120], 130), [100, 120, 120]);
        assert_eq!(stamps_of(&[100, 900], 130), [100, NEVER]);
        // It is behind, and right again later.
        assert_eq!(stamps_of(&[100, 110, 3], 5), [3, 3, 3]);
        assert_eq!(stamps_of(&[100, 110, 3], 130), [100, 110, 110]);
    }
}
