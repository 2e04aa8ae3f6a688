//! What happens now, and what did lately.

use super::stream::events;
use super::transaction::bad;
use super::{Api, busy};
use crate::live::{History, LONGEST, PoolHistory, Pulse, Rejections, Traffic};
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::response::Response;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Follow what happens, a second at a time
///
/// Server-sent events: `data:` is a `Pulse`. All who follow get the same; who reads slowly misses
/// some.
#[utoipa::path(get, path = "/v1/live", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "An event a second, without end.",
            content_type = "text/event-stream", body = Pulse),
        (status = 503, description = "Too many follow already.")))]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&api.consoles).try_acquire_owned() else {
        return Err(busy("followers"));
    };
    Ok(events(api.live.follow(), api.grant(&caller)?, permit))
}

/// From when until when.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Seconds since 1970.
    from: u64,
    /// Seconds since 1970, after that.
    to: u64,
}

/// What happened lately
///
/// As the server has it in memory: at most a week, since its start.
#[utoipa::path(get, path = "/v1/live/history", tag = "live", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Points in columns, at most 900.", body = History),
        (status = 400, description = "These are no two times.")))]
pub(super) async fn history(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<History>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let Wanted { from, to } = wanted;
    if from >= to {
        return Err(bad("`from` is a time before `to`.".to_owned()));
    }
    let from = from.max(to.saturating_sub(LONGEST));
    Ok(Json(api.live.history(from, to)))
}

/// Traffic of every route since the start
#[utoipa::path(get, path = "/v1/traffic", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Routes that had requests, at most 2000.", body = Traffic)))]
pub(super) async fn traffic(State(api): State<Arc<Api>>) -> Result<Json<Traffic>, Problem> {
    let told = api.asked(&api.turns, super::no_access, |sources| {
        Some(Ok::<_, crate::tracker::Failure>(Traffic::of(&sources.gateway.stats())))
    });
    told.await.map(Json)
}

/// Requests that weir turned away since the start
///
/// By consumer and reason: what weir itself answered with 401, 403, 429 or 503. An upstream's
/// answers are none of them.
#[utoipa::path(get, path = "/v1/rejections", tag = "live",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "At most 2000 consumers.", body = Rejections)))]
pub(super) async fn rejections(State(api): State<Arc<Api>>) -> Result<Json<Rejections>, Problem> {
    let told = api.asked(&api.turns, super::no_access, |sources| {
        Some(Ok::<_, crate::tracker::Failure>(Rejections::of(&sources.gateway.stats())))
    });
    told.await.map(Json)
}

/// What pools did lately
///
/// A point a second, for 15 minutes at most.
#[utoipa::path(get, path = "/v1/pools/history", tag = "pools", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Points in columns, for each pool.", body = Vec<PoolHistory>),
        (status = 400, description = "These are no two times.")))]
pub(super) async fn pools(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Vec<PoolHistory>>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    Ok(Json(api.live.pools(wanted.from, wanted.to)))
}
