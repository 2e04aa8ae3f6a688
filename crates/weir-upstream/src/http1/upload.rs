//! Sends a request by HTTP/1.1.

use super::HeadReader;
use crate::attempt::{
    Failure, Progress, Reached, Scope, Timeouts, Upload, UploadError, UploadState,
};
use crate::target_upload::{Finished, TargetUpload};
use crate::{CheckOutError, Connection, Http1Response, OutboundRequest, Target};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::RequestBody;
use weir_http::deadline::{Deadline, Wait};
use weir_http::write_buffer::WriteBuffer;
use weir_telemetry::labels::RetryReason;
use weir_telemetry::spans::AttemptSpan;
use weir_wire::{Framing, Method, ResponseHead};

/// A request being sent.
pub struct Http1Upload<'a> {
    out: WriteBuffer,
    body: RequestBody<'a>,
    framing: Framing,
    pub(super) progress: Progress,
    /// Length of the head, at the front of `out`, once set.
    head: Option<usize>,
    /// Whether the entire request is in `out`, so that it can be sent again.
    is_buffered: bool,
}

impl<'a> Http1Upload<'a> {
    /// A request with this body. The head is set by [`Http1Upload::set_head`].
    pub fn new(body: RequestBody<'a>) -> Self {
        Self {
            out: WriteBuffer::default(),
            framing: body.framing(),
            body,
            progress: Progress::new(UploadState::Body),
            head: None,
            is_buffered: false,
        }
    }

    /// Sets the head, or replaces it for another target. A small buffered body is sent with it.
    pub fn set_head(&mut self, head: WriteBuffer) {
        let length = head.len();
        if let Some(before) = self.head.replace(length) {
            if self.is_buffered {
                self.rewind();
            }
            self.out.replace_head(before, &head);
            return;
        }
        self.out = head;
        let (out, body) = (&mut self.out, &mut self.body);
        out.set_chunked(self.framing == Framing::Chunked);
        // The head may have filled the buffer.
        if out.has_room() && !body.is_done() && !body.data().is_empty() {
            let copied = out.take(body.data());
            body.consume(copied);
        }
        if body.is_done() {
            out.end();
            out.keep();
            (self.progress.state, self.is_buffered) = (UploadState::Last, true);
        }
    }
}

impl Upload for Http1Upload<'_> {
    type Channel = Box<Connection>;
    type Reader = HeadReader;
    type Arrived = ();

    fn poll_send(
        &mut self,
        connection: &Box<Connection>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>> {
        let stream = &connection.stream;
        loop {
            if self.progress.state == UploadState::Body && self.out.has_room() {
                self.progress.waits_for_client = false;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        let copied = self.out.take(self.body.data());
                        self.body.consume(copied);
                        self.progress.moved = true;
                        continue;
                    }
                    Poll::Ready(Ok(false)) => {
                        self.out.end();
                        self.progress.state = UploadState::Last;
                    }
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(UploadError::Client(error)));
                    }
                    Poll::Pending if self.out.is_empty() => {
                        self.progress.waits_for_client = true;
                        if ready!(self.out.poll_flush(stream, cx)).is_err() {
                            return self.progress.abort();
                        }
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
            }
            if self.out.is_empty() {
                if ready!(self.out.poll_flush(stream, cx)).is_err() {
                    return self.progress.abort();
                }
                self.progress.state = UploadState::Complete;
                return Poll::Ready(Ok(()));
            }
            match ready!(self.out.poll_write(stream, cx, self.body.data())) {
                Ok(direct) => {
                    self.body.consume(direct);
                    self.progress.moved = true;
                }
                Err(_) => return self.progress.abort(),
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
    ) -> Poll<Result<(), Failure>> {
        reader.poll(connection, response, scope, cx)
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn client_limit(&self, _: Timeouts) -> (Wait, Duration) {
        (Wait::RequestBody, self.body.idle())
    }

    fn may_repeat(&self, method: Method) -> bool {
        self.is_buffered && (method.is_idempotent() || self.out.is_untouched())
    }

    fn rewind(&mut self) {
        self.out.rewind();
        self.progress.state = UploadState::Last;
    }
}

impl<'a> TargetUpload for Http1Upload<'a> {
    type Body = Http1Response<'a>;
    const REOPENS: bool = true;

    async fn check_out(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, CheckOutError> {
        target.check_out(deadline).await
    }

    async fn reopen(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, CheckOutError> {
        target.check_out_fresh(deadline).await
    }

    fn is_reused(connection: &Box<Connection>) -> bool {
        connection.reused
    }

    fn address(
        &mut self,
        _: &mut Box<Connection>,
        request: &OutboundRequest<'_>,
        target: &Target,
        span: Option<&AttemptSpan>,
    ) -> Option<()> {
        self.set_head(request.http1(&target.authority, self.framing, span));
        Some(())
    }

    fn is_stale(&self, failure: &Failure, method: Method) -> bool {
        matches!(failure, Failure::Closed(Reached::NoResponse)) && self.may_repeat(method)
    }

    fn may_retry(&self, _: RetryReason, may_process_twice: bool) -> bool {
        let untouched = self.out.is_untouched();
        (untouched && self.progress.state != UploadState::Aborted)
            || (self.is_buffered && (may_process_twice || untouched))
    }

    fn duplicate(&self) -> Option<Self> {
        let mut out = WriteBuffer::default();
        out.head()
            .extend_from_slice(self.is_buffered.then(|| self.out.behind(self.head.unwrap_or(0)))?);
        out.keep();
        Some(Self {
            out,
            body: RequestBody::empty(),
            framing: self.framing,
            progress: Progress::new(UploadState::Last),
            head: Some(0),
            is_buffered: true,
        })
    }

    fn retry_status(response: &ResponseHead) -> u16 {
        response.status
    }

    fn discard(
        &self,
        connection: Box<Connection>,
        (): (),
        response: &ResponseHead,
        scope: &Scope<'_>,
    ) {
        Http1Response::discard(connection, self.progress.is_complete(), response, scope);
    }

    fn finish(
        self,
        connection: Box<Connection>,
        (): (),
        response: &ResponseHead,
        idle: Duration,
        _: bool,
    ) -> Finished<Self::Body> {
        if response.status == 101 {
            return Finished::Switched { connection, is_complete: self.progress.is_complete() };
        }
        Finished::Response(Http1Response::new(connection, self, response, idle))
    }

    fn abandon(&mut self) {
        // An error of the body is ignored: another one is already reported.
        let _ = self.body.discard_buffered();
    }
}
