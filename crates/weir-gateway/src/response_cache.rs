//! The response cache of a route: what a handler answered to a GET is given again while it is fresh
//! (a subset of RFC 9111).
//!
//! It stands right before the handler, behind every policy: whoever is given a stored answer has been
//! let in, counted and recorded like anybody else, and maps and compression are done anew. Requests for
//! what is being fetched already wait for that, once. `Cache-Status` (RFC 9211) says what was done.

use crate::body::RequestBody;
use crate::cache::{Answer, Entry, Found, Store, UnderWay, rules};
use crate::exchange::Exchange;
use crate::response_body::Body;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use weir_config::{Cache, Credentials};
use weir_wire::{Framing, Headers, Known, Method};

/// Longest that a request waits for another's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the cache makes of a request.
pub(crate) enum Looked {
    /// This is the answer.
    Answer(Body<'static>),
    /// The handler has to answer, and that is stored if it may be.
    Fetch(Box<Fetch>),
    /// The handler has to answer.
    Nothing,
}

/// A request whose answer may be stored.
pub(crate) struct Fetch {
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
    _under_way: Option<UnderWay>,
}

/// Looks for an answer.
pub(crate) async fn look(
    exchange: &mut Exchange,
    settings: &Cache,
    body: &RequestBody<'_>,
) -> Looked {
    let Some(store) = store_of(exchange) else { return Looked::Nothing };
    let tag = match eligible(exchange, settings, body) {
        Some(tag) => tag,
        None => {
            exchange.worker.stats.cache_bypassed.add(1);
            return Looked::Nothing;
        }
    };
    let key = key_of(exchange);
    let anew = rules::asks_anew(&exchange.request.headers);
    let mut waited = false;
    let (stale, under_way) = loop {
        let now = exchange.unix;
        let found = match anew {
            true => Found::Nothing,
            false => store.find(&key, &tag, &exchange.request.headers, now),
        };
        let stale = match found {
            Found::Fresh(entry) => {
                exchange.worker.stats.cache_hits.add(1);
                let said = format!("weir; hit; ttl={}", entry.fresh_for(now));
                return Looked::Answer(give(exchange, &entry, &said));
            }
            Found::Pass => break (None, None),
            Found::Stale(entry) => Some(entry),
            Found::Nothing => None,
        };
        match store.begin(&key, &tag) {
            Ok(under_way) => break (stale, Some(under_way)),
            Err(_) if waited || anew => break (stale, None),
            Err(mut over) => {
                waited = true;
                exchange.worker.stats.cache_waited.add(1);
                let _ = tokio::time::timeout(PATIENCE, over.changed()).await;
            }
        }
    };
    exchange.worker.stats.cache_misses.add(1);
    let request = exchange.request.headers.clone();
    let conditions = take_conditions(exchange, stale.as_deref());
    Looked::Fetch(Box::new(Fetch {
        store,
        key,
        tag,
        request,
        conditions,
        stale,
        largest: settings.entry,
        fallback: settings.ttl.map(|ttl| ttl.as_secs()),
        now: exchange.unix,
        _under_way: under_way,
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

/// Whom a stored answer is for; `None` if this request has nothing to do with stored ones.
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

/// Takes what the client says it has from the request, as the answer is to be a whole one; for a
/// stale answer what weir has stands in its place.
fn take_conditions(exchange: &mut Exchange, stale: Option<&Entry>) -> Headers {
    let mut conditions = Headers::new();
    let headers = &mut exchange.request.headers;
    for name in ["if-none-match", "if-modified-since"] {
        headers.get_all(name).for_each(|value| conditions.push(name, value));
        headers.remove(name);
    }
    if let Some(answer) = stale.and_then(|entry| entry.answer.as_ref()) {
        if let Some(tag) = answer.headers.known(Known::Etag) {
            headers.push("if-none-match", tag);
        }
        if let Some(changed) = answer.headers.get("last-modified") {
            headers.push("if-modified-since", changed);
        }
    }
    conditions
}

/// Gives a stored answer, or says that the client has it.
fn give(exchange: &mut Exchange, entry: &Entry, said: &str) -> Body<'static> {
    let Some(answer) = &entry.answer else { return Body::Empty };
    let age = entry.age(exchange.unix);
    let had = rules::is_had(&exchange.request.headers, &answer.headers);
    let response = &mut exchange.response;
    response.clear();
    response.status = answer.status;
    response.headers.clone_from(&answer.headers);
    response.headers.set("age", age.to_string().as_bytes());
    response.headers.set("cache-status", said.as_bytes());
    if answer.status == 200 && had {
        response.status = 304;
        response.headers.remove("content-length");
        return Body::Empty;
    }
    Body::Whole(answer.body.clone())
}

impl Fetch {
    /// Takes what the handler answered; what may be stored is, as it passes.
    pub(crate) fn take<'a>(self: Box<Self>, exchange: &mut Exchange, body: Body<'a>) -> Body<'a> {
        if let (304, Some(stale)) = (exchange.response.status, &self.stale) {
            return self.still_good(exchange, stale);
        }
        let response = &mut exchange.response;
        let life = rules::life(response.status, &response.headers, self.fallback);
        let varies = rules::varies_by(&response.headers).is_some();
        let fits = body.length().is_none_or(|length| length <= self.largest);
        let life = life.filter(|_| varies && fits && exchange.problem.is_none());
        let reason = if self.stale.is_some() { "stale" } else { "uri-miss" };
        let stored = if life.is_some() { "; stored" } else { "" };
        let said = format!("weir; fwd={reason}{stored}");
        let mut headers = response.headers.clone();
        response.headers.push("cache-status", said.as_bytes());
        let Some(life) = life else {
            // A failure says nothing about the next answer.
            if exchange.response.status < 500 {
                self.insert(exchange, None);
            }
            return body;
        };
        for own in ["age", "cache-status", "content-length"] {
            headers.remove(own);
        }
        let answer = Answer { status: exchange.response.status, headers, body: Bytes::new(), life };
        match body {
            Body::Empty => {
                self.insert(exchange, Some(answer));
                Body::Empty
            }
            Body::Whole(bytes) => {
                self.insert(exchange, Some(Answer { body: bytes.clone(), ..answer }));
                Body::Whole(bytes)
            }
            body => {
                let evictions = exchange.worker;
                let largest = self.largest;
                body.kept(largest, move |bytes| {
                    let answer = Answer { body: bytes, ..answer };
                    let gone = self.store.insert(
                        &self.key,
                        &self.tag,
                        &self.request,
                        Some(answer),
                        self.now,
                    );
                    evictions.stats.cache_evictions.add(gone);
                })
            }
        }
    }

    fn insert(&self, exchange: &Exchange, answer: Option<Answer>) {
        let gone = self.store.insert(&self.key, &self.tag, &self.request, answer, self.now);
        exchange.worker.stats.cache_evictions.add(gone);
    }

    /// What is stored is good still, and fresh again (RFC 9111 section 4.3.4).
    fn still_good<'a>(&self, exchange: &mut Exchange, stale: &Entry) -> Body<'a> {
        exchange.worker.stats.cache_revalidated.add(1);
        let Some(old) = &stale.answer else { return Body::Empty };
        let mut headers = old.headers.clone();
        for (known, name, value) in exchange.response.headers.iter() {
            if known != Known::ContentLength && name != "age" && name != "cache-status" {
                headers.set(name, value);
            }
        }
        let life = rules::life(old.status, &headers, self.fallback);
        let mut answer = old.clone();
        answer.headers = headers;
        if let Some(life) = life {
            answer.life = life;
            self.insert(exchange, Some(answer.clone()));
        } else {
            self.store.forget(&self.key);
        }
        let response = &mut exchange.response;
        response.clear();
        response.status = answer.status;
        response.headers = answer.headers;
        response.headers.push("cache-status", b"weir; hit; fwd=stale; fwd-status=304");
        if answer.status == 200 && rules::is_had(&self.conditions, &response.headers) {
            response.status = 304;
            return Body::Empty;
        }
        Body::Whole(answer.body)
    }
}

/// A request that may have changed a resource makes what is stored of it worthless (RFC 9111
/// section 4.4).
pub(crate) fn changed(exchange: &Exchange) {
    let safe = matches!(
        exchange.request.method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    );
    if safe || exchange.response.status >= 400 {
        return;
    }
    let Some((api, _)) = exchange.route else { return };
    let stores = &exchange.live().site.apis[api].caches;
    if !stores.is_empty() {
        let key = key_of(exchange);
        stores.iter().for_each(|store| store.forget(&key));
    }
}
