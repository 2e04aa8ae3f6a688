//! A lane: where one worker appends.
//!
//! Every append is one `pwrite` into a preallocated file. Room to complete every open transaction
//! is kept free, so that one that was taken on can be completed when the journal is full.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::format::{
    Address, FRAME, HEADER, Kind, Position, SegmentHeader, begin_frame, finish_frame,
};
use crate::journal::Settings;
use crate::record::{Completed, Received, Side};
use crate::segment;

/// Room kept for the end of an open transaction: a frame's header and the short form.
const RESERVE: usize = 64;

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

/// An open transaction of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    number: u64,
}

/// What a lane and its readers share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// [`Position`] of the end of what was written.
    pub(crate) end: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) shortened: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) segments: AtomicU64,
}

#[derive(Debug)]
struct Current {
    file: File,
    number: u32,
    key: u32,
    offset: usize,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    last: Position,
}

/// The writing end of a lane, for one thread.
#[derive(Debug)]
pub struct Lane {
    index: u16,
    folder: PathBuf,
    settings: Settings,
    shared: Arc<Shared>,
    current: Option<Current>,
    next_segment: u32,
    next_ticket: u64,
    open: Vec<Option<Open>>,
    free: Vec<u32>,
    opened: usize,
    frame: Vec<u8>,
}

/// What recovery found out about a lane.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) next_segment: u32,
    pub(crate) next_ticket: u64,
    pub(crate) open: Vec<(u64, Position)>,
}

impl Lane {
    pub(crate) fn new(
        index: u16,
        folder: PathBuf,
        settings: Settings,
        shared: Arc<Shared>,
        past: Past,
    ) -> Self {
        let open: Vec<_> =
            past.open.into_iter().map(|(number, last)| Some(Open { number, last })).collect();
        Self {
            index,
            folder,
            settings,
            shared,
            current: None,
            next_segment: past.next_segment,
            next_ticket: past.next_ticket,
            opened: open.len(),
            open,
            free: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Takes a transaction on.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written then.
    pub fn received(&mut self, received: &Received<'_>) -> Result<Ticket, Refused> {
        if self.opened >= self.settings.open_limit() {
            return self.refuse(Refused::Open);
        }
        begin_frame(&mut self.frame);
        if !received.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        let number = self.next_ticket;
        let kept = (self.opened + 1) * RESERVE;
        let last = self.append(Kind::Received, number, Position::START, kept)?;
        self.next_ticket += 1;
        self.opened += 1;
        let open = Some(Open { number, last });
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
        let last = self.append(kind, ticket.number, last, self.opened * RESERVE)?;
        self.open[ticket.slot as usize] = Some(Open { number: ticket.number, last });
        Ok(())
    }

    /// Completes an open transaction. If there is no room for all of it, outcome and status are
    /// written into the room that is kept, and the transaction is marked as shortened.
    ///
    /// # Errors
    /// [`Refused::Ticket`]; [`Refused::Full`] only if the disk fails under room it had promised.
    pub fn completed(&mut self, ticket: Ticket, end: &Completed<'_>) -> Result<Address, Refused> {
        let last = self.last(ticket)?;
        begin_frame(&mut self.frame);
        let fits = end.encode(&mut self.frame);
        let kept = (self.opened - 1) * RESERVE;
        let whole = if fits {
            self.append(Kind::Completed, ticket.number, last, kept)
        } else {
            Err(Refused::TooLarge)
        };
        let position = match whole {
            Ok(position) => position,
            Err(_) => {
                begin_frame(&mut self.frame);
                end.encode_short(&mut self.frame);
                let position = self.append(Kind::Completed, ticket.number, last, kept)?;
                self.shared.shortened.fetch_add(1, Ordering::Relaxed);
                position
            }
        };
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
        let kept = self.opened * RESERVE;
        let position = self.append(Kind::Completed, number, Position::START, kept)?;
        self.next_ticket += 1;
        Ok(Address { lane: self.index, position })
    }

    /// Tickets of everything that is open.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        let slots = self.open.iter().enumerate();
        slots
            .filter_map(|(slot, open)| Some(Ticket { slot: slot as u32, number: (*open)?.number }))
            .collect()
    }

    fn last(&self, ticket: Ticket) -> Result<Position, Refused> {
        match self.open.get(ticket.slot as usize) {
            Some(Some(open)) if open.number == ticket.number => Ok(open.last),
            _ => Err(Refused::Ticket),
        }
    }

    fn refuse<T>(&self, why: Refused) -> Result<T, Refused> {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        Err(why)
    }

    /// Writes the frame that was begun and leaves `kept` bytes free behind it.
    fn append(
        &mut self,
        kind: Kind,
        ticket: u64,
        last: Position,
        kept: usize,
    ) -> Result<Position, Refused> {
        let length = self.frame.len().next_multiple_of(8);
        let opening = FRAME + 16 * self.opened;
        if HEADER + opening + length + kept > self.settings.segment_bytes as usize {
            return self.refuse(Refused::TooLarge);
        }
        // A segment that fails under a write is abandoned and a new one tried, once.
        for _ in 0..2 {
            let room =
                self.current.as_ref().is_some_and(|now| now.offset + length + kept <= now.length);
            if !room && self.rotate().is_err() {
                return self.refuse(Refused::Full);
            }
            let Some(current) = &mut self.current else { break };
            let payload = self.frame.len();
            finish_frame(&mut self.frame, kind, current.key, ticket, last);
            let position = Position::new(current.number, current.offset as u32);
            if current.file.write_all_at(&self.frame, current.offset as u64).is_ok() {
                current.offset += length;
                let end = Position::new(current.number, current.offset as u32);
                self.shared.end.store(end.to_bits(), Ordering::Release);
                self.shared.records.fetch_add(1, Ordering::Relaxed);
                self.shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
                return Ok(position);
            }
            self.frame.truncate(payload);
            self.shared.errors.fetch_add(1, Ordering::Relaxed);
            self.current = None;
        }
        self.refuse(Refused::Full)
    }

    /// Begins the next segment; the current one stays if that fails.
    fn rotate(&mut self) -> std::io::Result<()> {
        let there = segment::list(&self.folder)?.len() as u64;
        if (there + 1) * u64::from(self.settings.segment_bytes) > self.settings.lane_bytes {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let number = self.next_segment;
        let clock =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let key = clock ^ number.wrapping_mul(0x9E37_79B9);
        let header =
            SegmentHeader { lane: self.index, number, first_ticket: self.next_ticket, key };
        let length = self.settings.segment_bytes;
        let file = segment::create(&self.folder, &header, length).inspect_err(|_| {
            self.shared.errors.fetch_add(1, Ordering::Relaxed);
        })?;
        let mut frame = Vec::with_capacity(FRAME + 16 * self.opened);
        begin_frame(&mut frame);
        for open in self.open.iter().flatten() {
            frame.extend_from_slice(&open.number.to_le_bytes());
            frame.extend_from_slice(&open.last.to_bits().to_le_bytes());
        }
        finish_frame(&mut frame, Kind::Open, key, 0, Position::START);
        if let Err(error) = file.write_all_at(&frame, HEADER as u64) {
            std::fs::remove_file(segment::path(&self.folder, number))?;
            return Err(error);
        }
        self.next_segment += 1;
        self.shared.segments.fetch_add(1, Ordering::Relaxed);
        let offset = HEADER + frame.len();
        self.current = Some(Current { file, number, key, offset, length: length as usize });
        Ok(())
    }
}
