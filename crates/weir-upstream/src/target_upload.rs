//! A request to a target: the differences between HTTP/1.1 and HTTP/2 for the attempt engine.

use crate::attempt::{Failure, Scope, Upload};
use crate::{CheckOutError, Connection, OutboundRequest, Target};
use std::rc::Rc;
use std::time::Duration;
use weir_http::deadline::Deadline;
use weir_telemetry::labels::RetryReason;
use weir_telemetry::spans::AttemptSpan;
use weir_wire::{Method, ResponseHead};

/// Response of an upstream.
pub enum Finished<B> {
    /// A response, with its body.
    Response(B),
    /// 101: the connection uses another protocol, if the request `is_complete`.
    Switched {
        /// The connection.
        connection: Box<Connection>,
        /// Whether the request was sent completely.
        is_complete: bool,
    },
}

/// A request to a target. Encapsulates the differences between the protocols.
#[expect(async_fn_in_trait, reason = "a worker is one thread")]
pub trait TargetUpload: Upload + Sized {
    /// The body of its response.
    type Body;

    /// Whether a stale connection is replaced by a new one to the same target; otherwise a target
    /// is picked again. With `true`, a retry connects to one target only.
    const REOPENS: bool;

    /// Waits for a connection, or a stream on one.
    async fn check_out(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Self::Channel, CheckOutError>;

    /// A channel over a new connection.
    async fn reopen(
        target: &Rc<Target>,
        deadline: &Deadline,
    ) -> Result<Self::Channel, CheckOutError> {
        Self::check_out(target, deadline).await
    }

    /// Whether the connection has carried requests before.
    fn is_reused(channel: &Self::Channel) -> bool;

    /// Encodes the head for a target; starts again if the request was sent before. `None` if the
    /// head would be invalid.
    fn address(
        &mut self,
        channel: &mut Self::Channel,
        request: &OutboundRequest<'_>,
        target: &Target,
        span: Option<&AttemptSpan>,
    ) -> Option<()>;

    /// Whether a failure over a reused connection means that it was closed meanwhile, so that the
    /// request may be sent again.
    fn is_stale(&self, failure: &Failure, method: Method) -> bool;

    /// Whether the request can be sent again; `may_process_twice` if the retry policy permits that
    /// the target processes it twice.
    fn may_retry(&self, reason: RetryReason, may_process_twice: bool) -> bool;

    /// A copy of the request, if it is completely buffered.
    fn duplicate(&self) -> Option<Self>;

    /// The status for the retry policy.
    fn retry_status(response: &ResponseHead) -> u16;

    /// Discards a response.
    fn discard(
        &self,
        channel: Self::Channel,
        arrived: Self::Arrived,
        response: &ResponseHead,
        scope: &Scope<'_>,
    );

    /// The final response; its body takes over the rest of the request.
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
