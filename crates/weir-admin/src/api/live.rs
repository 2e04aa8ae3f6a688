//! Live metrics and their history.

use super::stream::events;
use super::{Api, Call, permit};
use crate::live::{History, LiveSnapshot, MAX_PERIOD_SECONDS, PoolHistory, Rejections, Traffic};
use crate::problem::{Params, Problem, Result};
use crate::sources::Sources;
use axum::Json;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_server::snapshot::Snapshot;
use weir_tracker::TrackerError;

/// Stream live metrics, one event per second
///
/// Server-sent events; `data:` is a `Pulse`. All clients get the same events; a slow client skips
/// some.
#[utoipa::path(get, path = "/v1/live", tag = "live",
    responses(
        (status = 200, description = "An endless stream, one event per second.",
            content_type = "text/event-stream", body = LiveSnapshot),
        (status = 503, description = "Too many concurrent streams.")))]
pub(super) async fn follow(call: Call) -> Result<Response> {
    let permit = permit(&call.api.consoles, "streams")?;
    Ok(events(call.api.live.follow(), call.grant()?, permit))
}

/// A time range.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TimeRange {
    /// Start in seconds since 1970.
    from: u64,
    /// End in seconds since 1970; after `from`.
    to: u64,
}

/// Get the history of the live metrics
///
/// Kept in memory: at most a week, since the start of the server.
#[utoipa::path(get, path = "/v1/live/history", tag = "live", params(TimeRange),
    responses(
        (status = 200, description = "Points in columns, at most 900.", body = History),
        (status = 400, description = "Invalid times.")))]
pub(super) async fn history(call: Call, Params(range): Params<TimeRange>) -> Result<Json<History>> {
    let TimeRange { from, to } = range;
    if from >= to {
        return Err(Problem::bad("`from` must be before `to`."));
    }
    let from = from.max(to.saturating_sub(MAX_PERIOD_SECONDS));
    Ok(Json(call.api.live.history(from, to)))
}

/// Get the traffic of each route since the start
#[utoipa::path(get, path = "/v1/traffic", tag = "live",
    responses((status = 200, description = "Routes that had requests, at most 2000.", body = Traffic)))]
pub(super) async fn traffic(call: Call) -> Result<Json<Traffic>> {
    let mut traffic = call.api.statistics(Traffic::of).await?;
    traffic.routes.retain(|route| call.caller.scope.includes(&route.api));
    Ok(Json(traffic))
}

/// Get the requests rejected by weir since the start
///
/// By consumer and reason: local replies with 401, 403, 429 or 503. Responses of upstreams are not
/// included.
#[utoipa::path(get, path = "/v1/rejections", tag = "live",
    responses((status = 200, description = "At most 2000 consumers.", body = Rejections)))]
pub(super) async fn rejections(call: Call) -> Result<Json<Rejections>> {
    call.api.statistics(Rejections::of).await.map(Json)
}

/// Get the recent history of the pools
///
/// One point per second, at most 15 minutes.
#[utoipa::path(get, path = "/v1/pools/history", tag = "pools", params(TimeRange),
    responses(
        (status = 200, description = "Points in columns, for each pool.", body = Vec<PoolHistory>),
        (status = 400, description = "Invalid times.")))]
pub(super) async fn pools(
    call: Call,
    Params(range): Params<TimeRange>,
) -> Result<Json<Vec<PoolHistory>>> {
    Ok(Json(call.api.live.pools(range.from, range.to)))
}

impl Api {
    /// Statistics of the gateway, from a new snapshot.
    async fn statistics<T: Send + 'static>(&self, read: fn(&Snapshot) -> T) -> Result<T> {
        let read =
            move |sources: &Sources| Some(Ok::<_, TrackerError>(read(&sources.gateway.stats())));
        self.query(&self.permits, super::NO_ACCESS, read).await
    }
}
