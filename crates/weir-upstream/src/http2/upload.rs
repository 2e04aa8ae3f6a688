//! Sends a request by HTTP/2.

use super::{Http2Channel, Http2Response, read_head};
use crate::attempt::{
    Failure, Progress, Reached, Scope, Timeouts, Upload, UploadError, UploadState,
};
use crate::target_upload::{Finished, TargetUpload};
use crate::{CheckOutError, OutboundRequest, Target};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::RequestBody;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::grpc;
use weir_http::headers::filter_trailers;
use weir_telemetry::labels::RetryReason;
use weir_telemetry::spans::AttemptSpan;
use weir_wire::{Framing, Method, ResponseHead};

/// Maximum number of bytes taken from a body at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Returns whether the trailer with this name is removed.
pub type TrailerFilter = Box<dyn Fn(&str) -> bool>;

/// A request being sent.
pub struct Http2Upload<'a> {
    /// Some once the head is sent.
    stream: Option<SendStream<Bytes>>,
    body: RequestBody<'a>,
    /// Filter of trailers; without it, all are removed.
    trailers: Option<TrailerFilter>,
    framing: Framing,
    /// Bytes taken from the body and not sent yet.
    front: Bytes,
    /// The entire body, if it was buffered and can be sent again.
    buffered: Option<Bytes>,
    pub(super) progress: Progress,
}

/// The state before a buffered body is sent.
fn before(body: &Bytes) -> UploadState {
    if body.is_empty() { UploadState::Complete } else { UploadState::Last }
}

impl<'a> Http2Upload<'a> {
    /// A request with this body. `filter` creates the filter of trailers, if the body may have
    /// trailers.
    pub fn new(mut body: RequestBody<'a>, filter: impl FnOnce() -> Option<TrailerFilter>) -> Self {
        let framing = body.framing();
        let front = body.take(CHUNK_BYTES);
        let is_buffered = body.is_done() && !body.has_trailers();
        Self {
            stream: None,
            body,
            trailers: if is_buffered { None } else { filter() },
            framing,
            buffered: is_buffered.then(|| front.clone()),
            progress: Progress::new(if is_buffered { before(&front) } else { UploadState::Body }),
            front,
        }
    }

    /// Continues sending until all bytes are sent.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        loop {
            if self.front.is_empty() && self.progress.state == UploadState::Body {
                self.progress.waits_for_client = true;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        self.front = self.body.take(CHUNK_BYTES);
                        self.progress.moved = true;
                    }
                    Poll::Ready(Ok(false)) => return self.finish(),
                    Poll::Ready(Err(error)) => {
                        self.progress.state = UploadState::Aborted;
                        if let Some(stream) = &mut self.stream {
                            stream.send_reset(Reason::CANCEL);
                        }
                        return Poll::Ready(Err(UploadError::Client(error)));
                    }
                    Poll::Pending => return Poll::Pending,
                }
                if self.body.is_done() && !self.body.has_trailers() {
                    self.progress.state = UploadState::Last;
                }
            }
            self.progress.waits_for_client = false;
            let Some(stream) = &mut self.stream else { return self.progress.abort() };
            stream.reserve_capacity(self.front.len());
            while stream.capacity() == 0 {
                match ready!(stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return self.progress.abort(),
                }
            }
            let chunk = self.front.split_to(stream.capacity().min(self.front.len()));
            let last = self.progress.state == UploadState::Last && self.front.is_empty();
            if stream.send_data(chunk, last).is_err() {
                return self.progress.abort();
            }
            self.progress.moved = true;
            if last {
                self.progress.state = UploadState::Complete;
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Ends the stream, with trailers if there are any.
    fn finish(&mut self) -> Poll<Result<(), UploadError>> {
        let mut trailers = self.body.take_trailers();
        if let Some(trailers) = &mut trailers {
            let filter = self.trailers.as_ref();
            filter_trailers(trailers, |name| filter.is_none_or(|removes| removes(name)));
        }
        let trailers = trailers.filter(|trailers| !trailers.is_empty());
        let Some(stream) = &mut self.stream else { return self.progress.abort() };
        let sent = match trailers {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Bytes::new(), true),
        };
        if sent.is_err() {
            return self.progress.abort();
        }
        self.progress.state = UploadState::Complete;
        Poll::Ready(Ok(()))
    }
}

