//! A lane: where one worker appends.
//!
//! A record is copied into a segment that was mapped and brought into memory before, so that an
//! append makes no system call. Room to complete every open transaction is kept free, so that one
//! that was taken on can be completed when the journal is full.

mod shed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::counted;
use crate::durable::{Durable, NotDurable};
use crate::format::{
    Address, FRAME, HEADER, Kind, Position, SegmentHeader, begin_frame, finish_frame,
};
use crate::os::Mapping;
use crate::record::{Completed, Received, Side};
use crate::supply::{Prepared, Taker};
use shed::{Share, Waiting};

/// Room kept for the end of an open transaction: a frame's header and the short form.
const RESERVE: usize = 64;
/// What may follow the last frame of a segment: a word of zeros.
const END: usize = 8;

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The disk or the budget is full; it is tried again with every append.
    #[error("the journal is full")]
    Full,
    /// As many transactions are open as the lane can hold.
    #[error("too many open transactions")]
    Open,
    /// The record is longer than a segment can hold.
    #[error("the record is too large")]
    TooLarge,
    /// The ticket is not of an open transaction of this lane.
    #[error("no open transaction has this ticket")]
    Ticket,
}

/// Room that a lane keeps for one record. It is used up by the record; until then it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(u32);

/// An open transaction of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    number: u64,
}

/// What a lane, its readers and the threads behind it share. Only the lane writes, but for what
/// is said to be otherwise.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// [`Position`] of the end of what was written.
    pub(crate) end: AtomicU64,
    /// Number that the next transaction gets.
    pub(crate) next_ticket: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) shortened: AtomicU64,
    /// Counts that wait in memory for a segment.
    pub(crate) waiting: AtomicU64,
    /// Segments made ready. Only the supplying side writes it.
    pub(crate) made: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Segments begun.
    pub(crate) segments: AtomicU64,
    /// Errors that the other threads met.
    pub(crate) disk_errors: AtomicU64,
    pub(crate) durable: Durable,
    /// Set when the disk did not take the current segment; the lane leaves it then.
    pub(crate) abandon: AtomicBool,
    /// Full segments with nothing in them but what is recorded to be counted, and the number that
    /// the first transaction after each got. They need not be sealed once they have been read.
    plain: Mutex<BTreeMap<u32, u64>>,
}

impl Shared {
    /// Touched once a segment, for a moment.
    pub(crate) fn plain(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self) -> Position {
        Position::from_bits(self.end.load(Ordering::Acquire))
    }
}

/// Adds to a number that this thread alone changes: cheaper than an atomic addition.
fn count(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[derive(Debug)]
struct Current {
    mapping: Mapping,
    number: u32,
    key: u32,
    offset: usize,
    begun: Instant,
    /// Nothing but what is recorded to be counted has been in it, and nothing was open.
    plain: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    last: Position,
    /// A part of it found no room.
    short: bool,
    /// Its end may have been there, and was lost with what was.
    unsure: Option<Position>,
}

/// The writing end of a lane, for one thread. It holds no file descriptor, so that it may be used
/// and dropped by a thread with a table of file descriptors of its own.
#[derive(Debug)]
pub struct Lane {
    index: u16,
    segment_bytes: usize,
    seal_after: Duration,
    shared: Arc<Shared>,
    taker: Taker,
    current: Option<Current>,
    next_ticket: u64,
    open: Vec<Option<Open>>,
    free: Vec<u32>,
    opened: usize,
    /// Bytes kept for records that are promised.
    promised: usize,
    /// Counts for which there was no room.
    waiting: Waiting,
    frame: Vec<u8>,
}

/// What recovery found out about a lane.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) next_ticket: u64,
    /// Number and last position of what was open, and where its end may have been lost.
    pub(crate) open: Vec<(u64, Position, Option<Position>)>,
}

impl Lane {
    pub(crate) fn new(
        index: u16,
        (segment_bytes, seal_after): (u32, Duration),
        shared: Arc<Shared>,
        taker: Taker,
        past: Past,
    ) -> Self {
        let open: Vec<_> = past
            .open
            .into_iter()
            .map(|(number, last, unsure)| Some(Open { number, last, short: false, unsure }))
            .collect();
        Self {
            index,
            segment_bytes: segment_bytes as usize,
            seal_after,
            shared,
            taker,
            current: None,
            next_ticket: past.next_ticket,
            opened: open.len(),
            open,
            free: Vec::new(),
            promised: 0,
            waiting: Waiting::default(),
            frame: Vec::new(),
        }
    }

