//! The body of an upstream's answer.

use super::sending::Sending;
use crate::body::AnswerError;
use crate::deadline::{Deadline, Wait};
use crate::upstream::{Connection, Failed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::{BodyDecoder, Framing, ResponseHead};

/// Most bytes that are read of an answer nobody gets, to keep its connection.
const DISCARDED: usize = 64 * 1024;

/// Reads an answer's body, and meanwhile sends what is left of the request.
pub(crate) struct UpstreamBody<'a> {
    /// Gone once the answer is whole.
    connection: Option<Box<Connection>>,
    /// What is left of the request; it holds the client's side until the answer is whole.
    sending: Option<Box<Sending<'a>>>,
    decoder: BodyDecoder,
    framing: Framing,
    /// Bytes at the front of the buffer that are decoded body.
    ready: usize,
    /// The connection may be used again.
    keep_alive: bool,
    idle: Duration,
}

impl<'a> UpstreamBody<'a> {
    pub(crate) fn new(
        connection: Box<Connection>,
        sending: Sending<'a>,
        response: &ResponseHead,
        idle: Duration,
    ) -> Self {
        let whole = !sending.is_over() || sending.is_complete();
        let rest = (!sending.is_over()).then(|| Box::new(sending));
        Self::beside(connection, rest, whole, response, idle)
    }

    /// After a request that was sent whole, and of which nobody counts how it ended.
    pub(crate) fn unwatched(
        connection: Box<Connection>,
        response: &ResponseHead,
        idle: Duration,
    ) -> Self {
        Self::beside(connection, None, true, response, idle)
    }

    /// Beside `rest` of the request; `whole` unless that broke off.
    fn beside(
        mut connection: Box<Connection>,
        rest: Option<Box<Sending<'a>>>,
        whole: bool,
        response: &ResponseHead,
        idle: Duration,
    ) -> Self {
        connection.large = match response.framing {
            Framing::Length(length) => length > 6 * 1024,
            Framing::None => false,
            Framing::Chunked | Framing::UntilClose => connection.large,
        };
        let mut body = Self {
            connection: Some(connection),
            sending: rest,
            decoder: BodyDecoder::new(response.framing),
            framing: response.framing,
            ready: 0,
            keep_alive: response.keep_alive && whole,
            idle,
        };
        if body.decoder.is_done() {
            body.finish();
        }
        body
    }

    /// Lets go of an answer that nobody gets. Its connection is kept if all of it is there already,
    /// and the request was `whole`.
    pub(crate) fn discard(
        connection: Box<Connection>,
        whole: bool,
        response: &ResponseHead,
        idle: Duration,
        deadline: &Deadline,
    ) {
        let mut body = UpstreamBody::beside(connection, None, whole, response, idle);
        let mut left = DISCARDED;
        // Nothing is waited for, so there is nobody to wake.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while body.connection.is_some()
            && left > 0
            && matches!(body.poll_data(&mut cx, deadline), Poll::Ready(Ok(true)))
        {
            let count = body.data().len().min(left);
            body.consume(count);
            left -= count;
        }
    }

    /// Lets go of the request, if nothing of it is left to send.
    pub(crate) fn detach(self) -> Result<UpstreamBody<'static>, Self> {
        if self.sending.is_some() {
            return Err(self);
        }
        let Self { connection, decoder, framing, ready, keep_alive, idle, .. } = self;
        Ok(UpstreamBody { connection, sending: None, decoder, framing, ready, keep_alive, idle })
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    pub(crate) fn data(&self) -> &[u8] {
        match &self.connection {
            Some(connection) => &connection.buffer.filled()[..self.ready],
            None => b"",
        }
    }

    pub(crate) fn consume(&mut self, count: usize) {
        if let Some(connection) = &mut self.connection {
            connection.buffer.consume(count);
            self.ready -= count;
            if self.ready == 0 && self.decoder.is_done() {
                self.finish();
            }
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.decoder.is_done()
    }

    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, AnswerError>> {
        self.poll_request(cx);
        loop {
            let Some(connection) = &mut self.connection else {
                return Poll::Ready(Ok(false));
            };
            let decoded = self.decoder.decode(connection.buffer.filled())?;
            connection.buffer.consume(decoded.data.start);
            self.ready = decoded.data.len();
            if self.ready > 0 {
                deadline.progress();
                return Poll::Ready(Ok(true));
            }
            if self.decoder.is_done() {
                self.finish();
                return Poll::Ready(Ok(false));
            }
            if decoded.consumed > 0 {
                continue;
            }
            match connection.poll_fill(cx) {
                Poll::Ready(Ok(0)) => {
                    self.keep_alive = false;
                    if self.decoder.close().is_err() {
                        return Poll::Ready(Err(self.failed(AnswerError::UpstreamClosed)));
                    }
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => {
                    return Poll::Ready(Err(self.failed(AnswerError::UpstreamClosed)));
                }
                Poll::Pending => {
                    let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
                    return Poll::Ready(Err(self.failed(AnswerError::Late(expired))));
                }
            }
        }
    }

    /// Sends on what is left of the request. Its errors do not matter: the answer is there.
    pub(crate) fn poll_request(&mut self, cx: &mut Context<'_>) {
        if let (Some(sending), Some(connection)) = (&mut self.sending, &self.connection)
            && let Poll::Ready(sent) = sending.poll(&connection.stream, cx)
        {
            self.keep_alive &= sent.is_ok() && sending.is_complete();
            self.sending = None;
        }
    }

    fn failed(&mut self, error: AnswerError) -> AnswerError {
        if let Some(connection) = self.connection.take() {
            let late = matches!(error, AnswerError::Late(_));
            connection.failed(if late { Failed::Late } else { Failed::Closed });
        }
        error
    }

    /// The answer is whole: the connection is free, unless the request was never finished.
    fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            if self.keep_alive && self.sending.is_none() {
                connection.keep();
            } else {
                connection.close();
            }
        }
    }
}
