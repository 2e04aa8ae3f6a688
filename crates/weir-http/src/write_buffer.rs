//! Bytes on their way out: a head, then a body from wherever it comes, in as few writes as can be.

use crate::buffer;
use crate::stream::Stream;
use std::io;
use std::task::{Context, Poll, ready};
use weir_wire::encode;

/// Data up to this many bytes is copied behind what waits already, so that both leave in one
/// write; more is written from where it is.
const COPIED: usize = 4 * 1024;
/// When so much waits, it is written before more is taken.
const FULL: usize = 16 * 1024;

/// One direction of one connection.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
    /// Something has gone out.
    begun: bool,
    /// Bytes of the source's data that follow `bytes` directly.
    direct: usize,
    chunked: bool,
    /// Written bytes are kept, so that all can be sent again.
    kept: bool,
    /// Everything up to the flush has been written.
    flushed: bool,
}

impl WriteBuffer {
    /// Where a head is written to.
    pub fn head(&mut self) -> &mut Vec<u8> {
        self.flushed = false;
        if self.bytes.capacity() == 0 {
            self.bytes = buffer::take_vec();
        }
        &mut self.bytes
    }

    /// Whether the body is framed in chunks.
    pub fn set_chunked(&mut self, chunked: bool) {
        self.chunked = chunked;
    }

    /// Keeps what is written, for [`WriteBuffer::rewind`].
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Nothing is waiting, and no direct data either.
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len() && self.direct == 0
    }

    /// Nothing of what was given has gone out yet.
    pub fn is_untouched(&self) -> bool {
        !self.begun
    }

    /// Whether more may be taken before writing.
    pub fn has_room(&self) -> bool {
        self.direct == 0 && self.bytes.len() - self.written < FULL
    }

    /// Takes data: gives the number of bytes copied, which the source may drop now. The rest
    /// stays with the source and is handed to [`WriteBuffer::poll_write`] until it is gone.
    pub fn take(&mut self, data: &[u8]) -> usize {
        debug_assert!(self.has_room());
        self.flushed = false;
        let copied = data.len() <= COPIED;
        if self.chunked {
            encode::chunk_start(&mut self.bytes, data.len());
        }
        if !copied {
            self.direct = data.len();
            return 0;
        }
        self.bytes.extend_from_slice(data);
        if self.chunked {
            self.bytes.extend_from_slice(b"\r\n");
        }
        data.len()
    }

    /// The body is over.
    pub fn end(&mut self) {
        if self.chunked {
            self.flushed = false;
            self.bytes.extend_from_slice(encode::LAST_CHUNK);
        }
    }

    /// Writes once; gives how many bytes of `data`, what the source holds, went out directly.
    pub fn poll_write(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let waiting = &self.bytes[self.written..];
        let mut count = ready!(stream.poll_write(cx, waiting, &data[..self.direct]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.begun = true;
        let from_waiting = count.min(waiting.len());
        self.written += from_waiting;
        count -= from_waiting;
        if self.written == self.bytes.len() && !self.kept {
            self.bytes.clear();
            self.written = 0;
        }
        self.direct -= count;
        if count > 0 && self.direct == 0 && self.chunked {
            self.bytes.extend_from_slice(b"\r\n");
        }
        Poll::Ready(Ok(count))
    }

    /// Sees to it that what was written leaves: TLS keeps records back.
    pub fn poll_flush(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.flushed {
            ready!(stream.poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Starts anew with the same bytes, for another connection; they must have been kept.
    pub fn rewind(&mut self) {
        self.written = 0;
        self.begun = false;
        self.flushed = false;
    }

    /// Puts another head in the place of the first `length` bytes, nothing having gone out yet.
    pub fn replace_head(&mut self, length: usize, head: &Self) {
        self.bytes.splice(..length, head.bytes.iter().copied());
    }

    /// What follows the first `length` bytes of those that wait, or are kept.
    pub fn behind(&self, length: usize) -> &[u8] {
        self.bytes.get(length..).unwrap_or_default()
    }

    /// Bytes that wait, or are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything and holds no memory, as an idle connection should.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        buffer::release_vec(std::mem::take(&mut self.bytes));
    }
}
