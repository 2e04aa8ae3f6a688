//! Active health checks: requests of weir's own that probe targets.
//!
//! One checker a process: whichever worker sees that a check is due takes it. Each goes over a
//! connection of its own, since one that is kept may outlive a server that accepts no others.

use crate::body::RequestBody;
use crate::deadline::Deadline;
use crate::outgoing::Outgoing;
use crate::proxy::sending::Sending;
use crate::proxy::{Limits, UpstreamBody, http2, send_and_wait};
use crate::response_body::Body;
use crate::upstream::{Health, TakeError, Target};
use crate::worker::Live;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weir_config::{Check, Credential, Protocol, Scheme};
use weir_wire::{Method, ResponseHead, encode};

/// Most bytes of an answer that are looked at.
const BYTES: u64 = 64 * 1024;

/// A check under way; whatever becomes of it, another may follow.
struct Turn(Arc<Health>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.check_is_over();
    }
}

/// Starts the checks that are due.
pub(crate) fn start(live: &Rc<Live>) {
    let now = Instant::now();
    for (upstream, config) in live.upstreams.iter().zip(&live.site.config.upstreams) {
        let Some(check) = &config.health.check else { continue };
        for target in upstream.targets.iter().filter(|one| one.health.may_check(check, now)) {
            let (target, check) = (Rc::clone(target), check.clone());
            let credential = config.credential.clone();
            let scheme = (config.protocol == Protocol::Http2).then(|| config.targets[0].scheme);
            let turn = Turn(Arc::clone(&target.health));
            tokio::task::spawn_local(async move {
                let credential = credential.as_ref();
                let asked = async {
                    match scheme {
                        Some(scheme) => ask_by_stream(&target, &check, credential, scheme).await,
                        None => ask(&target, &check, credential).await,
                    }
                };
                let good = tokio::time::timeout(check.timeout, asked).await.unwrap_or(Some(false));
                turn.0.checked(&check, good, Instant::now());
            });
        }
    }
}

/// Whether a target says that it is well; `None` if there is no place for a connection to it.
async fn ask(target: &Rc<Target>, check: &Check, credential: Option<&Credential>) -> Option<bool> {
    let deadline = Deadline::default();
    let mut connection = match target.take_fresh(&deadline).await {
        Ok(connection) => connection,
        Err(TakeError::Busy) => return None,
        Err(TakeError::Connect(_) | TakeError::Late(_)) => return Some(false),
    };
    let mut sending = Sending::new(head(target, check, credential), RequestBody::empty());
    let limits = Limits { first_byte: check.timeout, idle: check.timeout, upgrade: false };
    let mut response = ResponseHead::default();
    let answered = send_and_wait(
        &mut connection,
        &mut sending,
        Method::Get,
        &mut response,
        &deadline,
        limits,
        None,
    );
    if answered.await.is_err() || !is_good(check, response.status) {
        return Some(false);
    }
    let length = response.framing.length();
    let body = UpstreamBody::unwatched(connection, &response, check.timeout);
    if length.is_some_and(|length| length > BYTES) {
        // The head says enough.
        return Some(true);
    }
    let read = Body::Upstream(body).read_whole(&deadline, BYTES).await;
    Some(read.is_ok_and(|body| length.is_none_or(|length| body.len() as u64 == length)))
}

/// The same by HTTP/2, over a connection that requests go over, too.
async fn ask_by_stream(
    target: &Rc<Target>,
    check: &Check,
    credential: Option<&Credential>,
    scheme: Scheme,
) -> Option<bool> {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static("weir-health-check"));
    if let Some(own) = credential
        && let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(own.header.as_bytes()), HeaderValue::from_str(&own.value))
    {
        headers.insert(name, value);
    }
    let head = http2::head_of("GET", scheme, &target.authority, &check.path, headers)?;
    let (deadline, mut response) = (Deadline::default(), ResponseHead::default());
    let limits = Limits { first_byte: check.timeout, idle: check.timeout, upgrade: false };
    let body = RequestBody::empty();
    let asked = http2::once(target, head, body, &mut response, &deadline, limits).await;
    let Ok(mut body) = asked else { return Some(false) };
    Some(is_good(check, response.status) && body.read_whole(&deadline, BYTES).await.is_ok())
}

fn is_good(check: &Check, status: u16) -> bool {
    match check.statuses.as_slice() {
        [] => (200..300).contains(&status),
        statuses => statuses.contains(&status),
    }
}

fn head(target: &Target, check: &Check, credential: Option<&Credential>) -> Outgoing {
    let mut out = Outgoing::default();
    let head = out.head();
    encode::request_line(head, "GET", &check.path);
    encode::field(head, "host", target.authority.as_bytes());
    encode::field(head, "user-agent", b"weir-health-check");
    encode::field(head, "connection", b"close");
    if let Some(credential) = credential {
        encode::field(head, &credential.header, credential.value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    out
}
