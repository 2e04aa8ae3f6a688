//! The response cache of a route: the response of a handler to a GET is served from memory while it
//! is fresh (a subset of RFC 9111).
//!
//! The cache is the last stage before the handler, behind every policy: a request with a cache hit has
//! been authenticated, limited and recorded like any other, and maps and compression run for each
//! request. Concurrent misses of one resource are collapsed: the others wait for the first, once.
//! `Cache-Status` (RFC 9211) names the outcome.

use crate::body::RequestBody;
use crate::cache::{Entry, FillGuard, Found, Store, StoredResponse, rules};
use crate::exchange::Exchange;
use crate::response_body::ResponseBody;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use weir_config::{Cache, Credentials};
use weir_wire::{Framing, Headers, Known, Method};

/// Longest wait for the fill of another request.
const COLLAPSE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The request as it came, without what has to do with stored answers.
    request: Headers,
    /// What the client says that it has.
    conditions: Headers,
    /// What it has to be asked for again by.
    stale: Option<Arc<Entry>>,
    largest: u64,
    fallback: Option<u64>,
    now: u64,
    _guard: Option<FillGuard>,
}

/// Looks up the response to a request.
pub(crate) async fn lookup(
    exchange: &mut Exchange,
    settings: &Cache,
    body: &RequestBody<'_>,
) -> Lookup {
    let Some(store) = store_of(exchange) else { return Lookup::Bypass };
    let tag = match eligible(exchange, settings, body) {
        Some(tag) => tag,
        None => {
            exchange.worker.stats.cache_bypassed.add(1);
            return Lookup::Bypass;
        }
    };
    let key = key_of(exchange);
    let revalidate = rules::wants_revalidation(&exchange.request.headers);
    let mut waited = false;
    let (stale, filling) = loop {
        let now = exchange.unix;
        let found = match revalidate {
            true => Found::Nothing,
            false => store.find(&key, &tag, &exchange.request.headers, now),
        };
        let stale = match found {
            Found::Fresh(entry) => {
                exchange.worker.stats.cache_hits.add(1);
                let said = format!("weir; hit; ttl={}", entry.fresh_for(now));
                return Lookup::Hit(serve_hit(exchange, &entry, &said));
            }
            Found::HitForMiss => break (None, None),
            Found::Stale(entry) => Some(entry),
            Found::Nothing => None,
        };
        match store.begin(&key, &tag) {
            Ok(filling) => break (stale, Some(filling)),
            Err(_) if waited || revalidate => break (stale, None),
            Err(mut over) => {
                waited = true;
                exchange.worker.stats.cache_waited.add(1);
                let _ = tokio::time::timeout(COLLAPSE_TIMEOUT, over.changed()).await;
            }
        }
    };
    exchange.worker.stats.cache_misses.add(1);
    let request = exchange.request.headers.clone();
    let conditions = take_conditions(exchange, stale.as_deref());
    Lookup::Fill(Box::new(CacheFill {
        store,
        key,
        tag,
        request,
        conditions,
        stale,
        largest: settings.entry,
        fallback: settings.ttl.map(|ttl| ttl.as_secs()),
        now: exchange.unix,
        _guard: filling,
    }))
}

fn store_of(exchange: &Exchange) -> Option<Arc<Store>> {
    exchange.live().site.route(exchange.route?).cache.clone()
}

/// What tells resources apart: everything of a request's address that backends may put into their
/// answers, the port and the scheme as well.
fn key_of(exchange: &Exchange) -> Vec<u8> {
    let scheme: &[u8] = if exchange.client.https { b"https" } else { b"http" };
    let request = &exchange.request;
    let parts = [
        scheme,
        exchange.host.as_bytes(),
        request.authority().as_bytes(),
        request.target().as_bytes(),
    ];
    parts.join(&0)
}

