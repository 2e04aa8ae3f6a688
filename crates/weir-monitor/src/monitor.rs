//! Read access to the counts.

use crate::counter::{Counter, FOLLOWER, REBUILD_PIN, Recorded, Settings, Shared, Statistics};
use crate::error::MonitorError;
use crate::quota::{self, QuotaUse};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_journal::Journal;

/// Reads the counts of a data folder.
#[derive(Clone, Debug)]
pub struct Monitor {
    data: PathBuf,
    /// Opened with the first use.
    connection: Arc<Mutex<Option<Connection>>>,
    shared: Arc<Shared>,
    /// The journal, if there is a counter.
    journal: Option<Arc<Journal>>,
}

impl Monitor {
    /// Opens the counts in `data`, and returns the counter, which the caller has to run.
    ///
    /// # Errors
    /// The database or the journal fails.
    pub fn open(
        data: &Path,
        journal: Arc<Journal>,
        settings: Settings,
    ) -> Result<(Self, Counter), MonitorError> {
        let shared = Arc::<Shared>::default();
        *shared.settings.lock() = settings;
        let counter = Counter::open(data, Arc::clone(&journal), Arc::clone(&shared))?;
        let (data, connection) = (data.to_owned(), Arc::default());
        Ok((Self { data, connection, shared, journal: Some(journal) }, counter))
    }

    /// Removes the checkpoints: calls are no longer counted, and the journal need not keep them for
    /// that.
    ///
    /// # Errors
    /// The journal fails.
    pub fn remove_checkpoints(journal: &Journal) -> Result<(), MonitorError> {
        [FOLLOWER, REBUILD_PIN]
            .into_iter()
            .try_for_each(|name| journal.forget(name))
            .map_err(MonitorError::Journal)
    }

    /// The counts of a data folder, without a counter.
    #[must_use]
    pub fn read(data: &Path) -> Self {
        let (connection, shared) = (Arc::default(), Arc::default());
        Self { data: data.to_owned(), connection, shared, journal: None }
    }

    /// The counts of a database, without a counter.
    pub(crate) fn of(connection: Connection) -> Self {
        let connection = Arc::new(Mutex::new(Some(connection)));
        Self { data: PathBuf::new(), connection, shared: Arc::default(), journal: None }
    }

    /// Runs `read` on the database; one caller at a time.
    pub(crate) fn query<T, E: From<MonitorError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut cached = self.connection.lock();
        let connection = match cached.take() {
            Some(connection) => connection,
            None => weir_store::open(&self.data).map_err(MonitorError::from)?,
        };
        read(cached.insert(connection))
    }

    /// The time before which all calls are certainly counted, and the time before which counts may
    /// have been purged; in seconds since 1970.
    pub(crate) fn complete_and_purged(&self) -> Result<(u64, u64), MonitorError> {
        let read = "SELECT settled, dropped FROM counted_until";
        self.query(|database| {
            Ok(database.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
        })
    }

    /// As [`Counter::quota_used`], from another thread.
    ///
    /// # Errors
    /// The database fails.
    pub fn quota_used(&self, plan: &str, span: &Range<u64>) -> Result<Vec<QuotaUse>, MonitorError> {
        self.query(|database| quota::used(database, plan, span))
    }

    /// Changes the settings of the counter.
    pub fn configure(&self, settings: Settings) {
        *self.shared.settings.lock() = settings;
    }

    /// State of the counter.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics(self.journal.as_deref())
    }

    /// Records of the journal, and those of them that are counted; `None` without a counter, and until it
    /// has counted what earlier runs have left.
    #[must_use]
    pub fn recorded(&self) -> Option<Recorded> {
        self.shared.recorded(self.journal.as_deref()?)
    }
}
