//! The state that searches and the indexer share.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use weir_expr::BusinessKeys;
use weir_journal::{Address, Journal, Position, Transaction, Undecoded};
use weir_store::clock::now_us;
use weir_store::ledger::Ledger;

use super::coverage::Gap;
use crate::error::Error;
use crate::keys::read_keys;
use crate::part::block::Depth;
use crate::part::file::Fetch;
use crate::part::{OpenPart, SealedPart};
use crate::remote::{Remote, RemotePart};

/// Settings of the index.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Content that is indexed.
    pub depth: Depth,
    /// The business keys to extract from transactions.
    pub keys: Arc<BusinessKeys>,
    /// Index in idle time only, unless indexing is more than a minute behind.
    pub in_idle_time: bool,
    /// The business keys are unknown: what is indexed now is indexed again once they are known.
    pub provisional: bool,
}

/// What a search reads.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) sealed: Vec<Arc<SealedPart>>,
    pub(crate) open: OpenPart,
    /// Start and end of the range of the open part, in each lane.
    pub(crate) from: Vec<Position>,
    pub(crate) indexed: Vec<Position>,
    pub(crate) gaps: Vec<Gap>,
}

/// Shared by searches and the indexer.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) journal: Arc<Journal>,
    pub(crate) settings: Settings,
    pub(crate) state: RwLock<State>,
    /// Folders of parts that were found damaged and have to be built again.
    pub(crate) damaged: Mutex<HashSet<PathBuf>>,
    pub(crate) counts: Counts,
    /// Where parts and segments are fetched from.
    pub(crate) remote: Option<Arc<dyn Remote>>,
    /// The resolutions of transactions, if there is a database.
    pub(super) ledger: OnceLock<Ledger>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) indexed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// End of the transaction indexed last, in microseconds since 1970; 0 when none is left.
    pub(crate) behind_since: AtomicU64,
    /// Start of the last search, likewise; 0 before the first.
    pub(super) searched: AtomicU64,
}

impl Counts {
    /// Records the start of a search.
    pub(crate) fn search(&self) {
        self.searched.store(now_us(), Ordering::Relaxed);
    }

    /// Whether there was a search a moment ago, so that another one is likely.
    pub(crate) fn was_searched_recently(&self) -> bool {
        let since = now_us().saturating_sub(self.searched.load(Ordering::Relaxed));
        since < SEARCH_WINDOW.as_micros() as u64
    }
}

/// Time after a search in which another one is expected.
const SEARCH_WINDOW: Duration = Duration::from_secs(5);

impl Shared {
    /// Transactions at these addresses, which are in ascending order.
    pub(crate) fn transactions(
        &self,
        addresses: &[Address],
        payload: bool,
    ) -> Result<Vec<Transaction>, Error> {
        self.fetch_segments(addresses, payload)?;
        self.journal.get_many(addresses, payload).map_err(Error::Journal)
    }

    /// Calls `each` with the transactions at these addresses, which are in ascending order, not decoded.
    pub(crate) fn visit(
        &self,
        addresses: &[Address],
        each: impl FnMut(Address, &Undecoded<'_>),
    ) -> Result<(), Error> {
        self.fetch_segments(addresses, true)?;
        self.journal.visit(addresses, each).map_err(Error::Journal)
    }

    /// Fetches the segments of these addresses, unless the journal is here.
    fn fetch_segments(&self, addresses: &[Address], payload: bool) -> Result<(), Error> {
        match &self.remote {
            Some(remote) => {
                remote.segments(&self.journal, addresses, payload).map_err(Error::Remote)
            }
            None => Ok(()),
        }
    }

    /// Adds the remote parts that may have transactions received in a range.
    pub(crate) fn add_remote_parts(&self, times: (u64, u64)) -> Result<(), Error> {
        let Some(remote) = &self.remote else { return Ok(()) };
        let place = Arc::clone(remote);
        let fetch = Fetch(Arc::new(move |path| place.file(path)));
        let open = |RemotePart { folder, head, lane }| {
            SealedPart::remote(folder, head, lane, fetch.clone()).map(Arc::new)
        };
        let parts = remote.parts(times).map_err(Error::Remote)?.into_iter().map(open);
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.state.write().sealed.extend(parts);
        Ok(())
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.get()
    }

    /// Adds the business keys that can be extracted from a transaction; false if that panicked.
    /// Recorded data comes from any client, and must not end the thread that reads it.
    pub(crate) fn read_keys(&self, transaction: &mut Transaction) -> bool {
        let keys = &self.settings.keys;
        catch_unwind(AssertUnwindSafe(|| read_keys(keys, transaction))).is_ok()
    }

    /// Reports a damaged part, which the indexer then builds again.
    pub(crate) fn report(&self, part: &SealedPart) {
        let mut damaged = self.damaged.lock();
        if damaged.insert(part.folder.clone()) {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}
