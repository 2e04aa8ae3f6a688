//! The response cache of a route: the response of a handler to a GET is served from memory while it
//! is fresh (a subset of RFC 9111).
//!
//! The cache is the last stage before the handler, behind every policy: a request with a cache hit
//! has been authenticated, limited and recorded like any other, and maps and compression run for
//! each request. Concurrent misses of one resource are collapsed: the others wait for the first,
//! once. `Cache-Status` (RFC 9211) names the outcome.

use crate::response_body::ResponseBody;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use weir_cache::{Entry, FillGuard, Store, StoreLookup, StoredResponse, rules};
use weir_config::{Cache, Credentials};
use weir_http::body::RequestBody;
use weir_model::UpstreamId;
use weir_record::client_request::{ClientRequest, StageInput};
use weir_telemetry::stats::WorkerStats;
use weir_wire::{Framing, Headers, Known, Method, ResponseHead};

/// Longest wait for the fill of another request.
const COLLAPSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The cache of a route, and the inputs of a lookup apart from the request.
pub(crate) struct RouteCache<'x> {
    pub(crate) store: &'x Arc<Store>,
    pub(crate) settings: &'x Cache,
    /// The upstream that traffic splitting selected.
    pub(crate) upstream: Option<UpstreamId>,
    /// The request is a resubmission, which bypasses the cache.
    pub(crate) is_replay: bool,
    pub(crate) stats: &'static WorkerStats,
}

/// Outcome of a lookup.
pub(crate) enum Lookup {
    /// The response is served from the cache.
    Hit(ResponseBody<'static>),
    /// The handler responds, and its response is stored if it is cacheable.
    Fill(Box<CacheFill>),
    /// The handler responds; the cache is not involved.
    Bypass,
}

/// A cache miss: the response of the handler may be stored.
pub(crate) struct CacheFill {
    store: Arc<Store>,
    key: Vec<u8>,
    tag: Vec<u8>,
    /// The headers of the request, including the validators of the client.
    request: Headers,
    /// The validators of the client.
    conditions: Headers,
    /// The stored response to revalidate.
    stale: Option<Arc<Entry>>,
    largest: u64,
    fallback: Option<u64>,
    now: u64,
    stats: &'static WorkerStats,
    _guard: Option<FillGuard>,
}

impl RouteCache<'_> {
    /// Looks up the response to a request.
    pub(crate) async fn lookup(&self, input: StageInput<'_>, body: &RequestBody<'_>) -> Lookup {
        let StageInput { request, response, unix: now, .. } = input;
        let Self { store, settings, stats, .. } = *self;
        let Some(tag) = self.tag(&request, body) else {
            stats.cache_bypassed.add(1);
            return Lookup::Bypass;
        };
        let (key, headers) = (key_of(&request), &request.head.headers);
        let revalidate = rules::requires_revalidation(headers);
        let mut waited = false;
        let (stale, filling) = loop {
            let found = match revalidate {
                true => StoreLookup::Miss,
                false => store.lookup(&key, &tag, headers, now),
            };
            let stale = match found {
                StoreLookup::Fresh(entry) => {
                    stats.cache_hits.add(1);
                    return Lookup::Hit(serve_hit(headers, response, &entry, now));
                }
                StoreLookup::HitForMiss => break (None, None),
                StoreLookup::Stale(entry) => Some(entry),
                StoreLookup::Miss => None,
            };
            match store.start_fill(&key, &tag) {
                Ok(filling) => break (stale, Some(filling)),
                Err(_) if waited || revalidate => break (stale, None),
                Err(mut over) => {
                    waited = true;
                    stats.cache_waited.add(1);
                    let _ = tokio::time::timeout(COLLAPSE_TIMEOUT, over.changed()).await;
                }
            }
        };
        stats.cache_misses.add(1);
        Lookup::Fill(Box::new(CacheFill {
            store: Arc::clone(store),
            key,
            tag,
            request: headers.clone(),
            conditions: Headers::new(),
            stale,
            largest: settings.entry,
            fallback: settings.ttl.map(|ttl| ttl.as_secs()),
            now,
            stats,
            _guard: filling,
        }))
    }

    /// The tag of stored responses for this caller; `None` if the request bypasses the cache.
    fn tag(&self, request: &ClientRequest<'_>, body: &RequestBody<'_>) -> Option<Vec<u8>> {
        let headers = &request.head.headers;
        let partial = ["range", "if-match", "if-unmodified-since", "if-range"];
        if request.head.method != Method::Get
            || body.framing() != Framing::None
            || partial.iter().any(|name| headers.get(name).is_some())
            || rules::has_directive(headers, &["no-store"])
            || self.is_replay
        {
            return None;
        }
        let mut tag = Vec::new();
        if let Some(other) = self.upstream {
            tag.extend_from_slice(&other.0.to_be_bytes());
        }
        let proved = request.principal.filter(|principal| principal.auth().is_some());
        let credentials = [Known::Authorization, Known::Cookie];
        let sent = credentials.iter().any(|&k| headers.known(k).is_some());
        match (self.settings.credentials, proved) {
            (Credentials::Shared, _) => {}
            (_, None) if !sent => {}
            (Credentials::Each, Some(who)) if headers.known(Known::Cookie).is_none() => {
                if who.subject().is_none() && who.consumer().is_none() {
                    return None;
                }
                tag.extend_from_slice(who.fingerprint());
            }
            _ => return None,
        }
        Some(tag)
    }
}

