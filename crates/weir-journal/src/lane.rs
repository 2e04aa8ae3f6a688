//! A lane: the append log of one worker.
//!
//! A record is copied into a segment that was mapped and brought into memory before, so that an
//! append makes no system call. Each open transaction has space reserved for its end, so that it can
//! be completed when the journal is full.

mod current;
mod pending;
mod priority;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::counted;
use crate::durable::NotDurable;
use crate::format::{
    Address, FRAME, HEADER, Kind, Position, SegmentHeader, begin_frame, finish_frame,
};
use crate::lane_state::LaneShared;
use crate::os::unix_time;
use crate::preallocator::{Prepared, PreparedQueue};
use crate::record::{Completed, Received, Side};
use crate::recovery::RecoveredLane;
use current::CurrentSegment;
use pending::PendingCounts;
use priority::Priority;

/// Bytes reserved for the end of an open transaction: the header of a frame and the short form.
const OPEN_RESERVE_BYTES: usize = 64;
/// Bytes of an open transaction in the `open` frame of a segment.
const OPEN_ENTRY_BYTES: usize = 16;
/// Most pending counts that a worker writes at a time.
const MAX_COUNTS_AT_ONCE: usize = 16_384;

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The disk or the budget is full. Each append tries again.
    #[error("the journal is full")]
    Full,
    /// The lane has the maximum number of open transactions.
    #[error("too many open transactions")]
    Open,
    /// The record is longer than a segment can hold.
    #[error("the record is too large")]
    TooLarge,
    /// The handle does not belong to an open transaction of this lane.
    #[error("the transaction is not open")]
    NotOpen,
}

/// Space that a lane reserves for one record, until that record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation(u32);

/// An open transaction of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionHandle {
    slot: u32,
    sequence: u64,
}

