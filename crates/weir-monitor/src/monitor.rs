//! Access to counts for readers.

use crate::counter::{Counter, FOLLOWER, REBUILD_PIN, Settings, Shared, Statistics};
use crate::error::MonitorError;
use crate::quota::{self, Used};
use rusqlite::Connection;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weir_journal::Journal;

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
        [FOLLOWER, REBUILD_PIN]
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
            None => weir_store::open(&self.data).map_err(MonitorError::from)?,
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

    /// As [`Counter::quota_used`], beside one.
    ///
    /// # Errors
    /// The database fails.
    pub fn quota_used(&self, plan: &str, span: &Range<u64>) -> Result<Vec<Used>, MonitorError> {
        self.ask(|database| quota::used(database, plan, span))
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
