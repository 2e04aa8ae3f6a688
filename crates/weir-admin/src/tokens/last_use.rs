//! When tokens were used last: kept in memory, and written to `data/admin-tokens-used.json` at most once
//! a minute. A crash loses a minute, which does not matter.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_config::secret_file;
use weir_model::UnixSeconds;

/// Interval of writing, in seconds.
const WRITE_INTERVAL: u64 = 60;
/// Most tokens with a time: those of all nodes of a fleet, once written.
const MAX_TOKENS: usize = 16_384;

/// Times of the last use by id.
#[derive(Debug)]
pub(super) struct LastUse {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    times: BTreeMap<String, u64>,
    /// When they were written, in seconds since 1970.
    written: u64,
}

impl LastUse {
    /// Those of a data folder; none if the file cannot be read.
    pub(super) fn open(data: &Path) -> Self {
        let path = data.join("admin-tokens-used.json");
        let read = secret_file::read(&path).ok();
        let times = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { path, state: Mutex::new(State { times, written: 0 }) }
    }

    pub(super) fn of(&self, id: &str) -> Option<UnixSeconds> {
        self.lock().times.get(id).copied().map(UnixSeconds)
    }

    /// Notes a use. Returns whether the times are to be written.
    pub(super) fn touch(&self, id: &str, now: u64) -> bool {
        let mut state = self.lock();
        if let Some(time) = state.times.get_mut(id) {
            *time = now;
        } else if state.times.len() < MAX_TOKENS {
            state.times.insert(id.to_owned(), now);
        }
        let is_due = now.abs_diff(state.written) >= WRITE_INTERVAL;
        if is_due {
            state.written = now;
        }
        is_due
    }

    /// Writes the times of these tokens, and forgets others. If that fails, the next time may do.
    pub(super) fn write(&self, ids: &[String]) {
        let bytes = {
            let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
            let mut state = self.lock();
            state.times.retain(|id, _| ids.contains(id.as_str()));
            serde_json::to_vec(&state.times)
        };
        let _ = bytes.map(|bytes| secret_file::replace(&self.path, &bytes));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
