//! Followers: named readers of the whole journal with a durable checkpoint. Nothing that a follower
//! has not read is dropped, unless its backlog is bounded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::backlog::{Backlog, Skipped};
use crate::checkpoint::{Checkpoint, Checkpoints, is_name};
use crate::format::Position;
use crate::reader::Reader;

/// Most followers of a journal.
const MAX_FOLLOWERS: usize = 64;

/// Backlog of a follower of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lag {
    /// Name of the follower.
    pub name: String,
    /// Transactions.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds since the oldest of the transactions was received.
    pub seconds: f64,
}

/// A follower: where it continues, and up to where segments may be dropped as far as this follower
/// is concerned.
#[derive(Debug)]
pub struct Follower {
    name: String,
    checkpoints: Arc<Checkpoints>,
    lanes: Vec<Checkpoint>,
}

impl Follower {
    /// Registers a follower, durably. A new one begins at the start.
    pub(crate) fn new(name: &str, checkpoints: Arc<Checkpoints>, lanes: usize) -> io::Result<Self> {
        let begin = vec![Checkpoint::default(); lanes];
        let follower = Self::register(name, checkpoints, &begin)?;
        follower.checkpoints.backlogs.lock().remove(name);
        Ok(follower)
    }

    /// Registers a follower with a bounded backlog, durably. A new one begins at `begin`, the first
    /// records that the journal has; a known one skips everything before them.
    pub(crate) fn bounded(
        name: &str,
        checkpoints: Arc<Checkpoints>,
        begin: &[Checkpoint],
        max_bytes: u64,
    ) -> io::Result<Self> {
        let mut follower = Self::register(name, checkpoints, begin)?;
        let mut skipped = Vec::new();
        for (lane, (known, begin)) in follower.lanes.iter_mut().zip(begin).enumerate() {
            if known.position.segment().max(1) < begin.position.segment() {
                skipped.push(Skipped {
                    lane: lane as u16,
                    from: known.position,
                    to: begin.position,
                    records: begin.sequence.saturating_sub(known.sequence),
                    at_most: true,
                });
                *known = *begin;
            }
        }
        let backlog = Backlog::new(max_bytes, skipped);
        follower.checkpoints.backlogs.lock().insert(name.to_owned(), backlog);
        Ok(follower)
    }

    fn register(
        name: &str,
        checkpoints: Arc<Checkpoints>,
        begin: &[Checkpoint],
    ) -> io::Result<Self> {
        if !is_name(name) {
            let what = "a follower's name has 1 to 64 lower-case letters, digits and hyphens";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let known = checkpoints.all.lock().get(name).cloned();
        if known.is_none() && checkpoints.all.lock().len() >= MAX_FOLLOWERS {
            return Err(io::Error::other("too many followers"));
        }
        let mut state = known.unwrap_or_else(|| begin.to_vec());
        state.resize(begin.len().max(state.len()), Checkpoint::default());
        checkpoints.write(name, &state)?;
        Ok(Self { name: name.to_owned(), checkpoints, lanes: state })
    }

    /// Where the follower continues in a lane.
    #[must_use]
    pub fn position(&self, lane: u16) -> Position {
        self.checkpoint(lane).position
    }

    pub(crate) fn checkpoint(&self, lane: u16) -> Checkpoint {
        self.lanes.get(usize::from(lane)).copied().unwrap_or_default()
    }

    /// Marks everything that `reader` has returned as processed. The next [`Follower::commit`] makes
    /// that durable.
    pub fn advance(&mut self, reader: &Reader) {
        self.advance_to(reader.lane(), reader.position(), reader.sequence());
    }

    /// As [`Follower::advance`], up to where a reader was before.
    pub fn advance_to(&mut self, lane: u16, position: Position, sequence: u64) {
        if let Some(checkpoint) = self.lanes.get_mut(usize::from(lane)) {
            *checkpoint = Checkpoint { position, sequence };
        }
    }

    /// Where a reader publishes how far it has read a lane, if the backlog is bounded.
    pub(crate) fn progress(&self, lane: u16) -> Option<Arc<AtomicU64>> {
        self.checkpoints.progress(&self.name, lane)
    }

    /// What was dropped since the last call before a reader of this follower had returned it: readers
    /// skip it.
    /// Contiguous segments of a lane are one entry.
    #[must_use]
    pub fn take_skipped(&self) -> Vec<Skipped> {
        self.checkpoints.take_skipped(&self.name)
    }

    /// The follower reads sealed segments only, with [`Journal::link_sealed`](crate::Journal::link_sealed):
    /// sealing does not wait for it. Its backlog is bounded.
    pub fn read_only_sealed(&self) {
        if let Some(backlog) = self.checkpoints.backlogs.lock().get_mut(&self.name) {
            backlog.only_sealed = true;
        }
    }

    /// As [`Follower::advance_to`], up to the end of a sealed segment.
    pub fn pass_segment(&mut self, lane: u16, number: u32, sequence: u64) {
        let sequence = sequence.max(self.checkpoint(lane).sequence);
        self.advance_to(lane, Position::new(number + 1, 0), sequence);
    }

    /// Resets the checkpoint to the start of the journal, durably: everything is read again.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn reset(&mut self) -> io::Result<()> {
        self.lanes.fill(Checkpoint::default());
        self.commit()
    }

    /// Makes the checkpoint durable. What lies before it may be dropped from then on.
    ///
    /// # Errors
    /// The checkpoint cannot be written; the one before stays valid.
    pub fn commit(&mut self) -> io::Result<()> {
        self.checkpoints.write(&self.name, &self.lanes)
    }
}
