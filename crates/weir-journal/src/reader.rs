//! Reading transactions back, in the order in which they were completed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::{Address, HEADER, Kind, Position};
use crate::lane::Shared;
use crate::record::Transaction;
use crate::recovery::is_damage;
use crate::segment::{self, Frame, Segment};

/// Most bytes of one transaction that are put together.
const TRANSACTION_LIMIT: usize = 256 << 20;

/// Follows a lane, right up to its last append.
#[derive(Debug)]
pub struct Reader {
    lane: u16,
    folder: PathBuf,
    shared: Arc<Shared>,
    position: Position,
    segment: Option<Segment>,
}

impl Reader {
    pub(crate) fn new(lane: u16, folder: PathBuf, shared: Arc<Shared>, position: Position) -> Self {
        Self { lane, folder, shared, position, segment: None }
    }

    /// Where the next call goes on: a checkpoint.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next completed transaction, or none for now.
    ///
    /// # Errors
    /// When a file cannot be read. Damage is passed over.
    pub fn next_transaction(&mut self) -> io::Result<Option<Transaction>> {
        loop {
            let end = Position::from_bits(self.shared.end.load(Ordering::Acquire));
            if self.position >= end || !self.enter(end)? {
                return Ok(None);
            }
            let Some(segment) = &self.segment else { return Ok(None) };
            let number = segment.header.number;
            let limit = if number == end.segment() { end.offset() } else { segment.length };
            let offset = self.position.offset().max(HEADER as u32);
            let at = Position::new(number, offset);
            if let Some(frame) = segment.frame(offset, limit)? {
                self.position = Position::new(number, frame.next);
                if frame.kind == Kind::Completed {
                    let address = Address { lane: self.lane, position: at };
                    return assemble(&self.folder, address, frame).map(Some);
                }
            } else if let (Some(next), _) = segment.resynchronise(offset, limit)? {
                self.position = Position::new(number, next);
            } else {
                self.segment = None;
                let next = if number == end.segment() { end } else { Position::new(number + 1, 0) };
                self.position = next;
            }
        }
    }

    /// Opens the segment at or after the position; false if there is none.
    fn enter(&mut self, end: Position) -> io::Result<bool> {
        let wanted = self.position.segment();
        if self.segment.as_ref().is_some_and(|segment| segment.header.number == wanted) {
            return Ok(true);
        }
        for number in segment::list(&self.folder)? {
            if number < self.position.segment() || number > end.segment() {
                continue;
            }
            match Segment::open(&self.folder, number) {
                Ok(segment) => {
                    if number != wanted {
                        self.position = Position::new(number, 0);
                    }
                    self.segment = Some(segment);
                    return Ok(true);
                }
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// The transaction whose `completed` record is at an address; none if there is none.
pub(crate) fn get(folder: &std::path::Path, address: Address) -> io::Result<Option<Transaction>> {
    match frame_at(folder, address.position)? {
        Some(frame) if frame.kind == Kind::Completed => assemble(folder, address, frame).map(Some),
        _ => Ok(None),
    }
}

fn frame_at(folder: &std::path::Path, position: Position) -> io::Result<Option<Frame>> {
    match Segment::open(folder, position.segment()) {
        Ok(segment) => segment.frame(position.offset(), segment.length),
        Err(error) if is_damage(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Follows the chain back from `completed` and puts the transaction together.
fn assemble(folder: &std::path::Path, address: Address, end: Frame) -> io::Result<Transaction> {
    let mut transaction = Transaction { address: Some(address), ..Transaction::default() };
    let (mut place, mut previous, mut bytes) = (address.position, end.previous, end.payload.len());
    let ticket = end.ticket;
    let mut frames = vec![end];
    while previous != Position::START {
        let frame = if previous < place && bytes < TRANSACTION_LIMIT {
            frame_at(folder, previous)?.filter(|frame| frame.ticket == ticket)
        } else {
            None
        };
        let Some(frame) = frame else {
            transaction.damaged = true;
            break;
        };
        place = previous;
        previous = frame.previous;
        bytes += frame.payload.len();
        frames.push(frame);
    }
    for frame in frames.iter().rev() {
        match frame.kind {
            Kind::Received | Kind::Completed => transaction.absorb(&frame.payload),
            Kind::RequestPart => transaction.request_body.extend_from_slice(&frame.payload),
            Kind::ResponsePart => transaction.response_body.extend_from_slice(&frame.payload),
            Kind::Open => transaction.damaged = true,
        }
    }
    Ok(transaction)
}
