//! Following what ends from now on, without searching.

use weir_journal::{Reader, Transaction};

use crate::error::Error;
use crate::index::Index;

/// Gives transactions as they end, lane by lane.
#[derive(Debug)]
pub struct Tail {
    readers: Vec<Reader>,
}

impl Index {
    /// Follows what ends from now on. It keeps nothing from being dropped: what a tail is too slow
    /// for, it leaves out.
    #[must_use]
    pub fn follow(&self) -> Tail {
        let journal = &self.shared.journal;
        let readers = (0..journal.lanes()).map(|lane| journal.reader(lane, journal.end(lane)));
        Tail { readers: readers.map(Reader::metadata_only).collect() }
    }
}

impl Tail {
    /// What has ended since the last call, at most `most` of it; what is left comes the next time.
    /// What is sealed by then comes without payload.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn next(&mut self, most: usize) -> Result<Vec<Transaction>, Error> {
        let mut found = Vec::new();
        for reader in &mut self.readers {
            while found.len() < most {
                match reader.next_shown().map_err(Error::Journal)? {
                    Some(transaction) => found.push(transaction),
                    None => break,
                }
            }
        }
        // Not always the same lane comes first.
        if self.readers.len() > 1 {
            self.readers.rotate_left(1);
        }
        found.sort_by_key(|transaction| transaction.received_us);
        Ok(found)
    }
}
