//! A live tail: transactions as they end, without a search.

use weir_journal::{Reader, Transaction};

use crate::error::Error;
use crate::index::Index;

/// Reads transactions as they end.
#[derive(Debug)]
pub struct Tail {
    readers: Vec<Reader>,
}

impl Index {
    /// Reads transactions that end from now on. The journal keeps nothing for a tail: a slow tail
    /// skips what was dropped.
    #[must_use]
    pub fn follow(&self) -> Tail {
        let journal = &self.shared.journal;
        let readers = (0..journal.lanes()).map(|lane| journal.reader(lane, journal.end(lane)));
        Tail { readers: readers.map(Reader::metadata_only).collect() }
    }
}

impl Tail {
    /// Transactions that ended since the last call, at most `limit`; the rest follows with the next
    /// call. Those that are sealed by then come without payload.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn next(&mut self, limit: usize) -> Result<Vec<Transaction>, Error> {
        let mut found = Vec::new();
        for reader in &mut self.readers {
            while found.len() < limit {
                match reader.next_visible().map_err(Error::Journal)? {
                    Some(transaction) => found.push(transaction),
                    None => break,
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
