//! One attempt, the same for HTTP/1.1, HTTP/2 and FastCGI: the request goes out while the head of
//! the response is awaited.
//!
//! Everything happens in the task of the client's connection. An early response is therefore passed
//! on, and a client that sends before it reads does not block.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::RequestBodyError;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_telemetry::labels::RetryReason;
use weir_wire::{HeadLimits, Method, ResponseHead};

/// Bounds on the head of a response. Clients do not influence it, so it is not a setting.
pub(crate) const RESPONSE_LIMITS: HeadLimits =
    HeadLimits { bytes: 64 * 1024, fields: 256, target: 0 };

/// A request being sent by one of the protocols.
pub trait Upload {
    /// The connection or stream that carries it.
    type Channel;
    /// State of reading the head of the response.
    type Reader;
    /// What has arrived besides the head.
    type Arrived;

    fn reader(&self) -> Self::Reader;

    /// Opens the channel for this request.
    fn poll_open(
        &mut self,
        _: &mut Self::Channel,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    /// Continues sending until everything is out.
    fn poll_send(
        &mut self,
        channel: &mut Self::Channel,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>>;

    /// Reads on until the final head is in `response`.
    fn poll_head(
        &mut self,
        channel: &mut Self::Channel,
        reader: &mut Self::Reader,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Arrived, Failure>>;

    /// How far the request is.
    fn progress(&mut self) -> &mut Progress;

    /// The limit on a client that sends nothing.
    fn client_limit(&self, timeouts: Timeouts) -> (Wait, Duration);

    /// A limit expired on this channel.
    fn timed_out(&self, _: &mut Self::Channel, _: Expired) {}

    /// Whether the request may be sent over another channel after this one closed without a byte of
    /// the response: all of it is buffered, and nothing had gone out or the method is idempotent.
    fn may_repeat(&self, method: Method) -> bool;

    /// Starts again, over another channel.
    fn rewind(&mut self);

    /// The response is not awaited any more.
    fn abort(&self, _: &Self::Channel) {}
}

/// How far a request is on its way.
pub struct Progress {
    pub(super) state: UploadState,
    /// Bytes went out or came in since the last check.
    pub(super) moved: bool,
    /// The client, not the upstream, is awaited.
    pub(super) waits_for_client: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadState {
    /// The body is still to be read.
    Body,
    /// All of the request is buffered.
    Last,
    /// All of the request was sent.
    Complete,
    /// The upstream reads no more.
    Aborted,
}

impl Progress {
    pub(super) fn new(state: UploadState) -> Self {
        Self { state, moved: false, waits_for_client: false }
    }

    /// All of the request was sent.
    pub(super) fn is_complete(&self) -> bool {
        self.state == UploadState::Complete
    }

    /// Nothing more will be sent.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, UploadState::Complete | UploadState::Aborted)
    }

    /// Bytes went out or came in since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The upstream reads no more.
    pub(super) fn abort(&mut self) -> Poll<Result<(), UploadError>> {
        self.state = UploadState::Aborted;
        Poll::Ready(Err(UploadError::Upstream))
    }
}

/// Why sending stopped.
pub enum UploadError {
    /// The client's body cannot be read.
    Client(RequestBodyError),
    /// The connection broke, the other end closed it, or the stream was reset.
    Upstream,
}

/// Time limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the last byte of the request to the first byte of the response.
    pub first_byte: Duration,
    /// Without progress of a body.
    pub idle: Duration,
}

/// What an attempt needs besides the request and a channel.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    /// Method of the request.
    pub method: Method,
    /// Deadline of the request.
    pub deadline: &'s Deadline,
    /// Timeouts of the response.
    pub timeouts: Timeouts,
    /// 101 is a final response.
    pub upgrade: bool,
    /// Where interim responses go, if the client gets them.
    pub interim: Option<&'s RefCell<Vec<u8>>>,
}

/// Sends a request and waits for the head of its response, which is then in `response`.
pub(crate) async fn attempt<U: Upload>(
    channel: &mut U::Channel,
    upload: &mut U,
    response: &mut ResponseHead,
    scope: &Scope<'_>,
) -> Result<U::Arrived, Failure> {
    let (deadline, timeouts) = (scope.deadline, scope.timeouts);
    let mut reader = upload.reader();
    deadline.progress();
    poll_fn(|cx| {
        let (wait, limit) = match upload.poll_open(channel, cx)? {
            Poll::Pending => (Wait::Connect, timeouts.first_byte),
            Poll::Ready(()) => {
                let mut is_pending = false;
                if !upload.progress().is_finished() {
                    match upload.poll_send(channel, cx) {
                        Poll::Ready(Ok(())) => deadline.progress(),
                        Poll::Ready(Err(UploadError::Client(error))) => {
                            return Poll::Ready(Err(Failure::Client(error)));
                        }
                        // It reads no more; perhaps it has responded.
                        Poll::Ready(Err(UploadError::Upstream)) => {}
                        Poll::Pending => is_pending = true,
                    }
                    if upload.progress().take_moved() {
                        deadline.progress();
                    }
                }
                let head = upload.poll_head(channel, &mut reader, response, scope, cx);
                if head.is_ready() {
                    return head;
                }
                match (is_pending, upload.progress().waits_for_client) {
                    (true, true) => upload.client_limit(timeouts),
                    (true, false) => (Wait::UpstreamBody, timeouts.idle),
                    (false, _) => (Wait::FirstByte, timeouts.first_byte),
                }
            }
        };
        let expired = ready!(deadline.poll(cx, wait, limit));
        upload.timed_out(channel, expired);
        Poll::Ready(Err(Failure::TimedOut(expired)))
    })
    .await
}

/// Why an attempt failed.
#[derive(Debug)]
pub enum Failure {
    /// The client's body cannot be read.
    Client(RequestBodyError),
    /// The other end closed or reset.
    Closed(Reached),
    /// What it sent is not the protocol.
    ProtocolError(Cow<'static, str>),
    /// An agent refuses more requests.
    Overloaded,
    TimedOut(Expired),
}

/// How far a request came whose channel was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The upstream certainly has not processed it (RFC 9113 section 8.7).
    Unprocessed,
    /// No byte of a response came.
    NoResponse,
    /// A part of the head came.
    PartOfHead,
}

/// How the other end failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It closed.
    Closed,
    /// It sent something else than the protocol.
    ProtocolError,
    /// It exceeded a time limit.
    TimedOut,
}

