//! The admin API under `/v1/`. Every endpoint requires a token with a role.

mod audit;
mod configuration;
mod count;
mod event;
mod explain;
mod invoice;
mod journal;
mod lab;
mod limit;
mod live;
mod pool;
mod resubmit;
mod session;
mod stream;
mod test_request;
mod token;
mod transaction;
mod usage;

use crate::access::{self, Access, Grant, Guard, needs};
use crate::audit::{Action, event as audit_event};
use crate::live::Live;
use crate::problem::Problem;
use crate::role::Role;
use crate::session::Sessions;
use crate::sources::Sources;
use crate::tokens::Caller;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router, middleware};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use utoipa::OpenApi;
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
/// Concurrent exports and verifications.
const MAX_LONG_QUERIES: usize = 2;

/// State shared by the endpoints.
pub(crate) struct Api {
    sources: Arc<Sources>,
    sessions: Arc<Sessions>,
    live: Arc<Live>,
    consoles: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    resubmissions: Arc<Semaphore>,
    jobs: Arc<Semaphore>,
    tails: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// The admin API.
#[derive(OpenApi)]
#[openapi(
    info(title = "weir admin API", description = "Administration of weir: transactions, usage, pools, configuration and access."),
    paths(
        document,
        session::show,
        session::begin,
        session::end,
        session::ticket,
        journal::state,
        journal::verify,
        limit::limits,
        configuration::routes,
        configuration::openapi,
        configuration::state,
        configuration::check,
        configuration::reload,
        live::follow,
        live::history,
        live::traffic,
        live::rejections,
        live::pools,
        lab::state,
        lab::progress,
        lab::start,
        lab::stop,
        lab::run,
        lab::report,
        lab::compare,
        pool::pools,
        pool::act,
        event::sinks,
        explain::explain,
        test_request::send,
        invoice::invoices,
        transaction::search,
        count::summary,
        transaction::export,
        transaction::tail,
        transaction::show,
        transaction::explanation,
        transaction::body,
        usage::usage,
        usage::rebuild,
        resubmit::resubmit,
        resubmit::resolve,
        resubmit::make,
        resubmit::list,
        resubmit::show,
        resubmit::act,
        audit::list,
        token::list,
        token::make,
        token::revoke,
    ),
    modifiers(&Bearer, &Names),
    security(("token" = []))
)]
struct Document;

/// The security scheme: a bearer token.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document
            .components
            .get_or_insert_default()
            .security_schemes
            .insert("token".to_owned(), scheme.into());
    }
}

/// Operation ids from path and method: function names are not unique across modules.
struct Names;

impl utoipa::Modify for Names {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for (path, item) in &mut document.paths.paths {
            let words = path.split(|c: char| !c.is_ascii_alphanumeric()).skip(2);
            let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
            for (method, operation) in [
                ("get", &mut item.get),
                ("post", &mut item.post),
                ("put", &mut item.put),
                ("delete", &mut item.delete),
            ] {
                if let Some(operation) = operation {
                    operation.operation_id = Some(format!("{method}-{name}"));
                }
            }
        }
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
        return Router::new().fallback(unavailable);
    };
    let sessions = Arc::new(Sessions::new(origin.port, origin.tls));
    let guard = Arc::new(Guard::new(access, Arc::clone(&sessions)));
    let api = Arc::new(Api {
        sources: Arc::clone(&sources),
        sessions,
        live,
        consoles: Arc::new(Semaphore::new(MAX_CONSOLES)),
        permits: Arc::new(Semaphore::new(MAX_QUERIES)),
        resubmissions: Arc::new(Semaphore::new(MAX_RESUBMISSIONS)),
        jobs: Arc::new(Semaphore::new(MAX_JOB_REQUESTS)),
        tails: Arc::new(Semaphore::new(MAX_TAILS)),
        long: Arc::new(Semaphore::new(MAX_LONG_QUERIES)),
    });
    Router::new()
        .route("/openapi.json", needs(Role::Viewer, get(document)))
        .route(
            "/session",
            needs(Role::Viewer, get(session::show).post(session::begin).delete(session::end)),
        )
        .route("/session/tickets", needs(Role::Viewer, post(session::ticket)))
        .route("/journal", needs(Role::Viewer, get(journal::state)))
        .route("/journal/verify", needs(Role::Operator, get(journal::verify)))
        .route("/invoices", needs(Role::Viewer, get(invoice::invoices)))
        .route("/limits", needs(Role::Viewer, get(limit::limits)))
        .route("/apis", needs(Role::Viewer, get(configuration::routes)))
        .route("/apis/{api}/openapi", needs(Role::Viewer, get(configuration::openapi)))
        .route("/traffic", needs(Role::Viewer, get(live::traffic)))
        .route("/rejections", needs(Role::Viewer, get(live::rejections)))
        .route("/configuration", needs(Role::Operator, get(configuration::state)))
        .route("/configuration/check", needs(Role::Operator, post(configuration::check)))
        .route("/configuration/reload", needs(Role::Admin, post(configuration::reload)))
        .route("/live", needs(Role::Viewer, get(live::follow)))
        .route("/live/history", needs(Role::Viewer, get(live::history)))
        .route("/lab", needs(Role::Viewer, get(lab::state)))
        .route(
            "/lab/run",
            needs(Role::Viewer, get(lab::progress))
                .merge(needs(Role::Admin, post(lab::start)))
                .merge(needs(Role::Operator, delete(lab::stop))),
        )
        .route("/lab/compare", needs(Role::Viewer, get(lab::compare)))
        .route("/lab/results/{run}", needs(Role::Viewer, get(lab::run)))
        .route("/lab/results/{run}/report", needs(Role::Viewer, get(lab::report)))
        .route("/pools", needs(Role::Viewer, get(pool::pools)))
        .route("/pools/history", needs(Role::Viewer, get(live::pools)))
        .route("/pools/{pool}/{action}", needs(Role::Operator, post(pool::act)))
        .route("/explain", needs(Role::Operator, post(explain::explain)))
        .route("/try", needs(Role::Operator, post(test_request::send)))
        .route("/events", needs(Role::Viewer, get(event::sinks)))
        .route("/transactions", needs(Role::Viewer, get(transaction::search)))
        .route("/transactions/summary", needs(Role::Viewer, get(count::summary)))
        .route("/transactions/export", needs(Role::Viewer, get(transaction::export)))
        .route("/transactions/tail", needs(Role::Viewer, get(transaction::tail)))
        .route("/transactions/{id}", needs(Role::Viewer, get(transaction::show)))
        .route("/transactions/{id}/explanation", needs(Role::Viewer, get(transaction::explanation)))
        .route("/transactions/{id}/{side}", needs(Role::PayloadViewer, get(transaction::body)))
        .route("/usage", needs(Role::Viewer, get(usage::usage)))
        .route("/monitor/rebuild", needs(Role::Operator, post(usage::rebuild)))
        .route("/transactions/{id}/resubmit", needs(Role::Operator, post(resubmit::resubmit)))
        .route("/transactions/{id}/resolution", needs(Role::Operator, post(resubmit::resolve)))
        .route("/jobs", needs(Role::Operator, get(resubmit::list).post(resubmit::make)))
        .route("/jobs/{number}", needs(Role::Operator, get(resubmit::show)))
        .route("/jobs/{number}/{action}", needs(Role::Operator, post(resubmit::act)))
        .route("/audit", needs(Role::Admin, get(audit::list)))
        .route("/tokens", needs(Role::Admin, get(token::list).post(token::make)))
        .route("/tokens/{id}", needs(Role::Admin, delete(token::revoke)))
        .layer(DefaultBodyLimit::max(resubmit::MAX_BODY_BYTES))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(guard, access::authenticate))
        .with_state(api)
}

