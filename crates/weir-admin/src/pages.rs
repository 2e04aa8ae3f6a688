//! Routes of the admin listener outside the API.

use crate::access::BASE;
use crate::api::{self, Origin};
use crate::console;
use crate::host::{self, Arrived};
use crate::live::Live;
use crate::metrics;
use crate::problem::Problem;
use crate::sources::{Readiness, Sources};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

/// All routes behind the host check; `hosts` are accepted in addition to the names of this machine.
pub(crate) fn router(
    sources: Arc<Sources>,
    live: Arc<Live>,
    hosts: Vec<String>,
    origin: Origin,
) -> Router {
    let api = api::router(Arc::clone(&sources), live, origin);
    Router::new()
        .merge(console::router())
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics_page))
        .fallback(async || UNKNOWN)
        .with_state(sources)
        .nest(BASE, api)
        .layer(middleware::map_response(harden))
        .layer(middleware::from_fn_with_state(Arc::new(hosts), check_host))
}

async fn health() -> &'static str {
    "ok\n"
}

async fn readiness(State(sources): State<Arc<Sources>>) -> Response {
    match sources.readiness() {
        Readiness::Ready => "ready\n".into_response(),
        Readiness::Draining => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "weir is stopping",
            "weir completes the requests in flight; send new requests elsewhere.",
        )
        .into_response(),
        Readiness::NoVersion => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-version",
            "This node has no version of the fleet's configuration",
            "It takes the version in force as soon as the database of the fleet can be read.",
        )
        .into_response(),
        Readiness::Pools(names) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "pool-unavailable",
            "A pool has no agent",
            format!("No agent can be started in: {}.", names.join(", ")),
        )
        .into_response(),
    }
}

async fn metrics_page(State(sources): State<Arc<Sources>>, headers: HeaderMap) -> Response {
    let (kind, text) = metrics::page(&(sources.metrics)(), &headers);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

const UNKNOWN: Problem = Problem::not_found(
    "Not found",
    "The admin listener serves /console/, /healthz, /readyz, /metrics and /v1/.",
);

/// Responses are not stored, unless they state otherwise, and their type is not guessed.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn check_host(
    State(hosts): State<Arc<Vec<String>>>,
    request: Request,
    next: Next,
) -> Response {
    let local =
        request.extensions().get::<Arrived>().map_or(host::NOWHERE, |arrived| arrived.local);
    let mut named = request.headers().get_all(header::HOST).iter();
    let (first, second) = (named.next(), named.next());
    // HTTP/1.0 has no Host, and browsers do not use it.
    let missing = first.is_none() && request.version() != Version::HTTP_10;
    if missing || second.is_some() {
        return Problem::new(
            StatusCode::BAD_REQUEST,
            "bad-request",
            "Invalid HTTP request",
            "Exactly one Host header is required.",
        )
        .into_response();
    }
    let header = first.map(|value| value.to_str().unwrap_or_default());
    let target = request.uri().authority().map(|authority| authority.as_str());
    let is_allowed = |authority: &str| host::is_allowed(authority, local, &hosts);
    if header.into_iter().chain(target).all(is_allowed) {
        return next.run(request).await;
    }
    Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "misdirected",
        "Host not allowed on the admin listener",
        "Allowed: loopback names, the address of the listener, and the names in admin.hosts.",
    )
    .into_response()
}
