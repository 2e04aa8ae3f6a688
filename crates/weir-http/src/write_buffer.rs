//! Write buffer: a head, then a body from any source, in as few writes as possible.

use crate::buffer;
use crate::stream::Stream;
use std::io;
use std::task::{Context, Poll, ready};
use weir_wire::encode;

/// Data up to this many bytes is copied behind the buffered bytes, so that one write sends both;
/// more is written directly from the source.
const MAX_COPIED_BYTES: usize = 4 * 1024;
/// From this number of buffered bytes on they are written before more data is taken.
const FULL_BYTES: usize = 16 * 1024;

/// One direction of one connection.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
    /// Bytes were written.
    started: bool,
    /// Bytes of the source's data that follow `bytes` directly.
    direct: usize,
    chunked: bool,
    /// Written bytes are kept, so that all bytes can be sent again.
    kept: bool,
    /// Everything up to the flush has been written.
    flushed: bool,
}

impl WriteBuffer {
    /// The buffer of the head.
    pub fn head(&mut self) -> &mut Vec<u8> {
        self.flushed = false;
        if self.bytes.capacity() == 0 {
            self.bytes = buffer::take_vec();
        }
        &mut self.bytes
    }

    /// Sets whether the body is framed in chunks.
    pub fn set_chunked(&mut self, chunked: bool) {
        self.chunked = chunked;
    }

    /// Keeps written bytes, for [`WriteBuffer::rewind`].
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// There are neither buffered bytes nor direct data.
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len() && self.direct == 0
    }

    /// No byte was written yet.
    pub fn is_untouched(&self) -> bool {
        !self.started
    }

    /// Whether more data may be taken before writing.
    pub fn has_room(&self) -> bool {
        self.direct == 0 && self.bytes.len() - self.written < FULL_BYTES
    }

    /// Takes data; returns the number of copied bytes, which the source may drop now. The rest
    /// stays with the source and is passed to [`WriteBuffer::poll_write`] until it is written.
    pub fn take(&mut self, data: &[u8]) -> usize {
        debug_assert!(self.has_room());
        self.flushed = false;
        let copied = data.len() <= MAX_COPIED_BYTES;
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

    /// Ends the body.
    pub fn end(&mut self) {
        if self.chunked {
            self.flushed = false;
            self.bytes.extend_from_slice(encode::LAST_CHUNK);
        }
    }

    /// Writes once; returns the number of bytes of `data`, the data of the source, that were
    /// written directly.
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
        self.started = true;
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

    /// Flushes written bytes: TLS buffers records.
    pub fn poll_flush(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.flushed {
            ready!(stream.poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Starts again with the same bytes, for another connection; they must have been kept.
    pub fn rewind(&mut self) {
        self.written = 0;
        self.started = false;
        self.flushed = false;
    }

    /// Replaces the head, the first `length` bytes, before anything was written.
    pub fn replace_head(&mut self, length: usize, head: &Self) {
        self.bytes.splice(..length, head.bytes.iter().copied());
    }

    /// The buffered or kept bytes after the first `length`.
    pub fn behind(&self, length: usize) -> &[u8] {
        self.bytes.get(length..).unwrap_or_default()
    }

    /// Number of buffered or kept bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Clears the buffer and releases its memory, as an idle connection should not hold any.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        buffer::release_vec(std::mem::take(&mut self.bytes));
    }
}