impl Api {
    fn access(&self) -> Result<&Access, Problem> {
        self.sources.access.as_ref().ok_or_else(no_access)
    }

    /// The grant under which a long response is sent.
    fn grant(&self, caller: &Caller) -> Result<Grant, Problem> {
        let tokens = Arc::clone(&self.access()?.tokens);
        Ok(Grant::new(tokens, Arc::clone(&self.sessions), caller.clone()))
    }

    /// Writes an audit entry, before the action.
    async fn audit(&self, caller: &Caller, action: Action) -> Result<(), Problem> {
        let (log, event) = (Arc::clone(&self.access()?.audit), audit_event(caller, action));
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

    /// Runs a query of the Tracker, which may block.
    async fn query_tracker<T, E>(
        &self,
        query: impl FnOnce(&Arc<Tracker>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        self.query(&self.permits, not_recording, |sources| sources.tracker.as_ref().map(query))
            .await
    }

    /// Runs a query of a source, which may block, within a limit of concurrency; `without` is the
    /// problem if the source is absent.
    async fn query<T, E>(
        &self,
        permits: &Arc<Semaphore>,
        without: fn() -> Problem,
        query: impl FnOnce(&Sources) -> Option<Result<T, E>> + Send + 'static,
    ) -> Result<T, Problem>
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
            Ok(None) => Err(without()),
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

/// OpenAPI document of this API
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "The description of this API (OpenAPI 3.1).")))]
async fn document() -> Response {
    Json(Document::openapi()).into_response()
}

fn not_recording() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "not-recording",
        "Recording is off",
        "Set `tracker.enabled` to record transactions.",
    )
}

fn busy(what: &str) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "Too many concurrent requests",
        format!("The maximum number of concurrent {what} is reached; try again."),
    )
}

fn no_access() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no-data-folder",
        "The admin API is off",
        "The data folder with the tokens could not be used; see standard error.",
    )
}

async fn unavailable() -> Problem {
    no_access()
}

async fn unknown() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "not-found",
        "Unknown endpoint",
        "/v1/openapi.json describes all endpoints.",
    )
}

async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "Method not allowed",
        "/v1/openapi.json lists the methods of each endpoint.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The console's client is generated from this file.
    #[test]
    fn the_consoles_description_of_the_api_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../console/openapi.json");
        let text = Document::openapi().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap_or_default();
        assert!(known == text, "{path} is not current: WEIR_BLESS=1 rewrites it");
    }

    #[test]
    fn no_two_operations_have_one_name() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let operations = document["paths"].as_object().unwrap().values();
        let names: Vec<_> = operations
            .flat_map(|methods| methods.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), different.len(), "{names:?}");
    }

    #[test]
    fn what_the_description_refers_to_is_there() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let text = document.to_string();
        let mut referred = 0;
        for piece in text.split("\"$ref\":\"#").skip(1) {
            let pointer = piece.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
            referred += 1;
        }
        assert!(referred > 20, "{referred}");
    }
}
