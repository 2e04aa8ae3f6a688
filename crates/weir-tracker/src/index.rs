//! The index as a whole: its folder, its pieces, what searches and the indexer share.
//!
//! `data/index/` has a folder for each day (UTC), named after the day on which its first
//! transaction was received, and in it the folders of [pieces](crate::part). A partition is
//! dropped whole. Each piece says where it begins and ends in every lane of the journal; where one
//! does not end where the next begins, something was lost, and that stretch is read again. So any
//! part of the index can be deleted, and all of it.
//!
//! Pieces that were made without knowing what is a business key are provisional: whoever knows it
//! drops them when the index is opened, and indexes that stretch again. They never move the
//! checkpoint, so the journal still has it whole.

mod coverage;
mod folder;
pub(crate) mod indexer;
pub(crate) mod state;

pub use folder::stored_depth;
pub use indexer::Indexer;
pub use state::Settings;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_journal::{Address, Journal, Transaction};
use weir_store::clock::now_us;
use weir_store::ledger::Ledger;

use crate::error::Error;
use crate::part::{Build, OpenPiece, make_folder};
use coverage::{begins, chain};
use folder::find;
use indexer::FOLLOWER;
use state::{Shared, State};

/// What the index has and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions that can be found by it.
    pub transactions: u64,
    /// Pieces on disk.
    pub pieces: u64,
    /// Transactions indexed since it was opened.
    pub indexed: u64,
    /// Transactions that are not indexed yet, those that are still open included.
    pub lag_records: u64,
    /// Microseconds since the last indexed transaction ended; 0 when nothing is left to index.
    pub lag_us: u64,
    /// Stretches that were lost and are being read again.
    pub missing: u64,
    /// Pieces found damaged since it was opened.
    pub damaged: u64,
    /// Transactions indexed without words or keys, since reading them panicked.
    pub skipped: u64,
    /// Times that [`Indexer::recover`] was called.
    pub restarts: u64,
}

/// Searches the transactions of a journal.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
}

impl Index {
    /// Opens or makes the index in `data`, and gives what has to be driven to keep it up to date.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Journal`] if files fail. Damage is put right.
    pub fn open(
        data: &Path,
        journal: Arc<Journal>,
        settings: Settings,
    ) -> Result<(Self, Indexer), Error> {
        let folder = data.join("index");
        make_folder(&folder)?;
        let found = find(&folder, settings.provisional)?;
        let damaged = found.damaged;
        let (sealed, gaps, indexed) = chain(found.pieces, begins(&journal));
        let build = Build::new(settings.depth);
        let open = OpenPiece::new(settings.depth, build.seed());
        let state = State { sealed, open, from: indexed.clone(), indexed, gaps };
        let shared = Arc::new(Shared::new(folder, journal, settings, state));
        // Nothing is known of the journal's end until it was read to there once.
        shared.counts.behind_since.store(now_us(), Ordering::Relaxed);
        shared.counts.damaged.store(damaged, Ordering::Relaxed);
        let next = found.next;
        let indexer = Indexer::new(Arc::clone(&shared), build, next)?;
        Ok((Self { shared }, indexer))
    }

    /// Nothing is indexed any more: the journal need keep nothing for it.
    ///
    /// # Errors
    /// [`Error::Journal`] if its checkpoint cannot be removed.
    pub fn forget(journal: &Journal) -> Result<(), Error> {
        journal.forget(FOLLOWER).map_err(Error::Journal)
    }

    /// Lets searches ask what became of transactions; once.
    pub fn ask(&self, ledger: Ledger) {
        // A second one would say the same.
        let _ = self.shared.ledger.set(ledger);
    }

    /// Transactions at these addresses, which are in ascending order, with heads and bodies; without
    /// those that the journal does not have there.
    ///
    /// # Errors
    /// [`Error::Journal`] if it cannot be read.
    pub fn read_at(&self, addresses: &[Address]) -> Result<Vec<Transaction>, Error> {
        self.shared.journal.get_many(addresses, true).map_err(Error::Journal)
    }

    /// What it has and does; `now` in microseconds since 1970.
    #[must_use]
    pub fn statistics(&self, now: u64) -> Statistics {
        let counts = &self.shared.counts;
        let since = counts.behind_since.load(Ordering::Relaxed);
        // Reads files, so it comes before the lock. The checkpoint stands where the open piece began.
        let lags = match since {
            0 => Vec::new(),
            _ => self.shared.journal.lags().unwrap_or_default(),
        };
        let lag = lags.iter().find(|lag| lag.name == FOLLOWER).map_or(0, |lag| lag.records);
        let state = self.shared.read();
        let sealed: usize = state.sealed.iter().map(|piece| piece.head.rows).sum();
        Statistics {
            transactions: (sealed + state.open.columns.len()) as u64,
            lag_records: lag.saturating_sub(state.open.columns.len() as u64),
            pieces: state.sealed.len() as u64,
            indexed: counts.indexed.load(Ordering::Relaxed),
            lag_us: if since == 0 { 0 } else { now.saturating_sub(since) },
            missing: state.gaps.len() as u64,
            damaged: counts.damaged.load(Ordering::Relaxed),
            skipped: counts.skipped.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
        }
    }
}
