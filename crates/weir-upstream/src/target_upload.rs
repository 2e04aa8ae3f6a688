//! A request to a target: the differences between HTTP/1.1 and HTTP/2 for the engine of attempts.

use crate::attempt::{Failure, Scope, Upload};
use crate::{CheckOutError, Connection, OutboundRequest, Target};
use std::rc::Rc;
use std::time::Duration;
use weir_http::deadline::Deadline;
use weir_telemetry::labels::RetryReason;
use weir_telemetry::spans::AttemptSpan;
use weir_wire::{Method, ResponseHead};

/// What an upstream has responded with.
pub enum Finished<B> {
    /// A response, with its body.
    Response(B),
    /// 101: the connection speaks another protocol, if the request `is_complete`.
    Switched {
        /// The connection.
        connection: Box<Connection>,
        /// The entire request was sent.
        is_complete: bool,
    },
}

/// A request to a target. The differences between the protocols are here.
#[expect(async_fn_in_trait, reason = "a worker is one thread")]
pub trait TargetUpload: Upload + Sized {
    /// The body of its response.
    type Body;

    /// Instead of a stale connection a fresh one to the same target is used; otherwise a target is
    /// picked again. With it goes that a retry connects to one target only.
    const REOPENS: bool;

    /// Waits for a connection, or a stream on one.
    async fn check_out(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Self::Channel, CheckOutError>;

    /// A channel over a connection that has carried no request.
    async fn reopen(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Self::Channel, CheckOutError>;

    /// The connection has carried requests before.
    fn is_reused(channel: &Self::Channel) -> bool;

    /// Encodes the head for a target; starts again if it was sent before. `None` if the request has
    /// no valid head.
    fn address(
        &mut self,
        channel: &mut Self::Channel,
        request: &OutboundRequest<'_>,
        target: &Target,
        span: Option<&AttemptSpan>,
    ) -> Option<()>;

    /// Whether a failure over a reused connection means that it was closed meanwhile, and the request
    /// may be sent again.
    fn is_stale(&self, failure: &Failure, method: Method) -> bool;

    /// Whether the request can be sent again; `may_process_twice` if both may be processed.
    fn may_retry(&self, reason: RetryReason, may_process_twice: bool) -> bool;

    /// The same request once more, if all of it is buffered.
    fn duplicate(&self) -> Option<Self>;

    /// The status that decides about retries.
    fn retry_status(response: &ResponseHead) -> u16;

    /// Discards a response.
    fn discard(
        &self,
        channel: Self::Channel,
        arrived: Self::Arrived,
        response: &ResponseHead,
        scope: &Scope<'_>,
    );

    /// The final response, whose body takes over the rest of the request.
    fn finish(
        self,
        channel: Self::Channel,
        arrived: Self::Arrived,
        response: &ResponseHead,
        idle: Duration,
        is_grpc: bool,
    ) -> Finished<Self::Body>;

    /// The request is not sent. The received part of its body is recorded nevertheless.
    fn abandon(&mut self);
}