impl Failure {
    pub(super) fn protocol_error(why: impl Into<Cow<'static, str>>) -> Self {
        Self::ProtocolError(why.into())
    }

    /// How the other end failed; `None` if it did not.
    pub(super) fn peer_failure(&self) -> Option<Failed> {
        match self {
            Self::Client(_)
            | Self::Overloaded
            | Self::TimedOut(Expired::Wait(Wait::RequestBody)) => None,
            Self::Closed(_) => Some(Failed::Closed),
            Self::ProtocolError(_) => Some(Failed::ProtocolError),
            Self::TimedOut(_) => Some(Failed::TimedOut),
        }
    }

    /// Why a retry may succeed.
    pub(super) fn retry_reason(&self) -> Option<RetryReason> {
        match self {
            Self::Closed(Reached::Unprocessed) => Some(RetryReason::Connect),
            Self::Closed(Reached::NoResponse) => Some(RetryReason::Closed),
            Self::TimedOut(Expired::Request | Expired::Wait(Wait::RequestBody)) => None,
            Self::TimedOut(_) => Some(RetryReason::Timeout),
            Self::Client(_)
            | Self::Closed(Reached::PartOfHead)
            | Self::ProtocolError(_)
            | Self::Overloaded => None,
        }
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => error.into(),
            Failure::Closed(_) => Problem::UpstreamClosed.into(),
            Failure::ProtocolError(why) => Self::new(Problem::UpstreamProtocolError).detail(why),
            Failure::Overloaded => {
                Self::new(Problem::PoolBusy).header("retry-after", "1".to_owned())
            }
            Failure::TimedOut(expired) => expired.into(),
        }
    }
}
