//! Mirroring: copies of requests for other upstreams, with discarded responses.
//!
//! ```text
//! when → sampling → permit → head, bytes of the body as they pass → body complete → sent
//! ```
//!
//! A copy is sent by a separate task once the request is complete, so mirroring never delays the
//! request. The memory of copies is bounded by permits and body sizes.

use super::target;
use crate::context::Context;
use crate::fetch::{OwnRequest, send_own};
use crate::handler::HandlerInput;
use crate::worker::{Live, Worker};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use weir_config::{Mirror, Protocol, Proxy};
use weir_http::body::{BodyTap, RequestBody};
use weir_http::headers::{drop_underscored, sign};
use weir_model::UpstreamId;
use weir_record::client_request::ClientRequest;
use weir_telemetry::labels::Mirrored;
use weir_wire::{Framing, Headers};

/// Header of a mirrored request.
const HEADER: &str = "weir-mirrored";
/// Maximum number of response bytes read.
const MAX_BODY_BYTES: u64 = 1024 * 1024;

/// The mirrors of a proxy that match a request. Sampling follows later.
pub(super) fn select(proxy: &Proxy, request: &ClientRequest<'_>) -> Vec<usize> {
    let is_eligible = |index: &usize| match &proxy.mirrors[*index].when {
        Some(when) => when.holds(&request.scope()),
        None => true,
    };
    (0..proxy.mirrors.len()).filter(is_eligible).collect()
}

/// Starts copies of a request whose headers are converted to the upstream's, without the
/// credential.
pub(super) fn start(
    input: &mut HandlerInput<'_>,
    proxy: &Proxy,
    is_call: bool,
    body: &mut RequestBody<'_>,
) {
    let framing = body.framing();
    let mut copies = Vec::new();
    for index in &input.context.decisions.selection.mirrors {
        let mirror = &proxy.mirrors[*index];
        if fastrand::u32(..10_000) < mirror.part
            && let Some(permit) = Permit::take(&input.context, mirror, framing)
        {
            copies.push(MirroredRequest::new(input, proxy, mirror, permit, is_call));
        }
    }
    if !copies.is_empty() {
        let bytes = (framing != Framing::None).then(Vec::new);
        let pending = RefCell::new(Some(Pending { bytes, copies }));
        body.mirror(Rc::new(MirrorTap(pending)));
    }
}

/// A permit for a copy; released, and the outcome counted, when dropped.
struct Permit {
    worker: &'static Worker,
    taken: Rc<Cell<usize>>,
    outcome: Mirrored,
}

impl Permit {
    /// `None`, which is counted, without a free permit or if the body is too long.
    fn take(context: &Context<'_>, mirror: &Mirror, framing: Framing) -> Option<Self> {
        let taken = &context.live.upstreams[mirror.upstream.0].mirrored;
        let not = if framing.length().is_some_and(|length| length > mirror.body as u64) {
            Mirrored::TooLarge
        } else if taken.get() >= mirror.in_flight {
            Mirrored::Busy
        } else {
            taken.set(taken.get() + 1);
            return Some(Self {
                worker: context.worker,
                taken: Rc::clone(taken),
                outcome: Mirrored::Incomplete,
            });
        };
        context.worker.stats.mirrored[not as usize].add(1);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.taken.set(self.taken.get() - 1);
        self.worker.stats.mirrored[self.outcome as usize].add(1);
    }
}

/// A mirrored request without its body.
struct MirroredRequest {
    permit: Permit,
    live: Rc<Live>,
    upstream: UpstreamId,
    /// Maximum number of body bytes.
    max_bytes: usize,
    timeout: Duration,
    request: OwnRequest,
}

impl MirroredRequest {
    fn new(
        input: &mut HandlerInput<'_>,
        proxy: &Proxy,
        mirror: &Mirror,
        permit: Permit,
        is_call: bool,
    ) -> Self {
        let HandlerInput { context, request, recording, notes, .. } = input;
        let settings = &context.config().upstreams[mirror.upstream.0];
        if recording.is_shown() {
            let notes = notes.get_or_insert_default();
            notes.properties.push(("mirrored_to".to_owned(), settings.name.clone()));
        }
        let mut headers: Headers = request.headers.clone();
        // Headers allowed for the upstream are not necessarily allowed for the mirror.
        let dropped = drop_underscored(&mut headers, &settings.underscores_in_headers);
        context.worker.stats.dropped_headers.add(dropped);
        sign(&mut headers, settings.credential.as_ref());
        headers.set(HEADER, b"1");
        if is_call && settings.protocol == Protocol::Http2 {
            headers.push("te", b"trailers");
        }
        let target = target::target(&context.view(request), proxy);
        let request = OwnRequest {
            method: request.method_name().to_owned(),
            target: target.unwrap_or_else(|| request.target().to_owned()),
            host: target::host(request.authority(), proxy).map(str::to_owned),
            headers,
            body: RequestBody::empty(),
        };
        Self {
            permit,
            upstream: mirror.upstream,
            max_bytes: mirror.body,
            timeout: mirror.timeout,
            request,
            live: Rc::clone(context.live),
        }
    }

    /// Sends the request, and discards the response.
    async fn send(self) {
        let Self { mut permit, live, upstream, timeout, request, .. } = self;
        permit.outcome = Mirrored::Failed;
        let upstream = &live.upstreams[upstream.0];
        let sent = send_own(upstream, request, Some(timeout), None).await;
        let Ok(response) = sent else { return };
        if response.discard(MAX_BODY_BYTES).await.is_ok() {
            permit.outcome = Mirrored::Sent;
        }
    }
}

/// Mirrored requests whose body is incomplete.
struct MirrorTap(RefCell<Option<Pending>>);

struct Pending {
    /// Received bytes of the body; `None` without a body.
    bytes: Option<Vec<u8>>,
    copies: Vec<MirroredRequest>,
}

impl BodyTap for MirrorTap {
    /// Drops copies whose body has become too long.
    fn pass(&self, data: &[u8]) {
        let mut pending = self.0.borrow_mut();
        let Some(Pending { bytes: Some(bytes), copies }) = pending.as_mut() else { return };
        let length = bytes.len() + data.len();
        copies.retain_mut(|copy| {
            let fits = length <= copy.max_bytes;
            if !fits {
                copy.permit.outcome = Mirrored::TooLarge;
            }
            fits
        });
        if copies.is_empty() {
            *pending = None;
        } else {
            bytes.extend_from_slice(data);
        }
    }

    /// The body is complete: sends the copies.
    fn end(&self) {
        let Some(Pending { bytes, copies }) = self.0.take() else { return };
        for mut copy in copies {
            if let Some(bytes) = &bytes {
                copy.request.body = RequestBody::buffered(bytes.clone());
            }
            tokio::task::spawn_local(copy.send());
        }
    }

    fn aborted(&self) {}
}