/// The cache key: all parts of a request's address that backends may put into their responses,
/// including port and scheme.
fn key_of(request: &ClientRequest<'_>) -> Vec<u8> {
    let scheme: &[u8] = if request.client.https { b"https" } else { b"http" };
    let head = request.head;
    let parts =
        [scheme, request.host.as_bytes(), head.authority().as_bytes(), head.target().as_bytes()];
    parts.join(&0)
}

/// Serves a stored response, or 304 if the client has the same one.
fn serve_hit(
    request: &Headers,
    response: &mut ResponseHead,
    entry: &Entry,
    now: u64,
) -> ResponseBody<'static> {
    let Some(stored) = &entry.response else { return ResponseBody::Empty };
    response.clear();
    response.status = stored.status;
    response.headers.clone_from(&stored.headers);
    response.headers.set("age", entry.age(now).to_string().as_bytes());
    let outcome = format!("weir; hit; ttl={}", entry.fresh_for(now));
    response.headers.set("cache-status", outcome.as_bytes());
    if stored.status == 200 && rules::is_not_modified(request, &stored.headers) {
        response.status = 304;
        response.headers.remove("content-length");
        return ResponseBody::Empty;
    }
    ResponseBody::Whole(stored.body.clone())
}

impl CacheFill {
    /// Removes the validators of the client from the request, so that the response is complete, and
    /// sets those of a stale stored response.
    pub(crate) fn take_conditions(&mut self, headers: &mut Headers) {
        for name in ["if-none-match", "if-modified-since"] {
            headers.get_all(name).for_each(|value| self.conditions.push(name, value));
            headers.remove(name);
        }
        if let Some(response) = self.stale.as_ref().and_then(|entry| entry.response.as_ref()) {
            if let Some(tag) = response.headers.known(Known::Etag) {
                headers.push("if-none-match", tag);
            }
            if let Some(modified) = response.headers.get("last-modified") {
                headers.push("if-modified-since", modified);
            }
        }
    }

    /// Takes the response of the handler; a cacheable one is stored while it is sent.
    pub(crate) fn store<'a>(
        self: Box<Self>,
        response: &mut ResponseHead,
        body: ResponseBody<'a>,
    ) -> ResponseBody<'a> {
        if let (304, Some(stale)) = (response.status, &self.stale) {
            return self.freshen(response, stale);
        }
        let freshness = rules::freshness(response.status, &response.headers, self.fallback);
        let varies = rules::varies_by(&response.headers).is_some();
        let fits = body.length().is_none_or(|length| length <= self.largest);
        let freshness = freshness.filter(|_| varies && fits);
        let reason = if self.stale.is_some() { "stale" } else { "uri-miss" };
        let stored = if freshness.is_some() { "; stored" } else { "" };
        let outcome = format!("weir; fwd={reason}{stored}");
        let mut headers = response.headers.clone();
        response.headers.push("cache-status", outcome.as_bytes());
        let Some(freshness) = freshness else {
            // A failure does not show whether the next response is cacheable.
            if response.status < 500 {
                self.insert(None);
            }
            return body;
        };
        for own in ["age", "cache-status", "content-length"] {
            headers.remove(own);
        }
        let (status, empty) = (response.status, Bytes::new());
        let stored = StoredResponse { status, headers, body: empty, freshness };
        match body {
            ResponseBody::Empty => {
                self.insert(Some(stored));
                ResponseBody::Empty
            }
            ResponseBody::Whole(bytes) => {
                self.insert(Some(StoredResponse { body: bytes.clone(), ..stored }));
                ResponseBody::Whole(bytes)
            }
            body => {
                let largest = self.largest;
                body.capture(largest, move |body| {
                    self.insert(Some(StoredResponse { body, ..stored }));
                })
            }
        }
    }

    fn insert(&self, response: Option<StoredResponse>) {
        let evicted = self.store.insert(&self.key, &self.tag, &self.request, response, self.now);
        self.stats.cache_evictions.add(evicted);
    }

    /// The stored response was validated: freshens it (RFC 9111 section 4.3.4).
    fn freshen<'a>(&self, response: &mut ResponseHead, stale: &Entry) -> ResponseBody<'a> {
        self.stats.cache_revalidated.add(1);
        let Some(old) = &stale.response else { return ResponseBody::Empty };
        let mut headers = old.headers.clone();
        for (known, name, value) in response.headers.iter() {
            if known != Known::ContentLength && name != "age" && name != "cache-status" {
                headers.set(name, value);
            }
        }
        let freshness = rules::freshness(old.status, &headers, self.fallback);
        let mut stored = old.clone();
        stored.headers = headers;
        if let Some(freshness) = freshness {
            stored.freshness = freshness;
            self.insert(Some(stored.clone()));
        } else {
            self.store.invalidate(&self.key);
        }
        response.clear();
        response.status = stored.status;
        response.headers = stored.headers;
        response.headers.push("cache-status", b"weir; hit; fwd=stale; fwd-status=304");
        if stored.status == 200 && rules::is_not_modified(&self.conditions, &response.headers) {
            response.status = 304;
            return ResponseBody::Empty;
        }
        ResponseBody::Whole(stored.body)
    }
}

/// Invalidates the stored responses of a resource after an unsafe request (RFC 9111 section 4.4).
/// `caches` are those of the API, `status` is the status of the response.
pub(crate) fn invalidate(caches: &[Arc<Store>], request: &ClientRequest<'_>, status: u16) {
    let safe =
        matches!(request.head.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    if !safe && status < 400 {
        let key = key_of(request);
        caches.iter().for_each(|store| store.invalidate(&key));
    }
}
