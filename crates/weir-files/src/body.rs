//! The body of an answer that is read from a file, a piece at a time.

use super::disk::{self, Trouble, Way};
use super::stored::Stored;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::ResponseError;
use weir_http::buffer::Buffer;
use weir_http::deadline::{Deadline, Wait};

/// Most bytes read at a time.
const PIECE: u64 = 64 * 1024;
/// How long a disk may take for them.
pub const PATIENCE: Duration = Duration::from_secs(30);

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, Trouble>>>>;

/// Bytes of a file, and maybe texts between them.
pub struct FileBody {
    file: Arc<Stored>,
    /// What is to come.
    pieces: VecDeque<Piece>,
    /// Bytes of all that, and those at hand.
    left: u64,
    at_hand: Buffer,
    /// A thread reads.
    reading: Option<Reading>,
}

/// Bytes that follow each other.
#[derive(Debug)]
pub enum Piece {
    /// Bytes in memory.
    Text(Bytes),
    /// Bytes of the file.
    OfFile(Range<u64>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::OfFile(range) => range.end - range.start,
        }
    }
}

impl FileBody {
    /// These pieces of a file, none of them empty.
    pub fn new(file: Arc<Stored>, pieces: VecDeque<Piece>) -> Self {
        let left = pieces.iter().map(Piece::length).sum();
        Self { file, pieces, left, at_hand: Buffer::default(), reading: None }
    }

    /// Bytes that are left.
    pub fn length(&self) -> u64 {
        self.left
    }

    /// The bytes at hand.
    pub fn data(&self) -> &[u8] {
        self.at_hand.filled()
    }

    /// Drops bytes at hand that are dealt with.
    pub fn consume(&mut self, count: usize) {
        self.left -= count as u64;
        self.at_hand.consume(count);
    }

    /// What is at hand is the rest.
    pub fn is_last(&self) -> bool {
        self.left == self.at_hand.len() as u64
    }

    /// Waits until bytes are at hand (`true`) or the body is over (`false`).
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        while self.at_hand.is_empty() {
            if let Some(reading) = &mut self.reading {
                let read = match reading.as_mut().poll(cx) {
                    Poll::Ready(read) => read,
                    Poll::Pending => {
                        let expired = ready!(deadline.poll(cx, Wait::Disk, PATIENCE));
                        return Poll::Ready(Err(ResponseError::Late(expired)));
                    }
                };
                self.reading = None;
                deadline.progress();
                let bytes = read.map_err(|_| ResponseError::File)?;
                self.put(&bytes);
                self.take_from_front(bytes.len())?;
                break;
            }
            match self.pieces.pop_front() {
                None => return Poll::Ready(Ok(false)),
                Some(Piece::Text(text)) => self.put(&text),
                Some(Piece::OfFile(range)) => {
                    self.pieces.push_front(Piece::OfFile(range.clone()));
                    self.read(&range)?;
                }
            }
        }
        // Nobody takes a torn file for a whole one.
        if self.is_last() && !self.file.is_consistent() {
            return Poll::Ready(Err(ResponseError::File));
        }
        Poll::Ready(Ok(true))
    }

    /// Reads what is in memory; has a thread read it if it is not.
    fn read(&mut self, range: &Range<u64>) -> Result<(), ResponseError> {
        let wanted = (range.end - range.start).min(PIECE) as usize;
        let Some(file) = self.file.open() else { return Err(ResponseError::File) };
        let room = self.at_hand.room(true);
        let wanted = wanted.min(room.len());
        match disk::read(file, range.start, &mut room[..wanted], Way::Worker) {
            Ok(count) => {
                self.at_hand.grown(count);
                self.take_from_front(count)
            }
            Err(Trouble::Wait) => {
                self.at_hand.release_if_empty();
                let (file, start) = (Arc::clone(&self.file), range.start);
                self.reading = Some(Box::pin(disk::on_thread(move || {
                    let mut bytes = vec![0; wanted];
                    let Some(open) = file.open() else { return Ok(Vec::new()) };
                    let count = disk::read(open, start, &mut bytes, Way::Thread)?;
                    bytes.truncate(count);
                    Ok(bytes)
                })));
                Ok(())
            }
            Err(Trouble::Unreadable(_)) => Err(ResponseError::File),
        }
    }

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.at_hand.room(true);
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.at_hand.grown(count);
            bytes = &bytes[count..];
        }
    }

    /// So many bytes of the first piece have been read. None means that the file ends before its
    /// time: it was cut off.
    fn take_from_front(&mut self, count: usize) -> Result<(), ResponseError> {
        let Some(Piece::OfFile(mut range)) = self.pieces.pop_front() else {
            return Err(ResponseError::File);
        };
        if count == 0 {
            self.at_hand.release_if_empty();
            return Err(ResponseError::File);
        }
        range.start += count as u64;
        if !range.is_empty() {
            self.pieces.push_front(Piece::OfFile(range));
        }
        Ok(())
    }
}
