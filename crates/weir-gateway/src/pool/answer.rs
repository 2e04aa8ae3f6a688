//! The body of an agent's answer.

use super::feeding::Feeding;
use super::output::{Output, OutputError};
use crate::body::AnswerError;
use crate::deadline::{Deadline, Wait};
use crate::upstream::{Connection, Failed};
use bytes::Bytes;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::Framing;

/// How long an agent may take from the last byte of an answer to its end, and how much more it may
/// write: its connection is then closed.
const WINDING_UP: (Duration, usize) = (Duration::from_secs(1), 1 << 20);

/// Reads an answer's body, and meanwhile sends what is left of the request.
pub(crate) struct AgentBody<'a> {
    /// What came with the head.
    front: Bytes,
    /// Gone once the answer is whole.
    connection: Option<Box<Connection>>,
    feeding: Option<Box<Feeding<'a>>>,
    output: Option<Output>,
    framing: Framing,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
    /// The request was sent whole.
    sent: bool,
    idle: Duration,
}

impl<'a> AgentBody<'a> {
    pub(super) fn new(
        front: Bytes,
        connection: Box<Connection>,
        feeding: Feeding<'a>,
        output: Output,
        framing: Framing,
        idle: Duration,
    ) -> Self {
        let left = framing.length();
        let mut body = Self {
            front,
            connection: Some(connection),
            sent: feeding.is_complete(),
            feeding: (!feeding.is_over()).then(|| Box::new(feeding)),
            output: Some(output),
            framing,
            left,
            idle,
        };
        if let Some(left) = left {
            // What is more than was said is not the client's.
            body.front.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        body.finish_if_over();
        body
    }

    /// An answer that is over, and whose length says nothing.
    pub(super) fn nothing() -> AgentBody<'static> {
        AgentBody {
            front: Bytes::new(),
            connection: None,
            feeding: None,
            output: None,
            framing: Framing::None,
            left: Some(0),
            sent: true,
            idle: Duration::ZERO,
        }
    }

    /// Lets go of the request, if nothing of it is left to send.
    pub(crate) fn detach(self: Box<Self>) -> Result<Box<AgentBody<'static>>, Box<Self>> {
        if self.feeding.is_some() {
            return Err(self);
        }
        let Self { front, connection, output, framing, left, sent, idle, .. } = *self;
        let feeding = None;
        Ok(Box::new(AgentBody { front, connection, feeding, output, framing, left, sent, idle }))
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    pub(crate) fn data(&self) -> &[u8] {
        if !self.front.is_empty() {
            return &self.front;
        }
        match (&self.connection, &self.output) {
            (Some(connection), Some(output)) => {
                let ready = output.ready();
                let most = self
                    .left
                    .map_or(ready, |left| ready.min(usize::try_from(left).unwrap_or(usize::MAX)));
                &connection.buffer.filled()[..most]
            }
            _ => b"",
        }
    }

    pub(crate) fn consume(&mut self, count: usize) {
        if let Some(left) = &mut self.left {
            *left -= count as u64;
        }
        if !self.front.is_empty() {
            let _ = self.front.split_to(count);
        } else if let (Some(connection), Some(output)) = (&mut self.connection, &mut self.output) {
            output.consume(connection, count);
        }
        self.finish_if_over();
    }

    /// What is at hand is known to be the rest of it.
    pub(crate) fn is_last(&self) -> bool {
        match self.left {
            Some(left) => self.data().len() as u64 == left,
            None => {
                let rest = self.output.as_ref();
                rest.is_none_or(|output| output.end().is_some() && output.ready() == 0)
            }
        }
    }

    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, AnswerError>> {
        self.poll_request(cx);
        if !self.data().is_empty() {
            return Poll::Ready(Ok(true));
        }
        let (Some(connection), Some(output)) = (&mut self.connection, &mut self.output) else {
            return Poll::Ready(Ok(false));
        };
        match output.poll(connection, cx) {
            Poll::Ready(Ok(true)) => {
                deadline.progress();
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Ok(false)) if self.left.is_some_and(|left| left > 0) => {
                // It said that there would be more.
                self.close();
                Poll::Ready(Err(AnswerError::UpstreamClosed))
            }
            Poll::Ready(Ok(false)) => {
                self.finish();
                Poll::Ready(Ok(false))
            }
            Poll::Ready(Err(OutputError::Closed)) => {
                Poll::Ready(Err(self.failed(Failed::Closed, AnswerError::UpstreamClosed)))
            }
            Poll::Ready(Err(OutputError::Garbage(error))) => {
                let error = AnswerError::AgentGarbage(error);
                Poll::Ready(Err(self.failed(Failed::Garbage, error)))
            }
            Poll::Pending => {
                let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
                Poll::Ready(Err(self.failed(Failed::Late, AnswerError::Late(expired))))
            }
        }
    }

    /// Sends on what is left of the request. Its errors do not matter: the answer is there.
    pub(crate) fn poll_request(&mut self, cx: &mut Context<'_>) {
        if let (Some(feeding), Some(connection)) = (&mut self.feeding, &self.connection)
            && let Poll::Ready(sent) = feeding.poll(&connection.stream, cx)
        {
            self.sent = sent.is_ok() && feeding.is_complete();
            self.feeding = None;
        }
    }

    fn failed(&mut self, how: Failed, error: AnswerError) -> AnswerError {
        self.output = None;
        if let Some(connection) = self.connection.take() {
            connection.failed(how);
        }
        error
    }

    fn finish_if_over(&mut self) {
        let all = match (self.left, &self.output) {
            (Some(left), _) => left == 0,
            (None, Some(output)) => output.end().is_some() && output.ready() == 0,
            (None, None) => true,
        };
        if all && self.front.is_empty() {
            self.finish();
        }
    }

    /// The answer is whole. The agent is free when it says so.
    fn finish(&mut self) {
        let (Some(connection), Some(output)) = (self.connection.take(), self.output.take()) else {
            return;
        };
        settle(connection, output, self.sent && self.feeding.is_none());
    }

    fn close(&mut self) {
        self.output = None;
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }
}

/// Gives an agent back whose answer is whole: at once, or when it has ended it.
pub(super) fn settle(mut connection: Box<Connection>, mut output: Output, sent: bool) {
    let ended = output.ready() == 0 && matches!(output.advance(&mut connection), Ok(true));
    if ended && output.ready() == 0 {
        return give_back(connection, &output, sent);
    }
    tokio::task::spawn_local(async move {
        let mut more = 0;
        let winding_up = poll_fn(|cx| {
            while ready!(output.poll(&mut connection, cx))? {
                let count = output.ready();
                more += count;
                output.consume(&mut connection, count);
                if more > WINDING_UP.1 {
                    return Poll::Ready(Err(OutputError::Closed));
                }
            }
            Poll::Ready(Ok(()))
        });
        match tokio::time::timeout(WINDING_UP.0, winding_up).await {
            Ok(Ok(())) => give_back(connection, &output, sent),
            Ok(Err(OutputError::Garbage(_))) => connection.failed(Failed::Garbage),
            Ok(Err(OutputError::Closed)) | Err(_) => connection.failed(Failed::Closed),
        }
    });
}

fn give_back(connection: Box<Connection>, output: &Output, sent: bool) {
    if sent && output.leaves_connection() {
        connection.keep();
    } else {
        connection.close();
    }
}
