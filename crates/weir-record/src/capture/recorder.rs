//! What the records of a worker are written with.

use super::mask::Budget;
use super::rest::HashKey;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use weir_config::Config;
use weir_journal::{Lane, Position};
use weir_telemetry::stats::WorkerStats;

/// What all workers share of recording.
#[derive(Debug, Default)]
pub struct Common {
    pub(super) budget: Budget,
    /// There if transactions are recorded.
    pub(super) key: Option<HashKey>,
}

impl Common {
    /// Opens what is needed to record.
    ///
    /// # Errors
    /// The data folder cannot be read or written.
    pub fn open(config: &Config) -> io::Result<Self> {
        let key = config.tracker.enabled.then(|| HashKey::open(&config.data)).transpose()?;
        Ok(Self { key, ..Self::default() })
    }
}

/// The journal as one worker writes it. It lives as long as its worker.
pub struct Recorder {
    /// Where transactions are recorded, if they are.
    pub(super) lane: Option<RefCell<Lane>>,
    /// Responses leave when their records are on the disk. As long as the process lives.
    pub(super) waits_for_disk: bool,
    pub(super) common: Arc<Common>,
    pub(super) stats: Arc<WorkerStats>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("records", &self.lane.is_some()).finish_non_exhaustive()
    }
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

    /// A second has passed.
    pub fn tick(&self) {
        if let Some(lane) = &self.lane {
            lane.borrow_mut().tick();
        }
    }

    /// The end of the record that a response waits for.
    pub(super) fn position_to_wait_for(&self) -> Option<Position> {
        let lane = self.lane.as_ref().filter(|_| self.waits_for_disk)?;
        Some(lane.borrow().position())
    }
}
