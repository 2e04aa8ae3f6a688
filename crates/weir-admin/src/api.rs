//! The admin API under `/v1/`. Every endpoint requires a token with a role.

mod api_key;
mod audit;
mod configuration;
mod configuration_history;
mod consumer;
mod count;
mod difference;
mod endpoints;
mod event;
mod explain;
mod export;
mod fleet;
mod invoice;
mod job;
mod job_item;
mod journal;
mod lab;
mod limit;
mod live;
mod nodes;
mod oidc;
mod pool;
mod profile;
mod resubmit;
mod rollout;
mod session;
mod sink;
mod stream;
mod tail;
mod test_request;
mod token;
mod transaction;
mod upstream;
mod usage;
mod view;

use self::nodes::RecentFigures;
use crate::access::{self, Access, Grant, Guard};
use crate::audit::{Action, event as audit_event};
use crate::live::Live;
use crate::oidc::OidcState;
use crate::problem::{Problem, Result};
use crate::session::Sessions;
use crate::sources::Sources;
use crate::tokens::Caller;
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::{Extension, Router, middleware};
use endpoints::{Endpoints, endpoints};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_tracker::{Tracker, TrackerError};

/// Concurrent queries; further ones wait for [`QUERY_WAIT_TIMEOUT`].
const MAX_QUERIES: usize = 4;
/// Longest wait of a query.
const QUERY_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent tails.
const MAX_TAILS: usize = 8;
/// Concurrent single resubmissions: each waits for an upstream.
const MAX_RESUBMISSIONS: usize = 8;
/// Concurrent requests about jobs and resolutions. A limit of their own, so that a job can be
/// stopped while upstreams hang.
const MAX_JOB_REQUESTS: usize = 4;
/// Concurrent live streams of consoles.
const MAX_CONSOLES: usize = 24;
/// Longest request body of an endpoint that needs no token.
const MAX_PUBLIC_BODY_BYTES: usize = 4 << 10;
/// Concurrent exports and verifications.
const MAX_LONG_QUERIES: usize = 2;

/// State shared by the endpoints.
pub(crate) struct Api {
    sources: Arc<Sources>,
    sessions: Arc<Sessions>,
    oidc: OidcState,
    live: Arc<Live>,
    consoles: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    figures: RecentFigures,
    resubmissions: Arc<Semaphore>,
    jobs: Arc<Semaphore>,
    tails: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// A call of an endpoint.
struct Call {
    api: Arc<Api>,
    caller: Caller,
}

impl FromRequestParts<Arc<Api>> for Call {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        api: &Arc<Api>,
    ) -> Result<Self, ExtensionRejection> {
        let Extension(caller) = Extension::from_request_parts(parts, api).await?;
        Ok(Self { api: Arc::clone(api), caller })
    }
}

/// Port and scheme of the admin listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// All routes under `/v1/`.
pub(crate) fn router(sources: Arc<Sources>, live: Arc<Live>, origin: Origin) -> Router {
    let Some(access) = &sources.access else {
        return Router::new().fallback(async || NO_ACCESS);
    };
    let Ok(oidc) = OidcState::new() else {
        return Router::new().fallback(async || NO_ACCESS);
    };
    let gateway = Arc::clone(&sources.gateway);
    access.tokens.set_mapping(Box::new(move |account| {
        let site = gateway.site();
        account.rights(site.config.admin.oidc.as_deref()?)
    }));
    let sessions = Arc::new(Sessions::new(origin.port, origin.tls));
    let guard = Arc::new(Guard::new(access, Arc::clone(&sessions), sources.fleet.clone()));
    let api = Arc::new(Api {
        sources: Arc::clone(&sources),
        sessions,
        oidc,
        live,
        consoles: Arc::new(Semaphore::new(MAX_CONSOLES)),
        permits: Arc::new(Semaphore::new(MAX_QUERIES)),
        figures: RecentFigures::default(),
        resubmissions: Arc::new(Semaphore::new(MAX_RESUBMISSIONS)),
        jobs: Arc::new(Semaphore::new(MAX_JOB_REQUESTS)),
        tails: Arc::new(Semaphore::new(MAX_TAILS)),
        long: Arc::new(Semaphore::new(MAX_LONG_QUERIES)),
    });
    let Endpoints { router, public, .. } = endpoints();
    // The layer covers the routes that are added before it.
    router
        .method_not_allowed_fallback(async || WRONG_METHOD)
        .fallback(async || UNKNOWN)
        .layer(middleware::from_fn_with_state(guard, access::authenticate))
        .merge(public.layer(DefaultBodyLimit::max(MAX_PUBLIC_BODY_BYTES)))
        .layer(DefaultBodyLimit::max(access::MAX_BODY_BYTES))
        .with_state(api)
}

