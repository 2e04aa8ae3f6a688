//! Active health checks: weir's own requests that probe targets.
//!
//! A target has at most one check at a time in the process, run by the first worker that finds it
//! due. Over HTTP/1.1 each check opens a connection, as a keep-alive connection may outlive a
//! server that accepts no new ones.

use super::attempt::attempt;
use super::target_upload::{Finished, TargetUpload};
use super::{
    CheckOutError, Health, Http1Upload, Http2Upload, OutboundRequest, Scope, Target, Timeouts,
    Upstream, UpstreamBody,
};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weir_config::{Check, Credential};
use weir_http::body::RequestBody;
use weir_http::deadline::Deadline;
use weir_wire::{Headers, Method, ResponseHead};

/// Maximum number of bytes of a response that are read.
const MAX_BODY_BYTES: u64 = 64 * 1024;

/// A running check. However it ends, the next one can start.
struct Running(Arc<Health>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.finish_check();
    }
}

/// Starts the checks of an upstream that are due.
pub fn start_due(upstream: &Upstream, check: &Check) {
    let now = Instant::now();
    for target in upstream.targets.iter().filter(|one| one.health.may_check(check, now)) {
        let (target, check) = (Rc::clone(target), check.clone());
        let credential = upstream.credential.clone();
        let running = Running(Arc::clone(&target.health));
        tokio::task::spawn_local(async move {
            let probed = async {
                let (body, credential) = (RequestBody::empty(), credential.as_ref());
                match target.speaks_http2() {
                    true => {
                        let upload = Http2Upload::new(body, || None);
                        probe(upload, &target, &check, credential).await
                    }
                    false => probe(Http1Upload::new(body), &target, &check, credential).await,
                }
            };
            let passed = tokio::time::timeout(check.timeout, probed).await.unwrap_or(Some(false));
            running.0.checked(&check, passed, Instant::now());
        });
    }
}

/// Whether a target is healthy; `None` if all connections to it are in use.
async fn probe<U: TargetUpload<Body: Into<UpstreamBody<'static>>>>(
    mut upload: U,
    target: &Rc<Target>,
    check: &Check,
    credential: Option<&Credential>,
) -> Option<bool> {
    let deadline = Deadline::default();
    let mut channel = match U::reopen(target, &deadline).await {
        Ok(channel) => channel,
        Err(CheckOutError::Busy) => return None,
        Err(CheckOutError::Connect(_) | CheckOutError::TimedOut(_)) => return Some(false),
    };
    let mut headers = Headers::new();
    headers.push("user-agent", b"weir-health-check");
    if !target.speaks_http2() {
        headers.push("connection", b"close");
    }
    if let Some(own) = credential {
        headers.push(&own.header, own.value.as_bytes());
    }
    let request = OutboundRequest::new(Method::Get, "GET", &check.path, &headers);
    upload.address(&mut channel, &request, target, None)?;
    let timeouts = Timeouts { first_byte: check.timeout, idle: check.timeout };
    let (method, deadline) = (Method::Get, &deadline);
    let scope = Scope { method, deadline, timeouts, upgrade: false, interim: None };
    let mut response = ResponseHead::default();
    let attempted = attempt(&mut channel, &mut upload, &mut response, &scope).await;
    let Ok(arrived) = attempted else { return Some(false) };
    if !is_healthy(check, response.status) {
        return Some(false);
    }
    let outcome = upload.finish(channel, arrived, &response, check.timeout, false);
    let Finished::Response(body) = outcome else { return Some(false) };
    let length = response.framing.length();
    if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        // The status is sufficient; the body need not be complete.
        return Some(true);
    }
    let mut body: UpstreamBody<'_> = body.into();
    let count = body.discard(deadline, MAX_BODY_BYTES).await;
    Some(
        count.is_ok_and(|count| {
            count <= MAX_BODY_BYTES && length.is_none_or(|length| count == length)
        }),
    )
}

fn is_healthy(check: &Check, status: u16) -> bool {
    match check.statuses.as_slice() {
        [] => (200..300).contains(&status),
        statuses => statuses.contains(&status),
    }
}
