//! Requests of weir itself: those of scripts and composed calls, fetches of key sets and tokens,
//! and mirrored requests. They are complete before they are sent.

use crate::response_body::ResponseBody;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_http::body::RequestBody;
use weir_http::deadline::Deadline;
use weir_http::headers::{self, sign, strip_hop_by_hop};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_record::transaction_id::TransactionId;
use weir_script::{Fetch, FetchedResponse};
use weir_telemetry::spans::RequestSpan;
use weir_upstream::{
    Http1Upload, Http2Upload, OpenAttempt, OutboundRequest, Outcome, Plan, SendReport, Timeouts,
    Upstream, UpstreamBody, send,
};
use weir_wire::{Headers, Known, Method, ResponseHead};

/// A request of weir itself.
pub(crate) struct OwnRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// The host, if it is not that of the target.
    pub(crate) host: Option<String>,
    /// All headers except those that frame the body.
    pub(crate) headers: Headers,
    pub(crate) body: RequestBody<'static>,
}

/// The response to a request of weir itself, with an unread body.
pub(crate) struct OwnResponse {
    head: ResponseHead,
    body: UpstreamBody<'static>,
    method: Method,
    attempt: Option<OpenAttempt>,
    deadline: Deadline,
}

/// Sends a request to an upstream over the worker's connections. The response body is limited to
/// `limit` bytes. The caller has removed headers with an underscore. `span` is the span of the
/// transaction, if that is traced.
pub(crate) async fn fetch(
    upstream: &Upstream,
    fetch: Fetch,
    id: TransactionId,
    limit: u64,
    span: Option<Rc<RequestSpan>>,
) -> Result<FetchedResponse, Rejection> {
    let mut headers = Headers::new();
    for (name, value) in &fetch.headers {
        headers.push(name, value.as_bytes());
    }
    sign(&mut headers, upstream.credential.as_ref());
    headers.push_known(Known::WeirTransactionId, id.as_bytes());
    if let Some(span) = span.as_ref().filter(|_| headers.known(Known::Traceparent).is_none()) {
        span.inject(&mut headers);
    }
    let own = OwnRequest {
        method: fetch.method,
        target: fetch.target,
        host: None,
        headers,
        body: fetch.body.map_or_else(RequestBody::empty, RequestBody::buffered),
    };
    send_own(upstream, own, fetch.timeout, span.as_ref()).await?.read(limit).await
}

/// Sends a request and waits for the head of the response. `timeout` limits the entire response.
pub(crate) async fn send_own(
    upstream: &Upstream,
    own: OwnRequest,
    timeout: Option<Duration>,
    span: Option<&Rc<RequestSpan>>,
) -> Result<OwnResponse, Rejection> {
    let OwnRequest { method, target, host, headers, body } = own;
    let deadline = Deadline::default();
    deadline.set_request(timeout.map(|timeout| Instant::now() + timeout));
    let first_byte = timeout.unwrap_or(upstream.timeouts.first_byte);
    let (name, host) = (method, host.as_deref());
    let method = Method::of(&name);
    let request = OutboundRequest::new(method, &name, &target, &headers);
    let request = OutboundRequest { host, ..request };
    let mut report = SendReport::default();
    let mut head = ResponseHead::default();
    let plan = Plan {
        request,
        upstream,
        key: None,
        timeouts: Timeouts { first_byte, ..upstream.timeouts },
        deadline: &deadline,
        retries: false,
        interim: None,
        span,
        times: None,
        report: &mut report,
    };
    let sent = match upstream.speaks_http2() {
        false => send(plan, Http1Upload::new(body), &mut head).await,
        true => Box::pin(send(plan, Http2Upload::new(body, || None), &mut head)).await,
    };
    match sent {
        Ok(Outcome::Response(body)) => {
            Ok(OwnResponse { head, body, method, attempt: report.open, deadline })
        }
        Ok(Outcome::Switched { .. }) => Err(Problem::UpstreamProtocolError.into()),
        Err(rejection) => {
            if let Some(attempt) = report.open {
                attempt.end(method, rejection.problem.slug(), Instant::now());
            }
            Err(rejection)
        }
    }
}

impl OwnResponse {
    /// The response with its body, of at most `limit` bytes.
    async fn read(self, limit: u64) -> Result<FetchedResponse, Rejection> {
        let Self { head, body, method, attempt, deadline } = self;
        let read = ResponseBody::Upstream(body).read_all(&deadline, limit).await;
        end(attempt, method, &read);
        Ok(fetched(head, read?))
    }

    /// Reads and discards the body, up to about `most` bytes.
    pub(crate) async fn discard(mut self, most: u64) -> Result<(), Rejection> {
        let read = self.body.discard(&self.deadline, most).await.map_err(Rejection::from);
        end(self.attempt, self.method, &read);
        read.map(|_| ())
    }
}

fn end<T>(attempt: Option<OpenAttempt>, method: Method, read: &Result<T, Rejection>) {
    if let Some(attempt) = attempt {
        let error = read.as_ref().err().map_or("", |rejection| rejection.problem.slug());
        attempt.end(method, error, Instant::now());
    }
}

fn fetched(mut head: ResponseHead, body: Vec<u8>) -> FetchedResponse {
    strip_hop_by_hop(&mut head.headers, |_| false);
    FetchedResponse { status: head.status, headers: headers::pairs(&head.headers).collect(), body }
}
