//! What a lane gives up, and in which order, while no further segment is ready: bodies first, then
//! headers, then everything but the count of the call; the count last of all.
//!
//! The end of each segment is kept free for smaller records. A record may use it only if no next
//! segment is ready, and only as far as its own share reaches. Counts for which not even the last
//! bytes have room wait in memory and are written once there is a segment again.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{Lane, Refused};
use crate::counted;
use crate::format::{Kind, Position, begin_frame};
use crate::record::{BodyFacts, Completed, Received};

/// The part of a segment that each of the three smaller kinds of records has for itself.
const PART: usize = 32;
/// Most bytes of counts that wait in memory, for each lane.
const WAITING: usize = 8 << 20;
/// What a waiting count takes beside its record.
const OVERHEAD: usize = 32;
/// Most waiting counts that are written at a time: a worker does it.
const AT_ONCE: usize = 16_384;

/// Which records may use the end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// With bytes of a body.
    Payload,
    /// With headers.
    Head,
    /// Without either.
    Facts,
    /// Of a call that is recorded to be counted, or the end of a transaction that was taken on.
    Count,
}

impl Share {
    pub(super) fn of(received: &Received<'_>, end: &Completed<'_>) -> Self {
        if received.counted & counted::ALONE != 0 {
            return Self::Count;
        }
        match Self::of_end(end) {
            Self::Facts if !received.head.is_empty() => Self::Head,
            share => share,
        }
    }

    pub(super) fn of_end(end: &Completed<'_>) -> Self {
        if !end.request_body.is_empty() || !end.response_body.is_empty() {
            Self::Payload
        } else if !end.head.is_empty() || !end.properties.is_empty() || !end.logs.is_empty() {
            Self::Head
        } else {
            Self::Facts
        }
    }

    /// Bytes at the end of a segment that are not for it.
    pub(super) fn kept(self, segment_bytes: usize) -> usize {
        let parts = match self {
            Self::Payload => 3,
            Self::Head => 2,
            Self::Facts => 1,
            Self::Count => 0,
        };
        parts * (segment_bytes / PART)
    }
}

impl<'a> Completed<'a> {
    /// The same without headers, bodies, keys, properties and logs, marked as shortened: what
    /// counting and figures need.
    #[must_use]
    pub fn reduced(&self) -> Self {
        let reduced = |facts: BodyFacts, last: &[u8]| BodyFacts {
            stored: facts.stored.saturating_sub(last.len() as u64),
            truncated: facts.truncated || !last.is_empty(),
            hash: if last.is_empty() { facts.hash } else { [0; 16] },
            ..facts
        };
        Completed {
            shortened: true,
            head: b"",
            request: reduced(self.request, self.request_body),
            response: reduced(self.response, self.response_body),
            request_body: b"",
            response_body: b"",
            keys: &[],
            properties: &[],
            logs: &[],
            ..*self
        }
    }
}

/// Counts that wait for room.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    records: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, record: &[u8]) -> bool {
        let bytes = self.bytes + record.len() + OVERHEAD;
        if bytes > WAITING {
            return false;
        }
        self.bytes = bytes;
        self.records.push_back(record.into());
        true
    }

    fn pop(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.bytes -= record.len() + OVERHEAD;
        }
    }
}

impl Lane {
    /// Records a call to be counted and for nothing else. While there is no room for it, it waits
    /// in memory and is written later; it is lost if the process ends before that.
    ///
    /// # Errors
    /// [`Refused`]: too many wait already, or the record is too large.
    pub fn count_call(
        &mut self,
        received: &Received<'_>,
        end: &Completed<'_>,
    ) -> Result<(), Refused> {
        let received = Received { counted: received.counted | counted::ALONE, ..*received };
        if self.waiting.records.is_empty() {
            match self.whole(&received, end) {
                Err(Refused::Full) => {}
                ended => return ended.map(|_| ()),
            }
        }
        begin_frame(&mut self.frame);
        let before = self.frame.len();
        if !received.encode(&mut self.frame) || !end.encode(&mut self.frame) {
            return self.refuse(Refused::TooLarge);
        }
        if !self.waiting.push(&self.frame[before..]) {
            return self.refuse(Refused::Full);
        }
        self.tell_waiting();
        Ok(())
    }

    /// Writes counts that wait, as far as there is room.
    pub(super) fn write_waiting(&mut self) {
        if self.waiting.records.is_empty() {
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(record) = self.waiting.records.front() else { break };
            begin_frame(&mut self.frame);
            self.frame.extend_from_slice(record);
            let (number, kept) = (self.next_ticket, self.opened * super::RESERVE);
            let room = (kept, Share::Count);
            if self.append(Kind::Completed, number, Position::START, room).is_err() {
                break;
            }
            self.began();
            self.waiting.pop();
        }
        self.tell_waiting();
    }

    fn tell_waiting(&self) {
        let waiting = self.waiting.records.len() as u64;
        self.shared.waiting.store(waiting, Ordering::Relaxed);
    }
}
