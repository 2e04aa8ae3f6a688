//! A live tail: transactions as they end, without a search.

use std::sync::Arc;
use weir_journal::{Reader, Transaction};

use super::check::Subject;
use crate::error::Error;
use crate::index::Index;
use crate::index::state::Shared;
use crate::query::Query;

/// Most transactions that are read at once: a query may match none of them.
const MAX_READ: usize = 8192;

/// Reads transactions as they end.
#[derive(Debug)]
pub struct Tail {
    readers: Vec<Reader>,
    shared: Arc<Shared>,
    query: Query,
}

impl Index {
    /// Reads transactions that end from now on and match a query. The journal keeps nothing for a
    /// tail: a slow tail skips what was dropped.
    #[must_use]
    pub fn follow(&self, query: Query) -> Tail {
        let journal = &self.shared.journal;
        let needs_payload = query.needs_payload();
        let readers = (0..journal.lanes()).map(|lane| {
            let reader = journal.reader(lane, journal.end(lane));
            if needs_payload { reader } else { reader.metadata_only() }
        });
        Tail { readers: readers.collect(), shared: Arc::clone(&self.shared), query }
    }
}

impl Tail {
    /// Matching transactions that ended since the last call, at most `limit`; the rest follows with
    /// the next call. Unless the query needs it, those that are sealed by then come without payload.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn next(&mut self, limit: usize) -> Result<Vec<Transaction>, Error> {
        let (mut found, mut read) = (Vec::new(), 0);
        for reader in &mut self.readers {
            while found.len() < limit && read < MAX_READ {
                let Some(mut transaction) = reader.next_visible().map_err(Error::Journal)? else {
                    break;
                };
                read += 1;
                if self.query.uses_keys() {
                    self.shared.read_keys(&mut transaction);
                }
                if Subject::new(&transaction, self.shared.ledger()).matches(&self.query.root) {
                    found.push(transaction);
                }
            }
        }
        // Another lane comes first the next time.
        if self.readers.len() > 1 {
            self.readers.rotate_left(1);
        }
        found.sort_by_key(|transaction| transaction.received_us);
        Ok(found)
    }
}
