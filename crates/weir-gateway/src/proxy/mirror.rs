//! Mirroring: copies of requests for other upstreams, whose responses are discarded.
//!
//! ```text
//! when → sampling → permit → head, bytes of the body as they pass → body complete → sent
//! ```
//!
//! A copy is sent by a task of its own once the request is complete, so the request itself never waits
//! for it. Memory for copies is bounded by their permits and the size of their bodies.

use super::head;
use crate::body::{BodyTap, RequestBody};
use crate::exchange::Exchange;
use crate::fetch::{OwnRequest, send_own};
use crate::grpc;
use crate::headers::{drop_underscored, sign};
use crate::labels::Mirrored;
use crate::worker::{Live, Worker};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use weir_config::{Mirror, Protocol, Proxy, Route, UpstreamId};
use weir_wire::{Framing, Headers};

/// Header of a mirrored request.
const HEADER: &str = "weir-mirrored";
/// Most bytes of a response that are read.
const MAX_BODY_BYTES: u64 = 1024 * 1024;

/// The mirrors of a proxy that this request is for, by its head; what is drawn by lot is not drawn
/// yet.
pub(crate) fn meant(exchange: &Exchange, proxy: &Proxy) -> Vec<usize> {
    // What is sent again has been copied, or not.
    if proxy.mirrors.is_empty() || exchange.resubmission.is_some() {
        return Vec::new();
    }
    let is_meant = |mirror: &Mirror| match &mirror.when {
        Some(when) => when.holds(&exchange.view().scope()),
        None => true,
    };
    (0..proxy.mirrors.len()).filter(|index| is_meant(&proxy.mirrors[*index])).collect()
}

/// Turns the client's headers into the upstream's and begins copies, which are to be the same but
/// for the credential that goes with them.
pub(super) fn prepare(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    passed: &[String],
    body: &mut RequestBody<'_>,
) {
    let trailers = grpc::is_call(&exchange.request.headers);
    head::prepare(exchange, route, Some(&proxy.headers), passed);
    let framing = body.framing();
    let mut copies = Vec::new();
    for index in std::mem::take(&mut exchange.mirrors) {
        let mirror = &proxy.mirrors[index];
        if fastrand::u32(..10_000) < mirror.part
            && let Some(place) = Place::take(exchange, mirror, framing)
        {
            copies.push(Draft::new(exchange, proxy, mirror, place, trailers));
        }
    }
    if !copies.is_empty() {
        let bytes = (framing != Framing::None).then(Vec::new);
        let pending = RefCell::new(Some(Pending { bytes, copies }));
        body.mirror(Rc::new(MirrorTap(pending)));
    }
}

/// A place for a copy; given up, and what came of it counted, when dropped.
struct Place {
    worker: &'static Worker,
    taken: Rc<Cell<usize>>,
    outcome: Mirrored,
}

impl Place {
    /// `None`, which is counted, if there is none or the body is known to be too long.
    fn take(exchange: &Exchange, mirror: &Mirror, framing: Framing) -> Option<Self> {
        let taken = &exchange.live().upstreams[mirror.upstream.0].mirrored;
        let not = if framing.length().is_some_and(|length| length > mirror.body as u64) {
            Mirrored::TooLarge
        } else if taken.get() >= mirror.in_flight {
            Mirrored::Busy
        } else {
            taken.set(taken.get() + 1);
            return Some(Self {
                worker: exchange.worker,
                taken: Rc::clone(taken),
                outcome: Mirrored::Incomplete,
            });
        };
        exchange.worker.stats.mirrored[not as usize].add(1);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.set(self.taken.get() - 1);
        self.worker.stats.mirrored[self.outcome as usize].add(1);
    }
}

/// A copy but for its body.
struct Draft {
    place: Place,
    live: Rc<Live>,
    upstream: UpstreamId,
    /// Most bytes of its body.
    most: usize,
    timeout: Duration,
    request: OwnRequest,
}

impl Draft {
    fn new(
        exchange: &mut Exchange,
        proxy: &Proxy,
        mirror: &Mirror,
        place: Place,
        trailers: bool,
    ) -> Self {
        let live = Rc::clone(exchange.live());
        let settings = &live.site.config.upstreams[mirror.upstream.0];
        if exchange.recording.is_shown() {
            let notes = exchange.notes.get_or_insert_default();
            notes.properties.push(("mirrored_to".to_owned(), settings.name.clone()));
        }
        let mut headers: Headers = exchange.request.headers.clone();
        // What goes to the upstream itself need not go here.
        let dropped = drop_underscored(&mut headers, &settings.underscores_in_headers);
        exchange.worker.stats.dropped_headers.add(dropped);
        sign(&mut headers, settings.credential.as_ref());
        headers.set(HEADER, b"1");
        if trailers && settings.protocol == Protocol::Http2 {
            headers.push("te", b"trailers");
        }
        let target = head::target(exchange, proxy);
        let request = OwnRequest {
            method: exchange.request.method_name().to_owned(),
            target: target.unwrap_or_else(|| exchange.request.target().to_owned()),
            host: head::host(exchange.request.authority(), proxy).map(str::to_owned),
            headers,
            body: RequestBody::empty(),
        };
        let (upstream, most, timeout) = (mirror.upstream, mirror.body, mirror.timeout);
        Self { place, upstream, most, timeout, request, live }
    }

    /// Sends it, and throws its answer away.
    async fn send(self) {
        let Self { mut place, live, upstream, timeout, request, .. } = self;
        place.outcome = Mirrored::Failed;
        let upstream = &live.upstreams[upstream.0];
        let sent = send_own(upstream, request, Some(timeout), None).await;
        let Ok(response) = sent else { return };
        if response.discard(MAX_BODY_BYTES).await.is_ok() {
            place.outcome = Mirrored::Sent;
        }
    }
}

/// Copies whose body is on its way, until it is whole.
struct MirrorTap(RefCell<Option<Pending>>);

struct Pending {
    /// What has passed of the body; `None` if there is none.
    bytes: Option<Vec<u8>>,
    copies: Vec<Draft>,
}

impl BodyTap for MirrorTap {
    /// Copies for which the body is too long now are given up.
    fn pass(&self, data: &[u8]) {
        let mut pending = self.0.borrow_mut();
        let Some(Pending { bytes: Some(bytes), copies }) = pending.as_mut() else { return };
        let length = bytes.len() + data.len();
        copies.retain_mut(|copy| {
            let fits = length <= copy.most;
            if !fits {
                copy.place.outcome = Mirrored::TooLarge;
            }
            fits
        });
        if copies.is_empty() {
            *pending = None;
        } else {
            bytes.extend_from_slice(data);
        }
    }

    /// The body is whole: the copies are sent.
    fn end(&self) {
        let Some(Pending { bytes, copies }) = self.0.take() else { return };
        for mut copy in copies {
            if let Some(bytes) = &bytes {
                copy.request.body = RequestBody::whole(bytes.clone());
            }
            tokio::task::spawn_local(copy.send());
        }
    }

    fn broken(&self) {}
}
