//! What searches and the indexer share.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use weir_config::BusinessKeys;
use weir_journal::{Journal, Position, Transaction};
use weir_store::clock::now_us;
use weir_store::ledger::Ledger;

use super::coverage::Gap;
use crate::keys::read_keys;
use crate::part::block::Depth;
use crate::part::{OpenPiece, SealedPiece};

/// How the index is kept.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What is indexed.
    pub depth: Depth,
    /// The code of the stage whose duration is that of the whole transaction.
    pub whole_stage: u8,
    /// What is read out of each transaction as its business keys.
    pub keys: Arc<BusinessKeys>,
    /// Index when nothing else wants to run, unless it is more than a minute behind.
    pub in_idle_time: bool,
    /// Nobody knows what is a business key: what is indexed now is indexed again by whoever does.
    pub provisional: bool,
}

/// What searches see.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) sealed: Vec<Arc<SealedPiece>>,
    pub(crate) open: OpenPiece,
    /// Where the open piece began, and where it has come to, in each lane.
    pub(crate) from: Vec<Position>,
    pub(crate) indexed: Vec<Position>,
    pub(crate) gaps: Vec<Gap>,
}

/// What searches and the indexer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) journal: Arc<Journal>,
    pub(crate) settings: Settings,
    state: RwLock<State>,
    /// Pieces that were found damaged and have to be made again.
    pub(crate) damaged: Mutex<HashSet<PathBuf>>,
    pub(crate) counts: Counts,
    /// What became of transactions, if that is known.
    pub(super) ledger: OnceLock<Ledger>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) indexed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// When the transaction indexed last had ended; 0 when nothing is left.
    pub(crate) behind_since: AtomicU64,
    /// When the last search began; 0 before the first.
    searched: AtomicU64,
}

impl Counts {
    /// Notes that somebody searches.
    pub(crate) fn search(&self) {
        self.searched.store(now_us(), Ordering::Relaxed);
    }

    /// Whether somebody searched a moment ago, and may again.
    pub(crate) fn is_searched(&self) -> bool {
        let since = now_us().saturating_sub(self.searched.load(Ordering::Relaxed));
        since < SEARCHING.as_micros() as u64
    }
}

/// For so long after a search, another one is expected.
const SEARCHING: Duration = Duration::from_secs(5);

impl Shared {
    pub(super) fn new(
        folder: PathBuf,
        journal: Arc<Journal>,
        settings: Settings,
        state: State,
    ) -> Self {
        Self {
            folder,
            journal,
            settings,
            state: RwLock::new(state),
            damaged: Mutex::default(),
            counts: Counts::default(),
            ledger: OnceLock::new(),
        }
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.get()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the business keys that can be read out of a transaction; false if that panicked. What
    /// was recorded was sent by anybody, and must not end who reads it.
    pub(crate) fn read_keys(&self, transaction: &mut Transaction) -> bool {
        let keys = &self.settings.keys;
        catch_unwind(AssertUnwindSafe(|| read_keys(keys, transaction))).is_ok()
    }

    /// Notes a damaged piece, to be made again by the indexer.
    pub(crate) fn report(&self, piece: &SealedPiece) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.insert(piece.folder.clone()) {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}