impl Call {
    /// The grant under which a long response is sent.
    fn grant(&self) -> Result<Grant> {
        let tokens = Arc::clone(&self.api.access()?.tokens);
        Ok(Grant::new(tokens, Arc::clone(&self.api.sessions), self.caller.clone()))
    }

    /// Writes an audit entry, before the action on an object (`subject`).
    async fn audit(
        &self,
        action: Action,
        subject: impl Into<String>,
        details: impl Into<String>,
    ) -> Result<()> {
        let event = audit_event(&self.caller, action, subject.into(), details.into());
        let log = Arc::clone(&self.api.access()?.audit);
        let record = move || log.record(&event).map_err(|error| error.to_string());
        let recorded = tokio::task::spawn_blocking(record).await;
        let recorded = recorded.unwrap_or_else(|_| Err("the task was aborted".to_owned()));
        recorded.map_err(|error| {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not-audited",
                "The audit log cannot be written",
                format!("{error}. The action was not performed."),
            )
        })
    }
}

impl Api {
    fn access(&self) -> Result<&Access> {
        self.sources.access.as_ref().ok_or(NO_ACCESS)
    }

    /// Runs a query of the Tracker, which may block.
    async fn query_tracker<T, E>(
        &self,
        query: impl FnOnce(&Arc<Tracker>) -> Result<T, E> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        self.query(&self.permits, NOT_RECORDING, |sources| sources.tracker.as_ref().map(query))
            .await
    }

    /// Runs a query of a source, which may block, within a limit of concurrency; `without` is the
    /// problem if the source is absent.
    async fn query<T, E>(
        &self,
        permits: &Arc<Semaphore>,
        without: Problem,
        query: impl FnOnce(&Sources) -> Option<Result<T, E>> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let permit = tokio::time::timeout(QUERY_WAIT_TIMEOUT, Arc::clone(permits).acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(busy("queries")) };
        let sources = Arc::clone(&self.sources);
        let result = tokio::task::spawn_blocking(move || {
            let result = query(&sources);
            drop(permit);
            result
        });
        match result.await {
            Ok(Some(result)) => result.map_err(Into::into),
            Ok(None) => Err(without),
            Err(_) => Err(TrackerError::unreadable("the query was aborted").into()),
        }
    }
}

impl From<TrackerError> for Problem {
    fn from(error: TrackerError) -> Self {
        let (status, kind, title) = match error {
            TrackerError::Unreadable(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "unreadable", "Recorded data cannot be read")
            }
            TrackerError::NotIndexed => (StatusCode::CONFLICT, "not-indexed", "Indexing is off"),
            TrackerError::Behind => {
                (StatusCode::SERVICE_UNAVAILABLE, "index-behind", "The index lags behind")
            }
        };
        Self::new(status, kind, title, format!("{error}."))
    }
}

const NOT_RECORDING: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "not-recording",
    "Recording is off",
    "Set `tracker.enabled` to record transactions.",
);

/// A permit of a limit of concurrency, without waiting.
fn permit(permits: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit> {
    Arc::clone(permits).try_acquire_owned().map_err(|_| busy(what))
}

fn busy(what: &str) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "Too many concurrent requests",
        format!("The maximum number of concurrent {what} is reached; try again."),
    )
}

const NO_ACCESS: Problem = Problem::fixed(
    StatusCode::SERVICE_UNAVAILABLE,
    "no-data-folder",
    "The admin API is off",
    "The data folder with the tokens could not be used; see standard error.",
);

const UNKNOWN: Problem =
    Problem::not_found("Unknown endpoint", "/v1/openapi.json describes all endpoints.");

const WRONG_METHOD: Problem = Problem::fixed(
    StatusCode::METHOD_NOT_ALLOWED,
    "method-not-allowed",
    "Method not allowed",
    "/v1/openapi.json lists the methods of each endpoint.",
);