/// Adds to a number that only this thread changes: cheaper than an atomic addition.
fn count(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[derive(Clone, Copy, Debug)]
struct Open {
    sequence: u64,
    last: Position,
    /// A part of it did not fit.
    incomplete: bool,
    /// Where its end may have been lost.
    possible_end: Option<Position>,
}

/// The writer of a lane, for one thread. It has no file descriptor, so that a thread with its own
/// table of file descriptors may use and drop it.
#[derive(Debug)]
pub struct Lane {
    index: u16,
    segment_bytes: usize,
    seal_after: Duration,
    shared: Arc<LaneShared>,
    queue: PreparedQueue,
    current: Option<CurrentSegment>,
    next_sequence: u64,
    open: Vec<Option<Open>>,
    free_slots: Vec<u32>,
    open_count: usize,
    /// Bytes reserved with [`Lane::reserve`].
    reserved: usize,
    pending: PendingCounts,
    frame: Vec<u8>,
}

impl Lane {
    pub(crate) fn new(
        index: u16,
        (segment_bytes, seal_after): (u32, Duration),
        shared: Arc<LaneShared>,
        queue: PreparedQueue,
        recovered: RecoveredLane,
    ) -> Self {
        let open: Vec<_> = recovered
            .open
            .into_iter()
            .map(|(sequence, last, possible_end)| {
                Some(Open { sequence, last, incomplete: false, possible_end })
            })
            .collect();
        Self {
            index,
            segment_bytes: segment_bytes as usize,
            seal_after,
            shared,
            queue,
            current: None,
            next_sequence: recovered.next_sequence,
            open_count: open.len(),
            open,
            free_slots: Vec::new(),
            reserved: 0,
            pending: PendingCounts::default(),
            frame: Vec::new(),
        }
    }

    /// The end of what was appended.
    #[must_use]
    pub fn position(&self) -> Position {
        self.shared.end()
    }

    /// Whether everything before `position` survives the end of the machine. With durability `disk`
    /// the lane is synced in groups, and `waker` is woken after that. With durability `process` the
    /// result is always ready.
    ///
    /// # Errors
    /// The disk failed to store it. Later records may still become durable.
    pub fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), NotDurable>> {
        self.shared.durable.poll(position, waker)
    }

    /// Closes a segment that has become old, so that it is sealed, and writes pending counts. To be
    /// called about once a second, also without traffic.
    pub fn tick(&mut self) {
        let old = self.current.as_ref().is_some_and(|now| now.started.elapsed() >= self.seal_after);
        if old && self.open_count + self.reserved > 0 {
            // The next segment must have the space that open transactions and reservations need.
            self.rotate();
        } else if old {
            self.close_segment();
        }
        self.write_pending();
    }

    /// Starts a transaction.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written.
    pub fn start(&mut self, received: &Received<'_>) -> Result<TransactionHandle, Refused> {
        if self.open_count >= max_open(self.segment_bytes) {
            return self.refuse(Refused::Open);
        }
        begin_frame(&mut self.frame);
        if !received.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        let sequence = self.next_sequence;
        let priority = if received.head.is_empty() { Priority::Metadata } else { Priority::Head };
        let reserve = ((self.open_count + 1) * OPEN_RESERVE_BYTES, priority);
        let last = self.append_frame(Kind::Received, sequence, Position::START, reserve)?;
        self.clear_count_only();
        self.advance_sequence();
        self.open_count += 1;
        let open = Some(Open { sequence, last, incomplete: false, possible_end: None });
        let slot = if let Some(slot) = self.free_slots.pop() {
            self.open[slot as usize] = open;
            slot
        } else {
            self.open.push(open);
            (self.open.len() - 1) as u32
        };
        Ok(TransactionHandle { slot, sequence })
    }

    /// Appends bytes of a body to an open transaction.
    ///
    /// # Errors
    /// [`Refused`]; the transaction stays open.
    pub fn part(
        &mut self,
        handle: TransactionHandle,
        side: Side,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let last = self.last_position(handle)?;
        begin_frame(&mut self.frame);
        self.frame.extend_from_slice(bytes);
        let kind = match side {
            Side::Request => Kind::RequestPart,
            Side::Response => Kind::ResponsePart,
        };
        let reserve = (self.open_count * OPEN_RESERVE_BYTES, Priority::Payload);
        let written = self.append_frame(kind, handle.sequence, last, reserve);
        if let Some(Some(open)) = self.open.get_mut(handle.slot as usize) {
            match written {
                Ok(last) => open.last = last,
                Err(_) => open.incomplete = true,
            }
        }
        written.map(|_| ())
    }

    /// Completes an open transaction. If the record does not fit, it is written without headers,
    /// bodies, keys, properties and logs; if that does not fit either, outcome and status are written
    /// into the space reserved for them. The transaction is marked as shortened then.
    ///
    /// # Errors
    /// [`Refused::NotOpen`]; [`Refused::Full`] only if the disk fails under reserved space.
    pub fn complete(
        &mut self,
        handle: TransactionHandle,
        completed: &Completed<'_>,
    ) -> Result<Address, Refused> {
        let last = self.last_position(handle)?;
        let reserve = (self.open_count - 1) * OPEN_RESERVE_BYTES;
        let shortened = completed.shortened || self.is_incomplete(handle);
        let completed = &Completed { shortened, ..*completed };
        let mut written = Err(Refused::TooLarge);
        let mut shortened = completed.shortened;
        let full = (*completed, Priority::of_completed(completed));
        for (completed, priority) in [full, (completed.reduced(), Priority::Count)] {
            begin_frame(&mut self.frame);
            if completed.encode(&mut self.frame) {
                let reserve = (reserve, priority);
                written = self.append_frame(Kind::Completed, handle.sequence, last, reserve);
            }
            if written.is_ok() {
                shortened = completed.shortened;
                break;
            }
        }
        let position = match written {
            Ok(position) => position,
            Err(_) => {
                begin_frame(&mut self.frame);
                completed.encode_short(&mut self.frame);
                shortened = true;
                let reserve = (reserve, Priority::Count);
                self.append_frame(Kind::Completed, handle.sequence, last, reserve)?
            }
        };
        count(&self.shared.shortened, shortened.into());
        self.open[handle.slot as usize] = None;
        self.free_slots.push(handle.slot);
        self.open_count -= 1;
        Ok(Address { lane: self.index, position })
    }

    /// Writes a complete transaction in one append.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written.
    pub fn append(
        &mut self,
        received: &Received<'_>,
        completed: &Completed<'_>,
    ) -> Result<Address, Refused> {
        begin_frame(&mut self.frame);
        if !received.encode(&mut self.frame) || !completed.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        let sequence = self.next_sequence;
        let reserve = (self.open_count * OPEN_RESERVE_BYTES, Priority::of(received, completed));
        let position = self.append_frame(Kind::Completed, sequence, Position::START, reserve)?;
        if received.counted & counted::COUNT_ONLY == 0 {
            count(&self.shared.shortened, completed.shortened.into());
            self.clear_count_only();
        }
        self.advance_sequence();
        Ok(Address { lane: self.index, position })
    }

    /// Reserves space for a complete transaction whose fields have at most `length` bytes.
    ///
    /// # Errors
    /// [`Refused`]; there is no space.
    pub fn reserve(&mut self, length: usize) -> Result<Reservation, Refused> {
        let length = (FRAME + length).next_multiple_of(8);
        let reserved = self.reserved + length;
        let allowed = reserved <= self.segment_bytes / 4;
        let Some(reservation) = u32::try_from(length).ok().filter(|_| allowed) else {
            return self.refuse(Refused::Open);
        };
        let needed = self.open_count * OPEN_RESERVE_BYTES + reserved;
        if HEADER + self.open_frame_bytes() + needed > self.segment_bytes {
            return self.refuse(Refused::TooLarge);
        }
        let fits = self.current.as_ref().is_some_and(|current| current.fits(0, needed));
        if !fits && !self.rotate() {
            return self.refuse(Refused::Full);
        }
        self.reserved = reserved;
        Ok(Reservation(reservation))
    }

    /// Writes a complete transaction into reserved space. The reservation is used up in any case.
    ///
    /// # Errors
    /// As [`Lane::append`], if the record is longer than reserved, or the disk fails under reserved
    /// space.
    pub fn append_reserved(
        &mut self,
        reservation: Reservation,
        received: &Received<'_>,
        completed: &Completed<'_>,
    ) -> Result<Address, Refused> {
        self.reserved = self.reserved.saturating_sub(reservation.0 as usize);
        self.append(received, completed)
    }

    /// Writes a count-only record. While there is no space it is kept in memory and written later;
    /// it is lost if the process ends before.
    ///
    /// # Errors
    /// [`Refused`]: too many are pending, or the record is too large.
    pub fn count_call(
        &mut self,
        received: &Received<'_>,
        completed: &Completed<'_>,
    ) -> Result<(), Refused> {
        let received = Received { counted: received.counted | counted::COUNT_ONLY, ..*received };
        if self.pending.is_empty() {
            match self.append(&received, completed) {
                Err(Refused::Full) => {}
                ended => return ended.map(|_| ()),
            }
        }
        begin_frame(&mut self.frame);
        let start = self.frame.len();
        if !received.encode(&mut self.frame) || !completed.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        if !self.pending.push(&self.frame[start..]) {
            return self.refuse(Refused::Full);
        }
        self.publish_pending();
        Ok(())
    }

    /// Writes pending counts as far as there is space.
    fn write_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for _ in 0..MAX_COUNTS_AT_ONCE {
            let Some(record) = self.pending.first() else { break };
            begin_frame(&mut self.frame);
            self.frame.extend_from_slice(record);
            let reserve = (self.open_count * OPEN_RESERVE_BYTES, Priority::Count);
            let sequence = self.next_sequence;
            if self.append_frame(Kind::Completed, sequence, Position::START, reserve).is_err() {
                break;
            }
            self.advance_sequence();
            self.pending.pop();
        }
        self.publish_pending();
    }

    fn publish_pending(&self) {
        self.shared.pending_counts.store(self.pending.len() as u64, Ordering::Relaxed);
    }

    /// Handles of all open transactions, and where their ends may have been lost.
    pub(crate) fn open_transactions(&self) -> Vec<(TransactionHandle, Option<Position>)> {
        let slots = self.open.iter().enumerate();
        slots
            .filter_map(|(slot, open)| {
                let Open { sequence, possible_end, .. } = (*open)?;
                Some((TransactionHandle { slot: slot as u32, sequence }, possible_end))
            })
            .collect()
    }

    fn last_position(&self, handle: TransactionHandle) -> Result<Position, Refused> {
        match self.open.get(handle.slot as usize) {
            Some(Some(open)) if open.sequence == handle.sequence => Ok(open.last),
            _ => Err(Refused::NotOpen),
        }
    }

    fn is_incomplete(&self, handle: TransactionHandle) -> bool {
        let open = self.open.get(handle.slot as usize);
        open.is_some_and(|open| open.is_some_and(|open| open.incomplete))
    }

    fn refuse<T>(&self, why: Refused) -> Result<T, Refused> {
        count(&self.shared.refused, 1);
        Err(why)
    }

    /// The current segment has a record that is not count-only. Records of an open transaction need
    /// no call: their segment did not begin as count-only.
    fn clear_count_only(&mut self) {
        if let Some(current) = &mut self.current {
            current.count_only = false;
        }
    }

    fn advance_sequence(&mut self) {
        self.next_sequence += 1;
        self.shared.next_sequence.store(self.next_sequence, Ordering::Relaxed);
    }

    /// Length of the `open` frame of a segment that begins now.
    fn open_frame_bytes(&self) -> usize {
        FRAME + OPEN_ENTRY_BYTES * self.open_count
    }

    /// Writes the started frame, and leaves `reserve` bytes free after it, as well as those
    /// that are reserved for higher priorities.
    fn append_frame(
        &mut self,
        kind: Kind,
        sequence: u64,
        last: Position,
        (reserve, priority): (usize, Priority),
    ) -> Result<Position, Refused> {
        let length = self.frame.len().next_multiple_of(8);
        let reserve = reserve + self.reserved;
        if HEADER + self.open_frame_bytes() + length + reserve > self.segment_bytes {
            return self.refuse(Refused::TooLarge);
        }
        if self.shared.abandon.load(Ordering::Relaxed) {
            self.shared.abandon.store(false, Ordering::Relaxed);
            self.close_segment();
        }
        // A segment that fails during a write is abandoned; the next one is tried once.
        for _ in 0..2 {
            let reserve = reserve + priority.reserved(self.segment_bytes);
            let fits = self.current.as_ref().is_some_and(|now| now.fits(length, reserve));
            if !fits && !self.rotate() {
                return self.refuse(Refused::Full);
            }
            let Some(current) = &mut self.current else { break };
            let payload = self.frame.len();
            finish_frame(&mut self.frame, kind, current.key, sequence, last);
            let position = current.end();
            if current.append(&self.frame) {
                self.shared.end.store(current.end().to_bits(), Ordering::Release);
                let half = current.mapping.length() / 2;
                if current.offset >= half && current.offset - length < half {
                    // The next segments are prepared before they are needed.
                    self.queue.request(&self.shared);
                }
                count(&self.shared.records, 1);
                count(&self.shared.bytes, length as u64);
                return Ok(position);
            }
            self.frame.truncate(payload);
            count(&self.shared.errors, 1);
            self.close_segment();
        }
        self.refuse(Refused::Full)
    }

    /// Begins the next segment if one is ready; otherwise keeps the current one.
    fn rotate(&mut self) -> bool {
        let Some(Prepared { number, mapping }) = self.queue.pop() else { return false };
        count(&self.shared.segments, 1);
        self.queue.request(&self.shared);
        let key = unix_time().subsec_nanos() ^ number.wrapping_mul(0x9E37_79B9);
        let (lane, first_sequence) = (self.index, self.next_sequence);
        let header = SegmentHeader { lane, number, first_sequence, key };
        let mut frame = Vec::with_capacity(self.open_frame_bytes());
        begin_frame(&mut frame);
        for open in self.open.iter().flatten() {
            frame.extend_from_slice(&open.sequence.to_le_bytes());
            frame.extend_from_slice(&open.last.to_bits().to_le_bytes());
        }
        finish_frame(&mut frame, Kind::Open, key, 0, Position::START);
        let next = match CurrentSegment::begin(mapping, &header, &frame, self.open_count == 0) {
            Ok(next) => next,
            Err(mapping) => {
                count(&self.shared.errors, 1);
                self.queue.retire(mapping);
                return false;
            }
        };
        self.close_segment();
        self.shared.end.store(next.end().to_bits(), Ordering::Release);
        self.current = Some(next);
        true
    }

    /// Ends the current segment: nothing is appended to it any more.
    pub(crate) fn close_segment(&mut self) {
        if let Some(current) = self.current.take() {
            if current.count_only {
                self.shared.count_only.lock().insert(current.number, self.next_sequence);
            }
            let end = Position::new(current.number + 1, 0);
            self.shared.end.store(end.to_bits(), Ordering::Release);
            self.queue.retire(current.mapping);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.write_pending();
        self.close_segment();
    }
}

/// Most open transactions of a lane: their list and the space reserved for them take less than half
/// of a segment.
fn max_open(segment_bytes: usize) -> usize {
    (segment_bytes / 256).min(16_384)
}