/// Tag of the stored responses that fit the caller; `None` if the request bypasses the cache.
fn eligible(exchange: &Exchange, settings: &Cache, body: &RequestBody<'_>) -> Option<Vec<u8>> {
    let request = &exchange.request;
    let headers = &request.headers;
    let partial = ["range", "if-match", "if-unmodified-since", "if-range"];
    if request.method != Method::Get
        || body.framing() != Framing::None
        || partial.iter().any(|name| headers.get(name).is_some())
        || rules::says(headers, &["no-store"])
        || exchange.resubmission.is_some()
    {
        return None;
    }
    let mut tag = Vec::new();
    if let Some(other) = exchange.instead {
        tag.extend_from_slice(&other.0.to_be_bytes());
    }
    let principal = exchange.principal.as_deref();
    let proved = principal.filter(|principal| principal.auth().is_some());
    let sent = [Known::Authorization, Known::Cookie].iter().any(|&k| headers.known(k).is_some());
    match (settings.credentials, proved) {
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

/// Removes the validators of the client from the request, so that the response is complete, and sets
/// those of a stale stored response instead. Returns the validators of the client.
fn take_conditions(exchange: &mut Exchange, stale: Option<&Entry>) -> Headers {
    let mut conditions = Headers::new();
    let headers = &mut exchange.request.headers;
    for name in ["if-none-match", "if-modified-since"] {
        headers.get_all(name).for_each(|value| conditions.push(name, value));
        headers.remove(name);
    }
    if let Some(response) = stale.and_then(|entry| entry.response.as_ref()) {
        if let Some(tag) = response.headers.known(Known::Etag) {
            headers.push("if-none-match", tag);
        }
        if let Some(modified) = response.headers.get("last-modified") {
            headers.push("if-modified-since", modified);
        }
    }
    conditions
}

/// Serves a stored response, or 304 if the client has it.
fn serve_hit(exchange: &mut Exchange, entry: &Entry, said: &str) -> ResponseBody<'static> {
    let Some(stored) = &entry.response else { return ResponseBody::Empty };
    let age = entry.age(exchange.unix);
    let had = rules::client_has(&exchange.request.headers, &stored.headers);
    let response = &mut exchange.response;
    response.clear();
    response.status = stored.status;
    response.headers.clone_from(&stored.headers);
    response.headers.set("age", age.to_string().as_bytes());
    response.headers.set("cache-status", said.as_bytes());
    if stored.status == 200 && had {
        response.status = 304;
        response.headers.remove("content-length");
        return ResponseBody::Empty;
    }
    ResponseBody::Whole(stored.body.clone())
}

impl CacheFill {
    /// Takes what the handler answered; what may be stored is, as it passes.
    pub(crate) fn store<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        body: ResponseBody<'a>,
    ) -> ResponseBody<'a> {
        if let (304, Some(stale)) = (exchange.response.status, &self.stale) {
            return self.freshen(exchange, stale);
        }
        let response = &mut exchange.response;
        let freshness = rules::freshness(response.status, &response.headers, self.fallback);
        let varies = rules::varies_by(&response.headers).is_some();
        let fits = body.length().is_none_or(|length| length <= self.largest);
        let freshness = freshness.filter(|_| varies && fits && exchange.problem.is_none());
        let reason = if self.stale.is_some() { "stale" } else { "uri-miss" };
        let stored = if freshness.is_some() { "; stored" } else { "" };
        let said = format!("weir; fwd={reason}{stored}");
        let mut headers = response.headers.clone();
        response.headers.push("cache-status", said.as_bytes());
        let Some(freshness) = freshness else {
            // A failure does not show whether the next response is cacheable.
            if exchange.response.status < 500 {
                self.insert(exchange, None);
            }
            return body;
        };
        for own in ["age", "cache-status", "content-length"] {
            headers.remove(own);
        }
        let stored = StoredResponse {
            status: exchange.response.status,
            headers,
            body: Bytes::new(),
            freshness,
        };
        match body {
            ResponseBody::Empty => {
                self.insert(exchange, Some(stored));
                ResponseBody::Empty
            }
            ResponseBody::Whole(bytes) => {
                self.insert(exchange, Some(StoredResponse { body: bytes.clone(), ..stored }));
                ResponseBody::Whole(bytes)
            }
            body => {
                let evictions = exchange.worker;
                let largest = self.largest;
                body.capture(largest, move |bytes| {
                    let stored = StoredResponse { body: bytes, ..stored };
                    let gone = self.store.insert(
                        &self.key,
                        &self.tag,
                        &self.request,
                        Some(stored),
                        self.now,
                    );
                    evictions.stats.cache_evictions.add(gone);
                })
            }
        }
    }

    fn insert(&self, exchange: &Exchange, response: Option<StoredResponse>) {
        let gone = self.store.insert(&self.key, &self.tag, &self.request, response, self.now);
        exchange.worker.stats.cache_evictions.add(gone);
    }

    /// The stored response was validated: freshens it (RFC 9111 section 4.3.4).
    fn freshen<'a>(&self, exchange: &mut Exchange, stale: &Entry) -> ResponseBody<'a> {
        exchange.worker.stats.cache_revalidated.add(1);
        let Some(old) = &stale.response else { return ResponseBody::Empty };
        let mut headers = old.headers.clone();
        for (known, name, value) in exchange.response.headers.iter() {
            if known != Known::ContentLength && name != "age" && name != "cache-status" {
                headers.set(name, value);
            }
        }
        let freshness = rules::freshness(old.status, &headers, self.fallback);
        let mut stored = old.clone();
        stored.headers = headers;
        if let Some(freshness) = freshness {
            stored.freshness = freshness;
            self.insert(exchange, Some(stored.clone()));
        } else {
            self.store.remove_all(&self.key);
        }
        let response = &mut exchange.response;
        response.clear();
        response.status = stored.status;
        response.headers = stored.headers;
        response.headers.push("cache-status", b"weir; hit; fwd=stale; fwd-status=304");
        if stored.status == 200 && rules::client_has(&self.conditions, &response.headers) {
            response.status = 304;
            return ResponseBody::Empty;
        }
        ResponseBody::Whole(stored.body)
    }
}

/// Invalidates the stored responses of a resource after an unsafe request (RFC 9111 section 4.4).
pub(crate) fn invalidate(exchange: &Exchange) {
    let safe = matches!(
        exchange.request.method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    );
    if safe || exchange.response.status >= 400 {
        return;
    }
    let Some((api, _)) = exchange.route else { return };
    let caches = &exchange.live().site.apis[api].caches;
    if !caches.is_empty() {
        let key = key_of(exchange);
        caches.iter().for_each(|store| store.remove_all(&key));
    }
}
