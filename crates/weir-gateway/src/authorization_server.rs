//! Requests to authorization servers: key sets (RFC 7517) and token introspection (RFC 7662), on
//! the worker's own connections.

use crate::fetch;
use crate::worker::Live;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weir_auth::introspect::{self, InFlight};
use weir_auth::key_set::{self, KeySet};
use weir_config::AuthId;
use weir_model::UpstreamId;
use weir_record::transaction_id::TransactionId;
use weir_script::Fetch;

/// Fetches the key sets that are due.
pub fn refresh_key_sets(live: &Rc<Live>) {
    for set in live.site.key_sets.iter().flatten().filter(|set| set.is_due()) {
        fetch_key_set(live, set);
    }
}

/// Waits for a fetch of an auth's key set, if one may start or is in flight, at most until
/// `deadline`. Returns whether a fetch has ended.
pub(crate) async fn wait_for_keys(
    live: &Rc<Live>,
    auth: AuthId,
    deadline: Option<Instant>,
) -> bool {
    match live.site.key_sets.get(auth.0).and_then(Option::as_ref) {
        Some(set) => set.wait(deadline, |set| fetch_key_set(live, set)).await,
        None => false,
    }
}

/// Fetches a key set, unless another task does.
fn fetch_key_set(live: &Rc<Live>, set: &Arc<KeySet>) {
    let Some(lease) = set.lease() else { return };
    let live = Rc::clone(live);
    tokio::task::spawn_local(async move {
        let settings = lease.set().settings();
        let accept = "application/jwk-set+json, application/json";
        let fetch = Fetch {
            upstream: String::new(),
            method: "GET".to_owned(),
            target: settings.target.clone(),
            headers: vec![("accept".to_owned(), accept.to_owned())],
            body: None,
            timeout: Some(settings.timeout),
        };
        lease.set().take(send(&live, settings.upstream, fetch, key_set::MAX_BYTES).await);
    });
}

/// Sends a request with a timeout. Returns the body of a response with status 200 and at most
/// `limit` bytes.
async fn send(live: &Live, upstream: UpstreamId, fetch: Fetch, limit: u64) -> Option<Vec<u8>> {
    let timeout = fetch.timeout?;
    let id = TransactionId::fresh();
    let response = fetch::fetch(&live.upstreams[upstream.0], fetch, id, limit, None);
    let fetched = tokio::time::timeout(timeout, response).await.ok()?.ok()?;
    (fetched.status == 200).then_some(fetched.body)
}

/// Introspects a token, or waits for the introspection in flight, at most until `deadline`; returns
/// whether a response may be available. `now` is the arrival of the request in seconds since 1970.
pub(crate) async fn introspect(
    live: &Rc<Live>,
    auth: AuthId,
    token: &[u8],
    now: u64,
    deadline: Option<Instant>,
) -> bool {
    let Some(source) = live.site.introspections.get(auth.0).and_then(Option::as_ref) else {
        return false;
    };
    let start = |in_flight| {
        tokio::task::spawn_local(request(Rc::clone(live), in_flight, token.to_vec(), now));
    };
    source.wait(auth, token, deadline, start).await
}

/// A separate task: the introspection continues if the client disconnects.
async fn request(live: Rc<Live>, in_flight: InFlight, token: Vec<u8>, now: u64) {
    let settings = in_flight.settings();
    let body =
        format!("token={}&token_type_hint=access_token", percent_encode(&token, NON_ALPHANUMERIC));
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fetch = Fetch {
        upstream: String::new(),
        method: "POST".to_owned(),
        target: settings.target.clone(),
        headers: vec![
            header("accept", "application/json"),
            header("content-type", "application/x-www-form-urlencoded"),
            (settings.credential.header.clone(), settings.credential.value.clone()),
        ],
        body: Some(body.into()),
        timeout: Some(settings.timeout),
    };
    let fetched = send(&live, settings.upstream, fetch, introspect::MAX_BYTES).await;
    in_flight.end(fetched.as_deref(), now);
}
