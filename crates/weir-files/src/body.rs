//! The body of a response that is read from a file in chunks.

use super::disk::{self, IoMode, ReadError};
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

/// Most bytes of a read.
const CHUNK_BYTES: u64 = 64 * 1024;
/// Limit on a read of the disk.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, ReadError>>>>;

/// Bytes of a file, and maybe texts between them (`multipart/byteranges`).
pub struct FileBody {
    file: Arc<Stored>,
    /// The chunks still to be read.
    chunks: VecDeque<Chunk>,
    /// Bytes of these chunks, and of the buffer.
    left: u64,
    buffer: Buffer,
    /// A read in progress on another thread.
    reading: Option<Reading>,
}

/// A part of the body.
#[derive(Debug)]
pub enum Chunk {
    /// Bytes in memory.
    Text(Bytes),
    /// Bytes of the file.
    File(Range<u64>),
}

impl Chunk {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File(range) => range.end - range.start,
        }
    }
}

impl FileBody {
    /// A body of these chunks, none of them empty.
    pub fn new(file: Arc<Stored>, chunks: VecDeque<Chunk>) -> Self {
        let left = chunks.iter().map(Chunk::length).sum();
        Self { file, chunks, left, buffer: Buffer::default(), reading: None }
    }

    /// Remaining bytes.
    pub fn length(&self) -> u64 {
        self.left
    }

    /// The buffered bytes.
    pub fn data(&self) -> &[u8] {
        self.buffer.filled()
    }

    /// Drops buffered bytes that are processed.
    pub fn consume(&mut self, count: usize) {
        self.left -= count as u64;
        self.buffer.consume(count);
    }

    /// The buffered bytes are the last ones.
    pub fn is_last(&self) -> bool {
        self.left == self.buffer.len() as u64
    }

    /// Waits until bytes are buffered (`true`) or the body has ended (`false`).
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        while self.buffer.is_empty() {
            if let Some(reading) = &mut self.reading {
                let read = match reading.as_mut().poll(cx) {
                    Poll::Ready(read) => read,
                    Poll::Pending => {
                        let expired = ready!(deadline.poll(cx, Wait::Disk, READ_TIMEOUT));
                        return Poll::Ready(Err(ResponseError::TimedOut(expired)));
                    }
                };
                self.reading = None;
                deadline.progress();
                let bytes = read.map_err(|_| ResponseError::File)?;
                self.copy_in(&bytes);
                self.advance(bytes.len())?;
                break;
            }
            match self.chunks.pop_front() {
                None => return Poll::Ready(Ok(false)),
                Some(Chunk::Text(text)) => self.copy_in(&text),
                Some(Chunk::File(range)) => {
                    self.chunks.push_front(Chunk::File(range.clone()));
                    self.read(&range)?;
                }
            }
        }
        // A file that changed meanwhile must not look complete.
        if self.is_last() && !self.file.is_consistent() {
            return Poll::Ready(Err(ResponseError::File));
        }
        Poll::Ready(Ok(true))
    }

    /// Reads from the page cache, or on another thread.
    fn read(&mut self, range: &Range<u64>) -> Result<(), ResponseError> {
        let length = (range.end - range.start).min(CHUNK_BYTES) as usize;
        let Some(file) = self.file.open() else { return Err(ResponseError::File) };
        let room = self.buffer.room(true);
        let length = length.min(room.len());
        match disk::read(file, range.start, &mut room[..length], IoMode::NonBlocking) {
            Ok(count) => {
                self.buffer.grown(count);
                self.advance(count)
            }
            Err(ReadError::WouldBlock) => {
                self.buffer.release_if_empty();
                let (file, start) = (Arc::clone(&self.file), range.start);
                self.reading = Some(Box::pin(disk::on_thread(move || {
                    let mut bytes = vec![0; length];
                    let Some(open) = file.open() else { return Ok(Vec::new()) };
                    let count = disk::read(open, start, &mut bytes, IoMode::Blocking)?;
                    bytes.truncate(count);
                    Ok(bytes)
                })));
                Ok(())
            }
            Err(ReadError::Unreadable(_)) => Err(ResponseError::File),
        }
    }

    fn copy_in(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.buffer.room(true);
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.buffer.grown(count);
            bytes = &bytes[count..];
        }
    }

    /// Advances by bytes of the first chunk. 0 means that the file was truncated.
    fn advance(&mut self, count: usize) -> Result<(), ResponseError> {
        let Some(Chunk::File(mut range)) = self.chunks.pop_front() else {
            return Err(ResponseError::File);
        };
        if count == 0 {
            self.buffer.release_if_empty();
            return Err(ResponseError::File);
        }
        range.start += count as u64;
        if !range.is_empty() {
            self.chunks.push_front(Chunk::File(range));
        }
        Ok(())
    }
}
