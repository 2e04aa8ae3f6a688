//! Requests of weir's own: those that scripts make, those of logins and keys, and copies. Whole when
//! they are sent.

use super::sending::Sending;
use super::{Asking, Choice, Limits, Lost, UpstreamBody, attempt, connect, head, http2};
use crate::body::RequestBody;
use crate::deadline::Deadline;
use crate::headers::strip_hop_by_hop;
use crate::outgoing::Outgoing;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::response_body::Body;
use crate::spans::{Open, TrySpan};
use crate::transaction_id::TransactionId;
use crate::upstream::{Call, Upstream};
use crate::worker::Live;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_config::{Protocol, UpstreamId};
use weir_script::{Fetch, Fetched};
use weir_wire::{Headers, Known, Method, ResponseHead, encode};

/// A request of weir's own.
pub(super) struct Own {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// The host that is asked for, if that is not the target's.
    pub(super) host: Option<String>,
    /// All but what frames the body.
    pub(super) headers: Headers,
    pub(super) body: RequestBody<'static>,
    /// Its span, if it is traced.
    pub(super) span: Option<TrySpan>,
}

/// The answer to one, its body still to be read.
pub(super) struct Answered {
    response: ResponseHead,
    body: Body<'static>,
    method: Method,
    call: Call,
    deadline: Deadline,
}

/// Sends a request to an upstream over the worker's own connections. Its answer has at most
/// `limit` bytes of body. The caller has seen to headers with an underscore. `span` is that of the request that it is for, if that is traced.
pub(crate) async fn fetch(
    live: &Live,
    upstream: UpstreamId,
    fetch: Fetch,
    id: TransactionId,
    limit: u64,
    span: Option<Rc<Open>>,
) -> Result<Fetched, Refusal> {
    let mut headers = Headers::new();
    for (name, value) in &fetch.headers {
        headers.push(name, value.as_bytes());
    }
    head::sign(&mut headers, live.site.config.upstreams[upstream.0].credential.as_ref());
    headers.push_known(Known::WeirTransactionId, id.as_bytes());
    let span = span.map(|open| open.own_try(&fetch.target, &mut headers));
    let own = Own {
        span,
        method: fetch.method,
        target: fetch.target,
        host: None,
        headers,
        body: fetch.body.map_or_else(RequestBody::empty, RequestBody::whole),
    };
    ask(live, upstream, own, fetch.timeout).await?.whole(limit).await
}

/// Sends a request and waits for the head of its answer; `timeout` is for the whole of it.
pub(super) async fn ask(
    live: &Live,
    upstream: UpstreamId,
    own: Own,
    timeout: Option<Duration>,
) -> Result<Answered, Refusal> {
    let settings = &live.site.config.upstreams[upstream.0];
    let upstream = &live.upstreams[upstream.0];
    let deadline = Deadline::default();
    deadline.set_request(timeout.map(|timeout| Instant::now() + timeout));
    let limits = Limits {
        first_byte: timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    if settings.protocol == Protocol::Http2 {
        return Box::pin(by_stream(settings, upstream, own, deadline, limits)).await;
    }
    let (method, started) = (Method::of(&own.method), Instant::now());
    let mut choice = Choice { upstream, key: None, tried: Vec::new(), span: None };
    let (target, connection) = connect(&deadline, method, started, &mut choice).await?;
    let mut out = Outgoing::default();
    let head = out.head();
    encode::request_line(head, &own.method, &own.target);
    let host = own.host.as_deref().unwrap_or(&target.authority);
    encode::field(head, "host", host.as_bytes());
    head::finish(head, &own.headers, own.body.framing());
    let mut sending = Sending::new(out, own.body);
    let mut call = Call::traced(Rc::clone(&target), started, own.span);
    let mut response = ResponseHead::default();
    let asking = Asking {
        method,
        deadline: &deadline,
        limits,
        retrying: None,
        pass_on: None,
        repeats: Cell::new(0),
    };
    match attempt(&asking, &target, connection, &mut sending, &mut response).await {
        Ok(connection) => {
            call.answered(response.status);
            let body = UpstreamBody::new(connection, sending, &response, limits.idle);
            Ok(Answered { response, body: Body::Upstream(body), method, call, deadline })
        }
        Err(Lost { refusal, .. }) => {
            call.end(method, refusal.problem.slug(), Instant::now());
            Err(refusal)
        }
    }
}

impl Answered {
    /// The answer, with at most `limit` bytes of body.
    async fn whole(mut self, limit: u64) -> Result<Fetched, Refusal> {
        let read = self.body.read_whole(&self.deadline, limit).await;
        let Self { response, method, call, .. } = self;
        call.end(method, slug_of(&read), Instant::now());
        Ok(fetched(response, read?))
    }

    /// Reads up to so many bytes of its body for nobody.
    pub(super) async fn discard(mut self, most: u64) -> Result<(), Refusal> {
        let mut left = most;
        let read = loop {
            match poll_fn(|cx| self.body.poll_data(cx, &self.deadline)).await {
                Ok(true) if left > 0 => {
                    left = left.saturating_sub(self.body.take(PIECE).len() as u64)
                }
                Ok(_) => break Ok(()),
                Err(error) => break Err(Refusal::from(error)),
            }
        };
        self.call.end(self.method, slug_of(&read), Instant::now());
        read
    }
}

/// Most bytes that are thrown away at once.
const PIECE: usize = 64 * 1024;

fn slug_of<T>(read: &Result<T, Refusal>) -> &'static str {
    read.as_ref().err().map_or("", |refusal| refusal.problem.slug())
}

fn fetched(mut response: ResponseHead, body: Vec<u8>) -> Fetched {
    strip_hop_by_hop(&mut response.headers, |_| false);
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers = response.headers.iter();
    let headers = headers.map(|(_, name, value)| (name.to_ascii_lowercase(), text(value)));
    Fetched { status: response.status, headers: headers.collect(), body }
}

/// The same by HTTP/2.
async fn by_stream(
    settings: &weir_config::Upstream,
    upstream: &Upstream,
    own: Own,
    deadline: Deadline,
    limits: Limits,
) -> Result<Answered, Refusal> {
    let target = upstream.choose(&[], None).ok_or(Problem::UpstreamUnreachable)?;
    let (target, scheme) = (&upstream.targets[target], settings.targets[0].scheme);
    let headers = http2::headers_of(&own.headers).ok_or(Problem::Internal)?;
    let host = own.host.as_deref().unwrap_or(&target.authority);
    let head = http2::head_of(&own.method, scheme, host, &own.target, headers);
    let head = head.ok_or(Problem::Internal)?;
    let mut call = Call::traced(Rc::clone(target), Instant::now(), own.span);
    let (method, mut response) = (Method::of(&own.method), ResponseHead::default());
    match http2::once(target, head, own.body, &mut response, &deadline, limits).await {
        Ok(body) => {
            call.answered(response.status);
            Ok(Answered { response, body, method, call, deadline })
        }
        Err(refusal) => {
            call.end(method, refusal.problem.slug(), Instant::now());
            Err(refusal)
        }
    }
}