    /// The end of what was appended.
    #[must_use]
    pub fn position(&self) -> Position {
        self.shared.end()
    }

    /// Whether everything before `position` would outlive the machine: with durability `disk`,
    /// what was appended is synced in groups, and `waker` is woken when that is done. With
    /// durability `process` nothing ever has to wait.
    ///
    /// # Errors
    /// When the disk did not take it. What was appended later may still become durable.
    pub fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), NotDurable>> {
        self.shared.durable.poll(position, waker)
    }

    /// To be called now and then, say each second, also when nothing is appended: lets go of a
    /// segment that has become old, so that it is sealed, and writes counts that wait for room.
    pub fn tick(&mut self) {
        let old = self.current.as_ref().is_some_and(|now| now.begun.elapsed() >= self.seal_after);
        if old && self.opened + self.promised > 0 {
            // Room for what is open or promised has to be in the next one.
            self.rotate();
        } else if old {
            self.leave();
        }
        self.write_waiting();
    }

    /// Takes a transaction on.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written then.
    pub fn received(&mut self, received: &Received<'_>) -> Result<Ticket, Refused> {
        if self.opened >= open_limit(self.segment_bytes) {
            return self.refuse(Refused::Open);
        }
        begin_frame(&mut self.frame);
        if !received.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        let number = self.next_ticket;
        let share = if received.head.is_empty() { Share::Facts } else { Share::Head };
        let kept = ((self.opened + 1) * RESERVE, share);
        let last = self.append(Kind::Received, number, Position::START, kept)?;
        self.is_not_plain();
        self.began();
        self.opened += 1;
        let open = Some(Open { number, last, short: false, unsure: None });
        let slot = if let Some(slot) = self.free.pop() {
            self.open[slot as usize] = open;
            slot
        } else {
            self.open.push(open);
            (self.open.len() - 1) as u32
        };
        Ok(Ticket { slot, number })
    }

    /// Adds bytes of a body to an open transaction.
    ///
    /// # Errors
    /// [`Refused`]; the transaction stays open.
    pub fn part(&mut self, ticket: Ticket, side: Side, bytes: &[u8]) -> Result<(), Refused> {
        let last = self.last(ticket)?;
        begin_frame(&mut self.frame);
        self.frame.extend_from_slice(bytes);
        let kind = match side {
            Side::Request => Kind::RequestPart,
            Side::Response => Kind::ResponsePart,
        };
        let kept = (self.opened * RESERVE, Share::Payload);
        let written = self.append(kind, ticket.number, last, kept);
        if let Some(Some(open)) = self.open.get_mut(ticket.slot as usize) {
            match written {
                Ok(last) => open.last = last,
                Err(_) => open.short = true,
            }
        }
        written.map(|_| ())
    }

    /// Completes an open transaction. If there is no room for all of it, it is written without
    /// headers, bodies and what else was said; if there is none for that either, outcome and status
    /// are written into the room that is kept. The transaction is marked as shortened then.
    ///
    /// # Errors
    /// [`Refused::Ticket`]; [`Refused::Full`] only if the disk fails under room it had promised.
    pub fn completed(&mut self, ticket: Ticket, end: &Completed<'_>) -> Result<Address, Refused> {
        let last = self.last(ticket)?;
        let kept = (self.opened - 1) * RESERVE;
        let end = &Completed { shortened: end.shortened || self.is_short(ticket), ..*end };
        let mut written = Err(Refused::TooLarge);
        let mut shortened = end.shortened;
        for (end, share) in [(*end, Share::of_end(end)), (end.reduced(), Share::Count)] {
            begin_frame(&mut self.frame);
            if end.encode(&mut self.frame) {
                written = self.append(Kind::Completed, ticket.number, last, (kept, share));
            }
            if written.is_ok() {
                shortened = end.shortened;
                break;
            }
        }
        let position = match written {
            Ok(position) => position,
            Err(_) => {
                begin_frame(&mut self.frame);
                end.encode_short(&mut self.frame);
                let room = (kept, Share::Count);
                shortened = true;
                self.append(Kind::Completed, ticket.number, last, room)?
            }
        };
        count(&self.shared.shortened, shortened.into());
        self.open[ticket.slot as usize] = None;
        self.free.push(ticket.slot);
        self.opened -= 1;
        Ok(Address { lane: self.index, position })
    }

    /// Writes a whole transaction in one append.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written then.
    pub fn whole(
        &mut self,
        received: &Received<'_>,
        end: &Completed<'_>,
    ) -> Result<Address, Refused> {
        begin_frame(&mut self.frame);
        if !received.encode(&mut self.frame) || !end.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        let number = self.next_ticket;
        let kept = (self.opened * RESERVE, Share::of(received, end));
        let position = self.append(Kind::Completed, number, Position::START, kept)?;
        if received.counted & counted::ALONE == 0 {
            count(&self.shared.shortened, end.shortened.into());
            self.is_not_plain();
        }
        self.began();
        Ok(Address { lane: self.index, position })
    }

    /// Keeps room for a whole transaction whose fields take so many bytes at most.
    ///
    /// # Errors
    /// [`Refused`]; there is no room.
    pub fn promise(&mut self, length: usize) -> Result<Room, Refused> {
        let length = (FRAME + length).next_multiple_of(8);
        let (promised, opening) = (self.promised + length, FRAME + 16 * self.opened);
        let Some(room) = u32::try_from(length).ok().filter(|_| promised <= self.segment_bytes / 4)
        else {
            return self.refuse(Refused::Open);
        };
        let kept = self.opened * RESERVE + promised;
        if HEADER + opening + kept > self.segment_bytes {
            return self.refuse(Refused::TooLarge);
        }
        let fits = |now: &Current| now.offset + kept <= now.mapping.length();
        if !self.current.as_ref().is_some_and(fits) && !self.rotate() {
            return self.refuse(Refused::Full);
        }
        self.promised = promised;
        Ok(Room(room))
    }

    /// Writes a whole transaction into the room that was kept for it.
    ///
    /// # Errors
    /// As [`Lane::whole`], if it is longer than was said, or the disk fails under room it had
    /// promised. The room is used up in any case.
    pub fn whole_in(
        &mut self,
        room: Room,
        received: &Received<'_>,
        end: &Completed<'_>,
    ) -> Result<Address, Refused> {
        self.promised = self.promised.saturating_sub(room.0 as usize);
        self.whole(received, end)
    }

    /// Tickets of everything that is open, and where their ends may have been lost.
    pub(crate) fn tickets(&self) -> Vec<(Ticket, Option<Position>)> {
        let slots = self.open.iter().enumerate();
        slots
            .filter_map(|(slot, open)| {
                let Open { number, unsure, .. } = (*open)?;
                Some((Ticket { slot: slot as u32, number }, unsure))
            })
            .collect()
    }

    fn last(&self, ticket: Ticket) -> Result<Position, Refused> {
        match self.open.get(ticket.slot as usize) {
            Some(Some(open)) if open.number == ticket.number => Ok(open.last),
            _ => Err(Refused::Ticket),
        }
    }

    fn is_short(&self, ticket: Ticket) -> bool {
        self.open.get(ticket.slot as usize).is_some_and(|open| open.is_some_and(|open| open.short))
    }

    fn refuse<T>(&self, why: Refused) -> Result<T, Refused> {
        count(&self.shared.refused, 1);
        Err(why)
    }

    /// The current segment has something in it that is to be kept. What belongs to a transaction
    /// that is open needs no telling: its segment was not plain from its beginning.
    fn is_not_plain(&mut self) {
        if let Some(current) = &mut self.current {
            current.plain = false;
        }
    }

    fn began(&mut self) {
        self.next_ticket += 1;
        self.shared.next_ticket.store(self.next_ticket, Ordering::Relaxed);
    }

    /// Writes the frame that was begun and leaves `kept` bytes free behind it, and what its share
    /// does not reach.
    fn append(
        &mut self,
        kind: Kind,
        ticket: u64,
        last: Position,
        (kept, share): (usize, Share),
    ) -> Result<Position, Refused> {
        let length = self.frame.len().next_multiple_of(8);
        let kept = kept + self.promised;
        let opening = FRAME + 16 * self.opened;
        if HEADER + opening + length + kept > self.segment_bytes {
            return self.refuse(Refused::TooLarge);
        }
        if self.shared.abandon.load(Ordering::Relaxed) {
            self.shared.abandon.store(false, Ordering::Relaxed);
            self.leave();
        }
        // A segment that fails under a write is abandoned and a new one tried, once.
        for _ in 0..2 {
            let kept = kept + share.kept(self.segment_bytes);
            let room = |now: &Current| now.offset + length + kept <= now.mapping.length();
            if !self.current.as_ref().is_some_and(room) && !self.rotate() {
                return self.refuse(Refused::Full);
            }
            let Some(current) = &mut self.current else { break };
            let payload = self.frame.len();
            finish_frame(&mut self.frame, kind, current.key, ticket, last);
            let position = Position::new(current.number, current.offset as u32);
            if current.write(&self.frame) {
                let end = Position::new(current.number, current.offset as u32);
                self.shared.end.store(end.to_bits(), Ordering::Release);
                let half = current.mapping.length() / 2;
                if current.offset >= half && current.offset - length < half {
                    // The next ones are made ready before they are needed.
                    self.taker.hurry(&self.shared);
                }
                count(&self.shared.records, 1);
                count(&self.shared.bytes, length as u64);
                return Ok(position);
            }
            self.frame.truncate(payload);
            count(&self.shared.errors, 1);
            self.leave();
        }
        self.refuse(Refused::Full)
    }

    /// Begins the next segment if one is ready; else the current one stays.
    fn rotate(&mut self) -> bool {
        let Some(Prepared { number, mapping }) = self.taker.take() else { return false };
        count(&self.shared.segments, 1);
        self.taker.hurry(&self.shared);
        let clock =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let key = clock ^ number.wrapping_mul(0x9E37_79B9);
        let header =
            SegmentHeader { lane: self.index, number, first_ticket: self.next_ticket, key };
        let mut frame = Vec::with_capacity(FRAME + 16 * self.opened);
        begin_frame(&mut frame);
        for open in self.open.iter().flatten() {
            frame.extend_from_slice(&open.number.to_le_bytes());
            frame.extend_from_slice(&open.last.to_bits().to_le_bytes());
        }
        finish_frame(&mut frame, Kind::Open, key, 0, Position::START);
        let mut next = Current {
            mapping,
            number,
            key,
            offset: 0,
            begun: Instant::now(),
            plain: self.opened == 0,
        };
        // The header last: a segment without one was never begun.
        next.offset = HEADER;
        let begun = next.write(&frame) && next.head(&header.encode());
        if !begun {
            count(&self.shared.errors, 1);
            self.taker.retire(next.mapping);
            return false;
        }
        self.leave();
        let end = Position::new(number, next.offset as u32);
        self.shared.end.store(end.to_bits(), Ordering::Release);
        self.current = Some(next);
        true
    }

    /// Lets go of the current segment: nothing is appended to it any more.
    pub(crate) fn leave(&mut self) {
        if let Some(current) = self.current.take() {
            if current.plain {
                self.shared.plain().insert(current.number, self.next_ticket);
            }
            let end = Position::new(current.number + 1, 0);
            self.shared.end.store(end.to_bits(), Ordering::Release);
            self.taker.retire(current.mapping);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.write_waiting();
        self.leave();
    }
}

impl Current {
    /// Writes at the offset and goes on behind it; false if that failed.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let (offset, end) = (self.offset, self.offset + bytes.len());
        let segment = self.mapping.bytes();
        segment[offset..end].copy_from_slice(bytes);
        // What an earlier use of the file has left is not taken for a torn record.
        if let Some(after) = segment.get_mut(end..end + END) {
            after.fill(0);
        }
        if self.mapping.faulted() {
            return false;
        }
        self.offset = end;
        true
    }

    fn head(&mut self, bytes: &[u8; HEADER]) -> bool {
        self.mapping.bytes()[..HEADER].copy_from_slice(bytes);
        !self.mapping.faulted()
    }
}

/// Most transactions that a lane may have open: their list and the room kept for them take less
/// than half a segment.
fn open_limit(segment_bytes: usize) -> usize {
    (segment_bytes / 256).min(16_384)
}
