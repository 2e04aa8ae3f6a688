//! Handover of a journal from one process to its successor, without a pause.
//!
//! The predecessor releases sealing, retention, the manifest and the checkpoints of followers, and
//! continues to write its own lanes. The successor takes over the lock, writes to lanes of its own,
//! and holds those of the predecessor as far as these are reported to be written: readers see them,
//! nothing changes their files. When the predecessor has ended, however it ended, the successor
//! adopts its lanes: they are recovered as after any end of a process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::data_lock::{DataLock, Error, at};
use crate::journal::{Journal, recover_lane};
use crate::lane::Lane;
use crate::lane_state::{LaneProgress, LaneState};
use crate::recovery::RecoveryReport;
use crate::settings::Settings;

impl Journal {
    /// How far the lanes are written to which this process writes.
    #[must_use]
    pub fn progress(&self) -> Vec<LaneProgress> {
        let state = self.state();
        let lanes = state.preallocators.iter().map(|preallocator| preallocator.lock().lane());
        let progress = lanes.filter_map(|lane| {
            let shared = &state.lanes.get(usize::from(lane))?.shared;
            // The end first: a sequence number that is too high does no harm.
            let end = shared.end();
            let next_sequence = shared.next_sequence.load(Ordering::Relaxed);
            Some(LaneProgress { lane, end, next_sequence })
        });
        progress.collect()
    }

    /// Ends sealing, retention and the manifest in this process, once what is in progress is done.
    /// The followers must have ended before. Returns the lock to pass on.
    ///
    /// # Errors
    /// No descriptor is free; nothing is released.
    pub fn release(&self) -> io::Result<OwnedFd> {
        let lock = self.lock().share()?;
        *self.state().released.lock() = true;
        Ok(lock)
    }

    /// Opens a journal that another process has released, and that writes the lanes in `held`.
    ///
    /// # Errors
    /// The lock is not that of this folder, or files fail.
    pub fn take_over(
        data: &Path,
        settings: Settings,
        lock: OwnedFd,
        held: &[LaneProgress],
    ) -> Result<(Self, Vec<Lane>, RecoveryReport), Error> {
        Self::start(data, settings, DataLock::inherit(data, lock)?, held)
    }

    /// The predecessor has written more.
    ///
    /// # Errors
    /// The files of a lane cannot be listed.
    pub fn follow_predecessor(&self, progress: &[LaneProgress]) -> io::Result<()> {
        let state = self.state();
        for LaneProgress { lane, end, next_sequence } in progress {
            let Some(LaneState { catalog, shared }) = state.lanes.get(usize::from(*lane)) else {
                continue;
            };
            if !shared.is_held() || *end <= shared.end() {
                continue;
            }
            if end.segment() > shared.end().segment() || shared.end().offset() == 0 {
                catalog.follow(&state.budget, *end)?;
            }
            shared.next_sequence.store(*next_sequence, Ordering::Relaxed);
            shared.end.store(end.to_bits(), Ordering::Release);
        }
        Ok(())
    }

    /// Adopts the lanes of a predecessor that has ended: transactions that it left open are
    /// interrupted. Returns what was found; nothing if there is no lane to adopt.
    ///
    /// # Errors
    /// Files fail. Lanes that were not adopted yet stay held; it can be called again.
    pub fn adopt(&self) -> Result<RecoveryReport, Error> {
        let (state, mut report) = (self.state(), RecoveryReport::default());
        for lane in state.lanes.iter().filter(|lane| lane.shared.is_held()) {
            let files = &lane.catalog.files;
            let known = state.manifest.known_parts(files.lane);
            lane.catalog.reopen(&state.budget, &known).map_err(at(&files.folder))?;
            drop(recover_lane(state, lane, false, &mut report)?);
            lane.shared.held.store(false, Ordering::Release);
        }
        Ok(report)
    }
}
