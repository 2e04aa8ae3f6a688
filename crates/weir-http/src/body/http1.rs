//! A request body on HTTP/1.x.

use super::RequestBodyError;
use crate::buffer::Buffer;
use crate::stream::Stream;
use std::task::{Context, Poll, ready};
use weir_wire::{BodyDecoder, Framing, Scan};

/// Bytes of a client that are not processed yet: the rest of this request, and maybe of the next
/// ones.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Bytes that were read and not parsed yet.
    pub buffer: Buffer,
    /// How far the buffer was scanned for the end of a head.
    pub scan: Scan,
    /// Decoder of the body that is being read.
    pub body: BodyDecoder,
    /// Bytes at the front of the buffer that are decoded body.
    ready: usize,
    /// Decoded bytes not yet counted against the limit.
    fresh: u64,
    /// The client has closed its side, or the connection was lost.
    pub closed: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// The last body was a long one: read with large buffers from the start.
    pub large: bool,
}

impl Incoming {
    /// Reads more; 0 is the end.
    pub fn poll_fill(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        let polled = stream.poll_read(cx, self.buffer.room(self.large));
        match polled {
            Poll::Ready(Ok(count)) => {
                self.buffer.grown(count);
                self.closed |= count == 0;
            }
            Poll::Ready(Err(_)) => self.closed = true,
            Poll::Pending => {}
        }
        self.buffer.release_if_empty();
        polled
    }

    /// No decoded byte is buffered: the next bytes belong to the next request.
    pub fn is_at_end(&self) -> bool {
        self.ready == 0
    }

    /// Starts the body of a request.
    pub fn start(&mut self, framing: Framing, expects_continue: bool) {
        self.body = BodyDecoder::new(framing);
        self.ready = 0;
        self.fresh = 0;
        self.expects_continue = expects_continue;
        self.large = match framing {
            Framing::None => false,
            Framing::Length(length) => length > 6 * 1024,
            Framing::Chunked | Framing::UntilClose => self.large,
        };
    }
}

/// Reads the body of the request in flight.
pub struct Http1Body<'a> {
    incoming: &'a mut Incoming,
    stream: &'a Stream,
    framing: Framing,
}

/// Interim response for a client that waits for it.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<'a> Http1Body<'a> {
    /// The body that follows a head in `incoming`.
    pub fn new(incoming: &'a mut Incoming, stream: &'a Stream, framing: Framing) -> Self {
        Self { incoming, stream, framing }
    }

    /// Continues an earlier reader.
    pub fn resume(incoming: &'a mut Incoming, stream: &'a Stream) -> Self {
        Self::new(incoming, stream, Framing::Chunked)
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.incoming.buffer.filled()[..self.incoming.ready]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.incoming.ready -= count;
        self.incoming.buffer.consume(count);
    }

    pub(super) fn is_done(&self) -> bool {
        self.incoming.ready == 0 && self.incoming.body.is_done()
    }

    pub(super) fn fresh(&mut self) -> u64 {
        std::mem::take(&mut self.incoming.fresh)
    }

    /// Decodes buffered bytes.
    pub(super) fn decode(&mut self) -> Result<(), RequestBodyError> {
        let incoming = &mut *self.incoming;
        while incoming.ready == 0 && !incoming.body.is_done() {
            let decoded = incoming.body.decode(incoming.buffer.filled())?;
            if decoded.consumed == 0 {
                break;
            }
            incoming.buffer.consume(decoded.data.start);
            incoming.ready = decoded.data.len();
            incoming.fresh += decoded.data.len() as u64;
        }
        Ok(())
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, RequestBodyError>> {
        loop {
            self.decode()?;
            if self.incoming.ready > 0 {
                return Poll::Ready(Ok(true));
            }
            if self.incoming.body.is_done() {
                return Poll::Ready(Ok(false));
            }
            if self.incoming.expects_continue {
                ready!(self.poll_continue(cx))?;
            }
            match ready!(self.incoming.poll_fill(self.stream, cx)) {
                Ok(0) => {
                    self.incoming.body.close()?;
                    return Poll::Ready(Err(RequestBodyError::ClientClosed));
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(RequestBodyError::ClientClosed)),
            }
        }
    }

    /// Sends `100 (Continue)`. 25 bytes into an empty socket buffer: all are written, or the
    /// connection is unusable.
    fn poll_continue(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RequestBodyError>> {
        let written = ready!(self.stream.poll_write(cx, CONTINUE, b""));
        self.incoming.expects_continue = false;
        if !matches!(written, Ok(count) if count == CONTINUE.len()) {
            return Poll::Ready(Err(RequestBodyError::ClientClosed));
        }
        match self.stream.poll_flush(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(Err(RequestBodyError::ClientClosed)),
            // TLS continues to flush with the next write or read.
            _ => Poll::Ready(Ok(())),
        }
    }
}
