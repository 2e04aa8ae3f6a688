//! Syncing lanes in groups: with durability `disk`.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use crate::files::Files;
use crate::format::Position;
use crate::journal_state::JournalState;
use crate::lane_state::LaneState;
use crate::os::atomic_file::if_exists;

impl JournalState {
    /// Syncs every lane that a task waits for, once; false if there is none.
    pub(crate) fn sync(&self) -> bool {
        let mut worked = false;
        for LaneState { catalog, shared } in &self.lanes {
            if !shared.durable.has_waiters() {
                continue;
            }
            worked = true;
            let (from, end) = (shared.durable.position(), shared.end());
            let synced = sync_files(&catalog.files, from, end);
            if synced.is_err() {
                self.counters.lock().errors += 1;
                shared.abandon.store(true, Ordering::Release);
            }
            shared.durable.set_synced(end, synced.is_ok());
        }
        worked
    }
}

fn sync_files(files: &Files, from: Position, end: Position) -> io::Result<()> {
    files.faults.check("sync")?;
    for number in from.segment()..=end.segment() {
        // A missing segment is sealed, and therefore durable; or not started yet.
        if let Some(file) = if_exists(File::open(files.segment(number)))? {
            file.sync_data()?;
        }
    }
    let known = from.segment() == end.segment() && from.offset() > 0;
    if known { Ok(()) } else { files.sync_folder() }
}
