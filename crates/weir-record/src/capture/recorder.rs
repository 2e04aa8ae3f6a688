//! Recorder: the journal and settings that the records of a worker are written with.

use super::mask::Budget;
use super::rest::HashKey;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use weir_config::Config;
use weir_journal::{Lane, Position};
use weir_telemetry::stats::WorkerStats;

/// Recording state shared by all workers.
#[derive(Default)]
pub struct Common {
    pub(super) budget: Budget,
    /// Some if transactions are recorded.
    pub(super) key: Option<HashKey>,
}

impl Common {
    /// Opens the files needed for recording.
    ///
    /// # Errors
    /// The data folder cannot be read or written.
    pub fn open(config: &Config) -> io::Result<Self> {
        let key = config.tracker.enabled.then(|| HashKey::open(&config.data)).transpose()?;
        Ok(Self { key, ..Self::default() })
    }
}

/// The journal as one worker writes it. Lives as long as its worker.
pub struct Recorder {
    /// The lane, if transactions are recorded.
    pub(super) lane: Option<RefCell<Lane>>,
    /// Responses wait until their records are synced. Constant for the life of the process.
    pub(super) waits_for_disk: bool,
    pub(super) common: Arc<Common>,
    pub(super) stats: Arc<WorkerStats>,
}

impl Recorder {
    /// Writes to a lane of the journal.
    pub fn new(
        lane: Option<Lane>,
        waits_for_disk: bool,
        common: Arc<Common>,
        stats: Arc<WorkerStats>,
    ) -> Self {
        Self { lane: lane.map(RefCell::new), waits_for_disk, common, stats }
    }

    /// Runs the work of every second.
    pub fn tick(&self) {
        if let Some(lane) = &self.lane {
            lane.borrow_mut().tick();
        }
    }

    /// End position of the record that a response waits for.
    pub(super) fn position_to_wait_for(&self) -> Option<Position> {
        let lane = self.lane.as_ref().filter(|_| self.waits_for_disk)?;
        Some(lane.borrow().position())
    }
}
