//! Sealing: from a full segment to the three files described in [`crate::segment::sealed`].
//!
//! All files are written and synced under temporary names before they are renamed into place, the
//! metadata last. Only then the segment's file is reused. A crash at any time leaves either the
//! segment or its sealed form.

mod convert;

use std::fs;
use std::io;
use std::sync::atomic::Ordering;

use crate::backlog::KeptFor;
use crate::catalog::Catalog;
use crate::catalog::carry_over::CarryOver;
use crate::files::Parts;
use crate::files::damage::is_damage;
use crate::journal_state::JournalState;
use crate::lane_state::LaneState;
use crate::os::atomic_file::{if_exists, replace_durably};
use crate::segment::Segment;
use crate::segment::sealed::Summary;

/// Full segments of a lane that wait for followers, which read them faster before they are sealed.
const MAX_UNREAD_SEGMENTS: usize = 4;

impl JournalState {
    /// Seals a segment if one is due; false if none was.
    pub(crate) fn seal_one(&self) -> io::Result<bool> {
        for lane in &self.lanes {
            if let Some(number) = self.due(lane) {
                self.seal(lane, number).inspect_err(|error| {
                    if error.kind() == io::ErrorKind::StorageFull {
                        lane.catalog.remove_spares(&self.budget);
                    }
                })?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next segment of a lane to be sealed now.
    fn due(&self, lane: &LaneState) -> Option<u32> {
        if lane.shared.is_held() {
            return None;
        }
        let end = lane.shared.end().segment();
        let state = lane.catalog.segments.read();
        let mut full = state.raw.range(..end);
        let number = *full.next()?;
        let needed = self.checkpoints.is_needed(lane.catalog.files.lane, number, KeptFor::Readers);
        let pressing =
            full.count() >= MAX_UNREAD_SEGMENTS || self.budget.is_short(self.lanes.len());
        (!needed || pressing).then_some(number)
    }

    fn seal(&self, lane: &LaneState, number: u32) -> io::Result<()> {
        let catalog = &*lane.catalog;
        let files = &catalog.files;
        retry_carry_over(catalog)?;
        let already = catalog.segments.read().sealed.contains_key(&number);
        if !already && self.drop_count_only(lane, number)? {
            return Ok(());
        }
        let floor = catalog.segments.read().carry_over.next_sequence;
        let sealed = match Segment::open(files, number, floor) {
            // The segment is sealed, and could not be recycled then.
            Ok(_) if already => None,
            Ok(segment) => {
                let idle = !self.seal_delayed.load(Ordering::Relaxed);
                Some(convert::convert(catalog, segment, idle)?)
            }
            // Nothing in it can be read.
            Err(error) if is_damage(&error) => {
                let length = fs::metadata(files.segment(number))?.len();
                files.damage.record(number, "segment", 0, length);
                catalog.segments.write().missing.insert(number, Parts::UNREADABLE);
                self.manifest.update(&self.lanes, Some((files.lane, number, None)))?;
                None
            }
            Err(error) => return Err(error),
        };
        files.faults.check("seal.written")?;
        self.commit(catalog, number, sealed)
    }

    /// Replaces a segment by its sealed form.
    fn commit(
        &self,
        catalog: &Catalog,
        number: u32,
        sealed: Option<(Summary, CarryOver)>,
    ) -> io::Result<()> {
        let files = &catalog.files;
        let mut state = catalog.segments.write();
        if let Some((summary, carry_over)) = sealed {
            let before = std::mem::replace(&mut state.carry_over, carry_over).segment;
            state.sealed.insert(number, summary);
            self.budget.charge(summary.bytes());
            files.faults.check("seal.before-recycling")?;
            if_exists(fs::remove_file(files.path(before, "carry")))?;
        }
        catalog.recycle(number, &self.budget)?;
        state.raw.remove(&number);
        files.faults.check("seal.recycled")?;
        self.counters.lock().sealed += 1;
        Ok(())
    }

    /// Drops a segment that has only count-only records, all of which were counted: sealing it would
    /// take as long as counting did. Returns whether it was such a segment.
    fn drop_count_only(&self, lane: &LaneState, number: u32) -> io::Result<bool> {
        let catalog = &*lane.catalog;
        let files = &catalog.files;
        let next_sequence = lane.shared.count_only.lock().get(&number).copied();
        let mut carry_over = catalog.segments.read().carry_over.clone();
        let Some(next_sequence) = next_sequence.filter(|_| !carry_over.lost) else {
            return Ok(false);
        };
        if self.checkpoints.is_needed(files.lane, number, KeptFor::All) {
            return Ok(false);
        }
        // No transaction was open in it: only the start of the next segment changes.
        carry_over.segment = number;
        carry_over.next_sequence = carry_over.next_sequence.max(next_sequence);
        replace_durably(&files.path(number, "carry"), &carry_over.encode())?;
        files.faults.check("plain.carried")?;
        self.manifest.update(&self.lanes, Some((files.lane, number, None)))?;
        let mut state = catalog.segments.write();
        let before = std::mem::replace(&mut state.carry_over, carry_over).segment;
        catalog.recycle(number, &self.budget)?;
        state.raw.remove(&number);
        // Until the segment's file is durably removed, the carry-over before it is the valid one.
        files.sync_folder()?;
        files.faults.check("plain.recycled")?;
        if before != number {
            if_exists(fs::remove_file(files.path(before, "carry")))?;
        }
        lane.shared.count_only.lock().remove(&number);
        self.counters.lock().dropped += 1;
        Ok(true)
    }
}

/// Reads a carry-over again that could not be read when the journal was opened: there was no time to
/// wait for the disk then, and the next carry-over replaces it.
fn retry_carry_over(catalog: &Catalog) -> io::Result<()> {
    let CarryOver { lost, segment, .. } = catalog.segments.read().carry_over;
    if lost {
        let carry_over = CarryOver::read(&catalog.files, segment)?;
        if !carry_over.lost {
            catalog.segments.write().carry_over = carry_over;
        }
    }
    Ok(())
}
