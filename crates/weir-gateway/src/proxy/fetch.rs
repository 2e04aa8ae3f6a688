//! A request that a script makes: whole when it is sent, its answer whole when it is given.

use super::sending::Sending;
use super::{Choice, Limits, UpstreamBody, connect, failed, http2, not_connected, send_and_wait};
use crate::body::{Body, RequestBody};
use crate::deadline::Deadline;
use crate::exchange::TransactionId;
use crate::headers::strip_hop_by_hop;
use crate::outgoing::Outgoing;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::stats::Again;
use crate::upstream::{Call, Connection, Target, Upstream};
use crate::worker::Live;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::rc::Rc;
use std::time::Instant;
use weir_config::{Protocol, UpstreamId};
use weir_script::{Fetch, Fetched};
use weir_wire::{Framing, Method, ResponseHead, encode};

/// Sends a request to an upstream over the worker's own connections. Its answer has at most
/// `limit` bytes of body.
pub(crate) async fn fetch(
    live: &Live,
    upstream: UpstreamId,
    mut fetch: Fetch,
    id: TransactionId,
    limit: u64,
) -> Result<Fetched, Refusal> {
    let settings = &live.site.config.upstreams[upstream.0];
    let deadline = Deadline::default();
    let started = Instant::now();
    if let Some(timeout) = fetch.timeout {
        deadline.set_request(Some(started + timeout));
    }
    let limits = Limits {
        first_byte: fetch.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    let method = Method::of(&fetch.method);
    if settings.protocol == Protocol::Http2 {
        let upstream = &live.upstreams[upstream.0];
        return Box::pin(by_stream(settings, upstream, fetch, id, limit, &deadline, limits)).await;
    }
    let upstream = &live.upstreams[upstream.0];
    let mut choice = Choice { upstream, key: None, tried: Vec::new(), span: None };
    let (target, mut connection) = connect(&deadline, method, started, &mut choice).await?;
    if let Some(credential) = &settings.credential {
        fetch.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&credential.header));
        fetch.headers.push((credential.header.clone(), credential.value.clone()));
    }
    let body = fetch.body.take().map_or_else(RequestBody::empty, RequestBody::whole);
    let out = head(&fetch, &target, &body, id);
    let mut sending = Sending::new(out, body);
    let mut call = Call::new(Rc::clone(&target), started, None);
    let mut response = ResponseHead::default();
    let sent = attempt(&target, connection, &mut sending, method, &mut response, &deadline, limits);
    connection = match sent.await {
        Ok(connection) => connection,
        Err(refusal) => {
            call.end(method, refusal.problem.slug(), Instant::now());
            return Err(refusal);
        }
    };
    call.answered(response.status);
    let mut body = Body::Upstream(UpstreamBody::new(connection, sending, &response, limits.idle));
    let read = body.read_whole(&deadline, limit).await;
    let error = read.as_ref().err().map_or("", |refusal| refusal.problem.slug());
    call.end(method, error, Instant::now());
    Ok(fetched(response, read?))
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
    fetch: Fetch,
    id: TransactionId,
    limit: u64,
    deadline: &Deadline,
    limits: Limits,
) -> Result<Fetched, Refusal> {
    let target = upstream.choose(&[], None).ok_or(Problem::UpstreamUnreachable)?;
    let (target, scheme) = (&upstream.targets[target], settings.targets[0].scheme);
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &[u8]| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    };
    let credential = settings.credential.as_ref();
    for (name, value) in &fetch.headers {
        if !credential.is_some_and(|own| own.header.eq_ignore_ascii_case(name)) {
            put(name, value.as_bytes());
        }
    }
    if let Some(own) = credential {
        put(&own.header, own.value.as_bytes());
    }
    put("weir-transaction-id", id.as_bytes());
    let authority = &target.authority;
    let head = http2::head_of(&fetch.method, scheme, authority, &fetch.target, headers);
    let body = fetch.body.map_or_else(RequestBody::empty, RequestBody::whole);
    let mut call = Call::new(Rc::clone(target), Instant::now(), None);
    let (method, mut response) = (Method::of(&fetch.method), ResponseHead::default());
    let head = head.ok_or(Problem::Internal)?;
    let asked = http2::once(target, head, body, &mut response, deadline, limits).await;
    let read = match asked {
        Ok(mut body) => {
            call.answered(response.status);
            body.read_whole(deadline, limit).await
        }
        Err(refusal) => Err(refusal),
    };
    let error = read.as_ref().err().map_or("", |refusal| refusal.problem.slug());
    call.end(method, error, Instant::now());
    Ok(fetched(response, read?))
}

/// As that of a client's request is sent: once more over a fresh connection when a kept one turns
/// out to be closed and that does no harm.
async fn attempt(
    target: &Rc<Target>,
    mut connection: Box<Connection>,
    sending: &mut Sending<'_>,
    method: Method,
    response: &mut ResponseHead,
    deadline: &Deadline,
    limits: Limits,
) -> Result<Box<Connection>, Refusal> {
    loop {
        let sent =
            send_and_wait(&mut connection, sending, method, response, deadline, limits, None).await;
        let Err(failure) = sent else { return Ok(connection) };
        let stale =
            connection.reused && matches!(failure, super::Failure::Closed { answered: false });
        if !(stale && sending.may_repeat(method)) {
            return Err(failed(target, failure).refusal);
        }
        drop(connection);
        target.stats.sent_again(Again::Stale);
        connection = target.take_fresh(deadline).await.map_err(|e| not_connected(target, e))?;
        sending.rewind();
    }
}

fn head(fetch: &Fetch, target: &Target, body: &RequestBody<'_>, id: TransactionId) -> Outgoing {
    let mut out = Outgoing::default();
    let head = out.head();
    encode::request_line(head, &fetch.method, &fetch.target);
    encode::field(head, "host", target.authority.as_bytes());
    for (name, value) in &fetch.headers {
        encode::field(head, name, value.as_bytes());
    }
    encode::field(head, "weir-transaction-id", id.as_bytes());
    if let Framing::Length(length) = body.framing() {
        encode::content_length(head, length);
    }
    head.extend_from_slice(b"\r\n");
    out
}
