//! A live tail: transactions as they end, without a search.

use std::str::FromStr;
use std::sync::Arc;
use weir_journal::{Position, Reader, Transaction};

use super::check::Subject;
use crate::error::Error;
use crate::index::Index;
use crate::index::state::Shared;
use crate::query::Query;

/// Most transactions that are read at once: a query may match none of them.
const MAX_READ: usize = 8192;

/// Most lanes of a cursor.
const MAX_LANES: usize = 4096;

/// How far a tail has read, for another one that continues there: the position and the sequence number of
/// each lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailCursor(Vec<LanePosition>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LanePosition {
    lane: u16,
    position: u64,
    sequence: u64,
}

impl std::fmt::Display for TailCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, LanePosition { lane, position, sequence }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "." };
            write!(f, "{separator}{lane:x}-{position:x}-{sequence:x}")?;
        }
        Ok(())
    }
}

/// The text is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of a tail")]
pub struct InvalidTailCursor;

impl FromStr for TailCursor {
    type Err = InvalidTailCursor;

    fn from_str(text: &str) -> Result<Self, InvalidTailCursor> {
        let lane = |text: &str| {
            let mut parts = text.split('-').map(|part| u64::from_str_radix(part, 16).ok());
            let mut next = || parts.next().flatten();
            let (lane, position, sequence) = (next()?, next()?, next()?);
            let lane = u16::try_from(lane).ok()?;
            parts.next().is_none().then_some(LanePosition { lane, position, sequence })
        };
        let lanes = text.split('.').take(MAX_LANES + 1).map(lane).collect::<Option<Vec<_>>>();
        let lanes = lanes.filter(|lanes| lanes.len() <= MAX_LANES);
        lanes.map(Self).ok_or(InvalidTailCursor)
    }
}

/// Reads transactions as they end.
#[derive(Debug)]
pub struct Tail {
    readers: Vec<Reader>,
    shared: Arc<Shared>,
    query: Query,
}

impl Index {
    /// Reads transactions that end from now on, or after the position of an earlier tail, and match a
    /// query. The journal keeps nothing for a tail: a slow tail skips what was dropped.
    #[must_use]
    pub fn follow(&self, query: Query, after: Option<&TailCursor>) -> Tail {
        let journal = &self.shared.journal;
        let needs_payload = query.needs_payload();
        let start = |lane: u16| {
            let end = journal.end(lane);
            let Some(after) = after else { return (end, 0) };
            match after.0.iter().find(|one| one.lane == lane) {
                Some(one) => (Position::from_bits(one.position).min(end), one.sequence),
                // A lane that was added since.
                None => (Position::START, 0),
            }
        };
        let readers = (0..journal.lanes()).map(|lane| {
            let (position, sequence) = start(lane);
            let reader = journal.read(lane, position, sequence);
            let reader = if after.is_some() { reader.without_damage() } else { reader };
            if needs_payload { reader } else { reader.metadata_only() }
        });
        Tail { readers: readers.collect(), shared: Arc::clone(&self.shared), query }
    }
}

impl Tail {
    /// Where the next call continues.
    #[must_use]
    pub fn cursor(&self) -> TailCursor {
        let position = |reader: &Reader| LanePosition {
            lane: reader.lane(),
            position: reader.position().to_bits(),
            sequence: reader.sequence(),
        };
        let mut lanes: Vec<LanePosition> = self.readers.iter().map(position).collect();
        lanes.sort_unstable_by_key(|one| one.lane);
        TailCursor(lanes)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let one = |lane, position, sequence| LanePosition { lane, position, sequence };
        for lanes in [vec![one(0, 0, 0)], vec![one(0, 1 << 32 | 77, 9), one(65535, u64::MAX, 10)]] {
            let cursor = TailCursor(lanes);
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for wrong in ["", "1", "1-2", "1-2-3-4", "1-2-3.", "10000-1-1", "x-1-1"] {
            assert_eq!(wrong.parse::<TailCursor>(), Err(InvalidTailCursor), "{wrong}");
        }
    }
}
