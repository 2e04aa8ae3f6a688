//! Searches in sinks, beside the thread that ships.

use crate::serve::post::{self, Upstreams};
use crate::serve::thread::Settings;
use http::header;
use http_body_util::Full;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_model::UpstreamId;
use weir_ship::{MAX_SEARCH_RESPONSE_BYTES, Request, Response, Sending};

/// Sends requests to the targets of a sink, one after the other until one responds. A search that takes
/// too long is dropped by its caller: the next one starts with another target.
pub(super) fn sender(
    settings: &Arc<Settings>,
) -> impl Fn(&str, Request) -> Sending + Send + Sync + use<> {
    let (settings, next) = (Arc::clone(settings), Arc::new(AtomicUsize::new(0)));
    move |sink, request| {
        let (upstreams, next) = (settings.upstreams(), Arc::clone(&next));
        let sink = upstreams.config.tracker.sinks.iter().find(|one| one.name == sink);
        let upstream = sink.map(|sink| sink.upstream);
        Box::pin(async move {
            let upstream = upstream.ok_or("the sink is not configured any more")?;
            send(&upstreams, upstream, &next, request).await
        })
    }
}

async fn send(
    upstreams: &Upstreams,
    upstream: UpstreamId,
    next: &AtomicUsize,
    request: Request,
) -> Result<Response, String> {
    let targets = &upstreams.config.upstreams[upstream.0].targets;
    let first = next.fetch_add(1, Ordering::Relaxed);
    let mut error = String::new();
    for number in 0..targets.len() {
        let target = &targets[first.wrapping_add(number) % targets.len()];
        let Request { method, path, content_type, body } = request.clone();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let to = (upstream, target);
        let sent = post::send(upstreams, to, &mut None, request, MAX_SEARCH_RESPONSE_BYTES).await;
        match sent {
            Ok(response) => {
                next.store(first.wrapping_add(number), Ordering::Relaxed);
                return Ok(Response { status: response.status.as_u16(), body: response.body });
            }
            Err(failed) => error = format!("{}: {failed:#}", target.authority),
        }
    }
    Err(error)
}
