//! A single attempt, shared by HTTP/1.1, HTTP/2 and FastCGI: sends the request while waiting for
//! the head of the response.
//!
//! The attempt runs in the task of the client's connection. An early response is therefore
//! forwarded, and a client that sends before it reads does not block.

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

/// Limits on the head of a response. Not configurable, as clients do not influence the head.
pub(crate) const RESPONSE_LIMITS: HeadLimits =
    HeadLimits { bytes: 64 * 1024, fields: 256, target: 0 };

/// A request being sent, by one of the protocols.
pub trait Upload {
    /// The connection or stream of the request.
    type Channel;
    /// State of reading the head of the response.
    type Reader: Default;
    /// Data that arrived with the head.
    type Arrived;

    /// Opens the channel for this request.
    fn poll_open(
        &mut self,
        _: &mut Self::Channel,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    /// Continues sending until all bytes are sent.
    fn poll_send(
        &mut self,
        channel: &Self::Channel,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>>;

    /// Continues reading until the final head is in `response`.
    fn poll_head(
        &mut self,
        channel: &mut Self::Channel,
        reader: &mut Self::Reader,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Arrived, Failure>>;

    /// Progress of the request.
    fn progress(&mut self) -> &mut Progress;

    /// The timeout for a client that sends nothing.
    fn client_limit(&self, timeouts: Timeouts) -> (Wait, Duration);

    /// A timeout expired on this channel.
    fn timed_out(&self, _: &mut Self::Channel, _: Expired) {}

    /// Whether the request may be sent over another channel after this one was closed without a
    /// byte of the response: the request is completely buffered, and either nothing was sent or the
    /// method is idempotent.
    fn may_repeat(&self, method: Method) -> bool;

    /// Starts again on another channel.
    fn rewind(&mut self);

    /// The response is no longer needed.
    fn abort(&self, _: &Self::Channel) {}
}

/// Progress of a request.
pub struct Progress {
    pub(super) state: UploadState,
    /// Whether bytes were sent or received since the last check.
    pub(super) moved: bool,
    /// Waits for the client, not for the upstream.
    pub(super) waits_for_client: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadState {
    /// The body has not been read completely.
    Body,
    /// The rest of the request is buffered.
    Last,
    /// The request was sent completely.
    Complete,
    /// The upstream does not read the rest.
    Aborted,
}

impl Progress {
    pub(super) fn new(state: UploadState) -> Self {
        Self { state, moved: false, waits_for_client: false }
    }

    /// Whether the request was sent completely.
    pub(super) fn is_complete(&self) -> bool {
        self.state == UploadState::Complete
    }

    /// Whether nothing more will be sent.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, UploadState::Complete | UploadState::Aborted)
    }

    /// Whether bytes were sent or received since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The upstream does not read the rest.
    pub(super) fn abort(&mut self) -> Poll<Result<(), UploadError>> {
        self.state = UploadState::Aborted;
        Poll::Ready(Err(UploadError::Upstream))
    }
}

/// Why sending stopped.
pub enum UploadError {
    /// The client's body cannot be read.
    Client(RequestBodyError),
    /// The connection was lost or closed by the other end, or the stream was reset.
    Upstream,
}

/// Timeouts of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time from the last byte of the request to the first byte of the response.
    pub first_byte: Duration,
    /// Time without progress of a body.
    pub idle: Duration,
}

/// Parameters of an attempt besides the request and the channel.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    /// Method of the request.
    pub method: Method,
    /// Deadline of the request.
    pub deadline: &'s Deadline,
    /// Timeouts of the response.
    pub timeouts: Timeouts,
    /// Whether 101 is a final response.
    pub upgrade: bool,
    /// Buffer for interim responses, if the client accepts them.
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
    let mut reader = U::Reader::default();
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
                        // The upstream does not read the rest; it may have responded.
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
    /// The other end closed or reset the channel.
    Closed(Reached),
    /// The other end violated the protocol.
    ProtocolError(Cow<'static, str>),
    /// The agent rejects further requests.
    Overloaded,
    TimedOut(Expired),
}

/// Progress of a request whose channel was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The upstream certainly has not processed it (RFC 9113 section 8.7).
    Unprocessed,
    /// No byte of a response arrived.
    NoResponse,
    /// A part of the head arrived.
    PartOfHead,
}

/// Failure of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It closed the channel.
    Closed,
    /// It violated the protocol.
    ProtocolError,
    /// It exceeded a timeout.
    TimedOut,
}

impl Failure {
    pub(super) fn protocol_error(why: impl Into<Cow<'static, str>>) -> Self {
        Self::ProtocolError(why.into())
    }

    /// Failure of the other end; `None` if it did not fail.
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
