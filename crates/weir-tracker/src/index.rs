//! The index: opens its folder and connects searches with the indexer.
//!
//! `data/index/` has a folder for each day (UTC), the partition, and in it the folders of
//! [parts](crate::part). The day of a part is that on which its first transaction was received. Each
//! part states its range in every lane of the journal. A gap between two parts means that a part was
//! lost; the range of the gap is then read again. So any part of the index, or all of it, can be
//! deleted.
//!
//! Parts that were built without the configuration of business keys are provisional. When the index
//! is opened with that configuration, they are deleted and their ranges are indexed again. They
//! never advance the checkpoint, so the journal still has all of their transactions.

mod coverage;
mod folder;
pub(crate) mod indexer;
pub(crate) mod state;

pub use folder::stored_depth;
pub use indexer::Indexer;
pub use state::Settings;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use weir_journal::{Address, Journal, Transaction, create_folder};
use weir_store::clock::now_us;
use weir_store::ledger::Ledger;

use crate::error::Error;
use crate::part::{Build, OpenPart};
use crate::remote::Remote;
use coverage::{chain, starts};
use folder::find;
use indexer::FOLLOWER;
use state::{Counts, Shared, State};

/// State of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions in the index.
    pub transactions: u64,
    /// Parts on disk.
    pub parts: u64,
    /// Transactions indexed since it was opened.
    pub indexed: u64,
    /// Transactions that are not indexed yet, including those still open.
    pub lag_records: u64,
    /// Microseconds since the end of the last indexed transaction; 0 when nothing is left to index.
    pub lag_us: u64,
    /// Gaps between parts that are being read again.
    pub missing: u64,
    /// Parts found damaged since it was opened.
    pub damaged: u64,
    /// Transactions indexed without words or keys, as reading them panicked.
    pub skipped: u64,
    /// Calls of [`Indexer::recover`].
    pub restarts: u64,
}

/// Searches the transactions of a journal.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
}

impl Index {
    /// Opens or creates the index in `data`, and returns the indexer, which the caller has to run.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Journal`] if files fail. Damage is repaired.
    pub fn open(
        data: &Path,
        journal: Arc<Journal>,
        settings: Settings,
    ) -> Result<(Self, Indexer), Error> {
        let folder = data.join("index");
        create_folder(&folder).map_err(Error::io(&folder))?;
        let found = find(&folder, settings.provisional)?;
        let (sealed, gaps, indexed) = chain(found.parts, starts(&journal));
        let build = Build::new(settings.depth);
        let open = OpenPart::new(settings.depth, build.seed());
        let state = State { sealed, open, from: indexed.clone(), indexed, gaps };
        let shared = Arc::new(Shared {
            folder,
            journal,
            settings,
            state: RwLock::new(state),
            damaged: Mutex::default(),
            counts: Counts {
                // The lag is unknown until the journal was read to its end once.
                behind_since: now_us().into(),
                damaged: found.damaged.into(),
                ..Counts::default()
            },
            remote: None,
            ledger: OnceLock::new(),
        });
        let indexer = Indexer::new(Arc::clone(&shared), build, found.next)?;
        Ok((Self { shared }, indexer))
    }

    /// An index whose parts and segments are fetched when a query needs them; the journal has the lanes
    /// of all of them. Only searches can use it.
    #[must_use]
    pub fn remote(folder: &Path, journal: Arc<Journal>, remote: Arc<dyn Remote>) -> Self {
        let settings = Settings::default();
        let build = Build::new(settings.depth);
        let open = OpenPart::new(settings.depth, build.seed());
        // Nothing but parts: no lane has an end to be read.
        let empty = (Vec::new(), Vec::new());
        let state =
            State { sealed: Vec::new(), open, from: empty.0, indexed: empty.1, gaps: Vec::new() };
        let shared = Shared {
            folder: folder.to_owned(),
            journal,
            settings,
            state: RwLock::new(state),
            damaged: Mutex::default(),
            counts: Counts::default(),
            remote: Some(remote),
            ledger: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether its parts and segments are fetched.
    pub(crate) fn is_remote(&self) -> bool {
        self.shared.remote.is_some()
    }

    /// Removes the checkpoint: transactions are no longer indexed, and the journal need not keep
    /// them for that.
    ///
    /// # Errors
    /// [`Error::Journal`] if its checkpoint cannot be removed.
    pub fn remove_checkpoint(journal: &Journal) -> Result<(), Error> {
        journal.forget(FOLLOWER).map_err(Error::Journal)
    }

    /// Returns searches access to the resolutions of transactions; once.
    pub fn set_ledger(&self, ledger: Ledger) {
        // A second one would read the same database.
        let _ = self.shared.ledger.set(ledger);
    }

    /// Transactions at these addresses, which are in ascending order, with heads and bodies; without
    /// those that the journal does not have there.
    ///
    /// # Errors
    /// [`Error::Journal`] if it cannot be read.
    pub fn read_at(&self, addresses: &[Address]) -> Result<Vec<Transaction>, Error> {
        self.shared.transactions(addresses, true)
    }

    /// Its state; `now` in microseconds since 1970.
    #[must_use]
    pub fn statistics(&self, now: u64) -> Statistics {
        let counts = &self.shared.counts;
        let since = counts.behind_since.load(Ordering::Relaxed);
        // Reads files, so it comes before the lock. The checkpoint is the start of the open part.
        let lag = match since {
            0 => None,
            _ => self.shared.journal.lag(FOLLOWER).unwrap_or_default(),
        };
        let lag = lag.map_or(0, |lag| lag.records);
        let state = self.shared.state.read();
        let sealed: usize = state.sealed.iter().map(|part| part.head.rows).sum();
        Statistics {
            transactions: (sealed + state.open.columns.len()) as u64,
            lag_records: lag.saturating_sub(state.open.columns.len() as u64),
            parts: state.sealed.len() as u64,
            indexed: counts.indexed.load(Ordering::Relaxed),
            lag_us: if since == 0 { 0 } else { now.saturating_sub(since) },
            missing: state.gaps.len() as u64,
            damaged: counts.damaged.load(Ordering::Relaxed),
            skipped: counts.skipped.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
        }
    }
}
