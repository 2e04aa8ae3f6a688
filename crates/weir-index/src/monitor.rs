//! The Monitor: counts of calls, exactly once each.
//!
//! A [`Counter`], driven by a thread of the caller's, follows the journal and adds up what ends in
//! buckets of a minute, an hour and a day, each for a consumer, an API, an operation, a plan and a
//! class of status. Every second or so it writes what it has added up, together with how far it has
//! read, in one transaction of the [database](crate::store): a crash before that leaves both as they
//! were, so nothing is counted twice and nothing is left out. A [`Monitor`] answers questions about
//! usage, whatever thread asks.
//!
//! A call belongs to the minute in which it was received, by the clock of that moment. One that
//! comes late, or from a clock that was set, is added where it belongs: hours and days are written
//! beside minutes, never made from them later.
//!
//! How many combinations a day may have is limited. Beyond that calls are counted as `(other)`
//! operations of their consumer and plan, and beyond twice as many as `(other)` of everything.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weir_index::monitor::{Monitor, Settings, Usage};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, _, _) = weir_journal::Journal::open("data".as_ref(), Default::default())?;
//! let settings = Settings::default();
//! let (monitor, mut counter) = Monitor::open("data".as_ref(), Arc::new(journal), settings)?;
//! counter.catch_up()?; // in a thread, with a pause when there is nothing to do
//! for row in monitor.usage(&Usage::default())?.rows {
//!     println!("{} {}", row.calls, row.percentiles[1]);
//! }
//! # Ok(()) }
//! ```

mod bucket;
mod counter;
mod error;
mod quota;
mod rebuild;
mod sketch;
mod tally;
mod usage;

pub use counter::{Counter, Settings, Statistics};
pub use error::MonitorError;
pub use quota::Used;
pub use rebuild::Rebuilt;
pub use tally::{Call, Price};
pub use usage::{Group, MOST_ROWS, Report, Row, Usage, UsageError};

use crate::store;
use counter::Shared;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weir_journal::Journal;

/// What stands for names that there was no room for.
pub const OTHER: &str = "(other)";

/// Answers questions about what was counted.
#[derive(Clone, Debug)]
pub struct Monitor {
    data: PathBuf,
    /// Made when it is needed, and kept.
    connection: Arc<Mutex<Option<Connection>>>,
    shared: Arc<Shared>,
    /// What is counted, if there is a counter.
    journal: Option<Arc<Journal>>,
}

impl Monitor {
    /// Opens the counts in `data`, and gives what has to be driven to count on.
    ///
    /// # Errors
    /// The database or the journal fails.
    pub fn open(
        data: &Path,
        journal: Arc<Journal>,
        settings: Settings,
    ) -> Result<(Self, Counter), MonitorError> {
        let shared = Arc::new(Shared::new(settings));
        let counter = Counter::open(data, Arc::clone(&journal), Arc::clone(&shared))?;
        let (data, connection) = (data.to_owned(), Arc::default());
        Ok((Self { data, connection, shared, journal: Some(journal) }, counter))
    }

    /// Nothing is counted any more: the journal need keep nothing for it.
    ///
    /// # Errors
    /// The journal fails.
    pub fn forget(journal: &Journal) -> Result<(), MonitorError> {
        [counter::FOLLOWER, rebuild::PIN]
            .into_iter()
            .try_for_each(|name| journal.forget(name))
            .map_err(MonitorError::Journal)
    }

    /// The counts of a data folder that others keep, or nobody now.
    #[must_use]
    pub fn read(data: &Path) -> Self {
        let shared = Arc::new(Shared::new(Settings::default()));
        Self { data: data.to_owned(), connection: Arc::default(), shared, journal: None }
    }

    /// Does something with the database; one at a time.
    pub(crate) fn ask<T, E: From<MonitorError>>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match kept.take() {
            Some(connection) => connection,
            None => store::open(&self.data).map_err(MonitorError::from)?,
        };
        let answer = question(&connection);
        *kept = Some(connection);
        answer
    }

    /// Before when all calls have surely been counted, and before when counts may have been dropped
    /// because of their age; in seconds since 1970.
    pub(crate) fn settled_and_dropped(&self) -> Result<(u64, u64), MonitorError> {
        let read = "SELECT settled, dropped FROM counted_until";
        self.ask(|database| Ok(database.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?)))?))
    }

    /// Counts by other settings from now on.
    pub fn configure(&self, settings: Settings) {
        *self.shared.settings() = settings;
    }

    /// What the counter has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics(self.journal.as_deref())
    }
}

#[cfg(test)]
mod tests;
