//! Live metrics and their history.

use super::stream::events;
use super::transaction::bad;
use super::{Api, busy};
use crate::live::{History, LiveSnapshot, MAX_PERIOD_SECONDS, PoolHistory, Rejections, Traffic};
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::response::Response;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use weir_tracker::TrackerError;

/// Stream live metrics, one event per second
///
/// Server-sent events; `data:` is a `Pulse`. All clients get the same events; a slow client skips
/// some.
#[utoipa::path(get, path = "/v1/live", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "An endless stream, one event per second.",
            content_type = "text/event-stream", body = LiveSnapshot),
        (status = 503, description = "Too many concurrent streams.")))]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&api.consoles).try_acquire_owned() else {
        return Err(busy("streams"));
    };
    Ok(events(api.live.follow(), api.grant(&caller)?, permit))
}

/// A time range.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Start in seconds since 1970.
    from: u64,
    /// End in seconds since 1970; after `from`.
    to: u64,
}

/// Get the history of the live metrics
///
/// Kept in memory: at most a week, since the start of the server.
#[utoipa::path(get, path = "/v1/live/history", tag = "live", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Points in columns, at most 900.", body = History),
        (status = 400, description = "Invalid times.")))]
pub(super) async fn history(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<History>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let Wanted { from, to } = wanted;
    if from >= to {
        return Err(bad("`from` must be before `to`.".to_owned()));
    }
    let from = from.max(to.saturating_sub(MAX_PERIOD_SECONDS));
    Ok(Json(api.live.history(from, to)))
}

/// Get the traffic of each route since the start
#[utoipa::path(get, path = "/v1/traffic", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Routes that had requests, at most 2000.", body = Traffic)))]
pub(super) async fn traffic(State(api): State<Arc<Api>>) -> Result<Json<Traffic>, Problem> {
    let told = api.query(&api.permits, super::no_access, |sources| {
        Some(Ok::<_, TrackerError>(Traffic::of(&sources.gateway.stats())))
    });
    told.await.map(Json)
}

/// Get the requests rejected by weir since the start
///
/// By consumer and reason: local replies with 401, 403, 429 or 503. Responses of upstreams are not
/// included.
#[utoipa::path(get, path = "/v1/rejections", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "At most 2000 consumers.", body = Rejections)))]
pub(super) async fn rejections(State(api): State<Arc<Api>>) -> Result<Json<Rejections>, Problem> {
    let told = api.query(&api.permits, super::no_access, |sources| {
        Some(Ok::<_, TrackerError>(Rejections::of(&sources.gateway.stats())))
    });
    told.await.map(Json)
}

/// Get the recent history of the pools
///
/// One point per second, at most 15 minutes.
#[utoipa::path(get, path = "/v1/pools/history", tag = "pools", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Points in columns, for each pool.", body = Vec<PoolHistory>),
        (status = 400, description = "Invalid times.")))]
pub(super) async fn pools(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Vec<PoolHistory>>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    Ok(Json(api.live.pools(wanted.from, wanted.to)))
}