impl Upload for Http2Upload<'_> {
    type Channel = Http2Channel;
    type Reader = ();
    type Arrived = RecvStream;

    fn poll_open(
        &mut self,
        channel: &mut Http2Channel,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        if channel.head.is_none() {
            return Poll::Ready(Ok(()));
        }
        if ready!(channel.send.poll_ready(cx)).is_err() {
            channel.permit.abandon();
            return Poll::Ready(Err(Failure::Closed(Reached::Unprocessed)));
        }
        if let Some(head) = channel.head.take() {
            let sent = channel.send.send_request(head, self.progress.is_finished());
            let (response, stream) = sent.map_err(|error| channel.failed(&error))?;
            channel.response = Some(response);
            self.stream = Some(stream);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(
        &mut self,
        _: &Http2Channel,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>> {
        self.poll(cx)
    }

    fn poll_head(
        &mut self,
        channel: &mut Http2Channel,
        (): &mut (),
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, Failure>> {
        let Some(future) = &mut channel.response else { return Poll::Pending };
        let head = ready!(Pin::new(future).poll(cx)).map_err(|error| channel.failed(&error))?;
        let (parts, incoming) = head.into_parts();
        read_head(&parts, &incoming, scope.method, response);
        Poll::Ready(Ok(incoming))
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// A streaming client may wait for a response before it sends more.
    fn client_limit(&self, timeouts: Timeouts) -> (Wait, Duration) {
        (Wait::FirstByte, timeouts.first_byte.max(self.body.idle()))
    }

    /// The connection may be dead: it gets no further requests.
    fn timed_out(&self, channel: &mut Http2Channel, expired: Expired) {
        if self.stream.is_none() || expired == Expired::Wait(Wait::FirstByte) {
            channel.permit.abandon();
        }
    }

    fn may_repeat(&self, _: Method) -> bool {
        self.buffered.is_some()
    }

    fn rewind(&mut self) {
        self.stream = None;
        if let Some(body) = &self.buffered {
            (self.front, self.progress.state) = (body.clone(), before(body));
        }
    }
}

impl<'a> TargetUpload for Http2Upload<'a> {
    type Body = Box<Http2Response<'a>>;
    const REOPENS: bool = false;

    async fn check_out(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Http2Channel, CheckOutError> {
        let (permit, send) = target.open_stream(deadline).await?;
        Ok(Http2Channel { permit, send, head: None, response: None })
    }

    fn is_reused(channel: &Http2Channel) -> bool {
        channel.permit.reused
    }

    fn address(
        &mut self,
        channel: &mut Http2Channel,
        request: &OutboundRequest<'_>,
        target: &Target,
        span: Option<&AttemptSpan>,
    ) -> Option<()> {
        if self.stream.is_some() {
            self.rewind();
        }
        channel.head =
            Some(request.http2(target.scheme(), &target.authority, self.framing, span)?);
        Some(())
    }

    /// The connection was closed before it accepted the request.
    fn is_stale(&self, failure: &Failure, method: Method) -> bool {
        matches!(failure, Failure::Closed(Reached::Unprocessed)) && self.may_repeat(method)
    }

    fn may_retry(&self, reason: RetryReason, may_process_twice: bool) -> bool {
        (self.stream.is_none() || self.buffered.is_some())
            && (may_process_twice || reason == RetryReason::Connect)
    }

    fn duplicate(&self) -> Option<Self> {
        let body = self.buffered.clone()?;
        Some(Self {
            stream: None,
            body: RequestBody::empty(),
            trailers: None,
            framing: self.framing,
            front: body.clone(),
            progress: Progress::new(before(&body)),
            buffered: Some(body),
        })
    }

    /// The status of a gRPC call, if the head contains it.
    fn retry_status(response: &ResponseHead) -> u16 {
        grpc::status_of(response)
    }

    fn discard(&self, _: Http2Channel, _: RecvStream, _: &ResponseHead, _: &Scope<'_>) {}

    fn finish(
        self,
        channel: Http2Channel,
        incoming: RecvStream,
        response: &ResponseHead,
        idle: Duration,
        is_grpc: bool,
    ) -> Finished<Self::Body> {
        let framing = response.framing;
        if is_grpc
            && framing == Framing::None
            && let Some(code) = grpc::code(response.headers.get("grpc-status"))
        {
            channel.permit.target().stats.grpc[code].add(1);
        }
        let body = Http2Response::new(channel.permit, self, incoming, framing, idle, is_grpc);
        Finished::Response(Box::new(body))
    }

    fn abandon(&mut self) {
        // An error of the body is ignored: another one is already reported.
        let _ = self.body.discard_buffered();
    }
}
