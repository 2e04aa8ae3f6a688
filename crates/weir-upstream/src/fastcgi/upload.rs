//! Sends a request to an agent: as FastCGI records, or as the plain input of a CGI program.

use super::output::Output;
use super::{Head, HeadReader};
use crate::Connection;
use crate::attempt::{Failure, Progress, Scope, Timeouts, Upload, UploadError, UploadState};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_broker::Pool;
use weir_http::body::RequestBody;
use weir_http::buffer;
use weir_http::deadline::Wait;
use weir_wire::fastcgi::request;
use weir_wire::{Method, ResponseHead};

/// Number of bytes in the write buffer above which no further bytes are added before a write.
const FULL_BYTES: usize = 16 * 1024;
/// Maximum number of bytes taken from a body at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// A request being sent.
pub struct FastCgiUpload<'a> {
    out: Bytes,
    written: usize,
    body: RequestBody<'a>,
    /// Whether the request is sent in FastCGI records.
    framed: bool,
    pub(super) progress: Progress,
    /// Whether the entire request is in `out`, so that it can be sent again.
    is_buffered: bool,
    /// The output of the agent, until the head of the response has arrived.
    output: Option<Output>,
}

impl<'a> FastCgiUpload<'a> {
    /// A request to an agent of `pool`: `head`, then the body, in FastCGI records if `framed`. A
    /// small buffered body is sent with the head.
    pub fn new(head: Vec<u8>, body: RequestBody<'a>, framed: bool, pool: &Arc<Pool>) -> Self {
        let mut upload = Self {
            out: Bytes(head),
            written: 0,
            body,
            framed,
            progress: Progress::new(UploadState::Body),
            is_buffered: false,
            output: Some(Output::new(framed, Arc::clone(pool))),
        };
        while upload.out.0.len() < FULL_BYTES && !upload.body.data().is_empty() {
            upload.take();
        }
        if upload.body.is_done() {
            upload.end();
            upload.is_buffered = framed;
        }
        upload
    }

    fn take(&mut self) {
        let data = self.body.data();
        let count = data.len().min(CHUNK_BYTES);
        if self.framed {
            request::stdin(&mut self.out.0, &data[..count]);
        } else {
            self.out.0.extend_from_slice(&data[..count]);
        }
        self.body.consume(count);
        self.progress.moved = true;
    }

    fn end(&mut self) {
        if self.framed {
            request::stdin_end(&mut self.out.0);
        }
        self.progress.state = UploadState::Last;
    }
}

impl Upload for FastCgiUpload<'_> {
    type Channel = Box<Connection>;
    type Reader = HeadReader;
    type Arrived = Head;

    fn poll_send(
        &mut self,
        connection: &Box<Connection>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>> {
        let stream = &connection.stream;
        loop {
            if self.progress.state == UploadState::Body
                && self.out.0.len() - self.written < FULL_BYTES
            {
                self.progress.waits_for_client = false;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        self.take();
                        continue;
                    }
                    Poll::Ready(Ok(false)) => self.end(),
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(UploadError::Client(error)));
                    }
                    Poll::Pending if self.written == self.out.0.len() => {
                        self.progress.waits_for_client = true;
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
            }
            if self.written == self.out.0.len() {
                if !self.framed && ready!(stream.poll_shutdown(cx)).is_err() {
                    return self.progress.abort();
                }
                self.progress.state = UploadState::Complete;
                return Poll::Ready(Ok(()));
            }
            match ready!(stream.poll_write(cx, &self.out.0[self.written..], b"")) {
                Ok(count) if count > 0 => {
                    self.written += count;
                    self.progress.moved = true;
                    if self.written == self.out.0.len() && !self.is_buffered {
                        self.out.0.clear();
                        self.written = 0;
                    }
                }
                _ => return self.progress.abort(),
            }
        }
    }

    fn poll_head(
        &mut self,
        connection: &mut Box<Connection>,
        reader: &mut HeadReader,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, Failure>> {
        let Some(output) = &mut self.output else { return Poll::Pending };
        let body = ready!(reader.poll(connection, output, response, scope, cx))?;
        let redirect = reader.redirect(response);
        Poll::Ready(Ok(Head { body, redirect, output: self.output.take() }))
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn client_limit(&self, _: Timeouts) -> (Wait, Duration) {
        (Wait::RequestBody, self.body.idle())
    }

    fn may_repeat(&self, method: Method) -> bool {
        self.is_buffered && (method.is_idempotent() || self.written == 0)
    }

    fn rewind(&mut self) {
        (self.written, self.progress.state) = (0, UploadState::Last);
        if let Some(output) = &mut self.output {
            output.reset();
        }
    }

    /// Sends an abort record to the agent, unless another record is partially sent.
    fn abort(&self, connection: &Box<Connection>) {
        if self.framed && self.written == self.out.0.len() {
            let mut record = Vec::new();
            request::abort(&mut record);
            // The connection is closed in any case: this does not wait until it is writable.
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = connection.stream.poll_write(&mut cx, &record, b"");
        }
    }
}

/// A buffer that is returned to the pool of this worker on drop.
struct Bytes(Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        buffer::release_vec(std::mem::take(&mut self.0));
    }
}
