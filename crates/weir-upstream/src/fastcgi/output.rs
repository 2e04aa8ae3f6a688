//! The output of an agent, decoded from FastCGI records, or plain for a CGI program.

use crate::Connection;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use weir_broker::Pool;
use weir_wire::fastcgi::{End, Event, FastCgiError, ResponseReader};

/// Decodes the output of an agent.
pub(super) struct Output {
    /// The decoder of records; None for plain output, which ends with the connection.
    records: Option<ResponseReader>,
    /// Number of bytes at the front of the connection's buffer that are output.
    ready: usize,
    end: Option<Option<End>>,
    pool: Arc<Pool>,
}

/// Why the output cannot be read further.
#[derive(Debug)]
pub(super) enum OutputError {
    Closed,
    ProtocolError(FastCgiError),
}

impl Output {
    pub(super) fn new(framed: bool, pool: Arc<Pool>) -> Self {
        Self { records: framed.then(ResponseReader::default), ready: 0, end: None, pool }
    }

    /// Resets the state for another connection.
    pub(super) fn reset(&mut self) {
        self.records = self.records.is_some().then(ResponseReader::default);
        (self.ready, self.end) = (0, None);
    }

    /// Buffered bytes of output.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn consume(&mut self, connection: &mut Connection, count: usize) {
        connection.buffer.consume(count);
        self.ready -= count;
    }

    /// The end of the output, with the final record of FastCGI.
    pub(super) fn end(&self) -> Option<Option<End>> {
        self.end
    }

    /// Finds output in the buffered bytes; returns whether there is output, or the end.
    pub(super) fn advance(&mut self, connection: &mut Connection) -> Result<bool, OutputError> {
        loop {
            if self.ready > 0 || self.end.is_some() {
                return Ok(true);
            }
            let bytes = connection.buffer.filled();
            let Some(records) = &mut self.records else {
                self.ready = bytes.len();
                return Ok(self.ready > 0);
            };
            let decoded = records.decode(bytes).map_err(OutputError::ProtocolError)?;
            match decoded.event {
                Event::Stdout => {
                    connection.buffer.consume(decoded.data.start);
                    self.ready = decoded.data.len();
                }
                Event::Stderr => {
                    self.pool.log_text(&bytes[decoded.data]);
                    connection.buffer.consume(decoded.consumed);
                }
                Event::End(end) => {
                    connection.buffer.consume(decoded.consumed);
                    self.end = Some(Some(end));
                }
                Event::Pending => {
                    connection.buffer.consume(decoded.consumed);
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for output (`true`) or its end (`false`).
    pub(super) fn poll(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, OutputError>> {
        loop {
            if self.advance(connection)? {
                return Poll::Ready(Ok(self.ready > 0));
            }
            match ready!(connection.poll_fill(cx)) {
                Ok(0) if self.records.is_none() => self.end = Some(None),
                Ok(0) => return Poll::Ready(Err(OutputError::Closed)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(OutputError::Closed)),
            }
        }
    }

    /// Whether the connection can be reused.
    pub(super) fn leaves_connection(&self) -> bool {
        self.records.is_some() && self.end.is_some()
    }
}
