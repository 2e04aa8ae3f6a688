//! A transaction as its observers read it: the record, the access log, spans and statistics.

use crate::client_request::ClientRequest;
use crate::redaction::{BodySettings, Redaction};
use crate::transaction_id::TransactionId;
use std::rc::Rc;
use std::time::Duration;
use weir_http::headers;
use weir_http::problem::Problem;
use weir_model::{Annotations, Attempt};
use weir_telemetry::labels::method_label;
use weir_telemetry::spans::{RequestSpan, TracedRequest, truncate};
use weir_wire::ResponseHead;

/// The properties of a transaction that are known at this point.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// Its id.
    pub id: &'a TransactionId,
    /// Microseconds since 1970 when the request arrived.
    pub received_us: u64,
    /// The request.
    pub request: ClientRequest<'a>,
    /// HTTP version as in `Via`.
    pub version: &'static str,
    /// Head of the response.
    pub response: &'a ResponseHead,
    /// Bytes of the response's body that were sent.
    pub sent: u64,
    /// The problem of a local reply.
    pub problem: Option<Problem>,
    /// Recorded reason of the problem.
    pub reason: Option<&'a str>,
    /// Name of the handler's upstream or pool; empty without one.
    pub upstream: &'a str,
    /// The upstream's target whose response the client got, or of the last attempt; empty without one. Known at
    /// the end only, as `attempts` are.
    pub upstream_target: &'a str,
    /// The attempts that gave the client no response.
    pub attempts: &'a [Attempt],
    /// Digest of the configuration that handles it, its first 12 digits.
    pub configuration: &'a str,
    /// Number of retries.
    pub retries: u32,
    /// Annotations by scripts and stages.
    pub notes: Option<&'a Annotations>,
    /// The original transaction, if this one is a resubmission.
    pub resubmission_of: Option<[u8; 16]>,
    /// Redaction of headers and targets.
    pub redaction: &'a Redaction,
    /// Redaction of bodies.
    pub bodies: &'a Rc<BodySettings>,
}

impl Transaction<'_> {
    /// The span of the transaction, with its duration.
    pub fn traced(
        &self,
        span: &RequestSpan,
        duration: Duration,
        error: &'static str,
        aborted: bool,
    ) -> TracedRequest {
        let Self { request, .. } = self;
        let (head, span) = (request.head, span.finish());
        let state = head.headers.get("tracestate").filter(|_| span.parent != 0);
        TracedRequest {
            state: truncate(&headers::text(state.unwrap_or_default())),
            start_ns: self.received_us.saturating_mul(1000),
            duration,
            method: truncate(head.method_name()),
            method_label: method_label(head.method),
            path: truncate(head.path()),
            scheme: if request.client.https { "https" } else { "http" },
            protocol: self.version,
            host: truncate(request.host),
            client: request.client.address.to_string(),
            route: request.pattern(),
            api: request.api.map(|api| api.name.clone()).unwrap_or_default(),
            operation: request.route.map(|route| route.operation.clone()).unwrap_or_default(),
            consumer: request.consumer_name().map(str::to_owned),
            transaction: self.id.as_str().to_owned(),
            status: self.response.status,
            error,
            aborted,
            ..span
        }
    }
}
