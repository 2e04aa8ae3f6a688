//! Usage, and rebuild of the metering.

use super::stream::{Pace, line, respond};
use super::{Call, permit};
use crate::Metering;
use crate::audit::Action;
use crate::counts;
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::mpsc;
use std::time::Duration;
use weir_fleet::collect::{Collected, Selection};
use weir_monitor::{CounterCommand, RebuildReport, Report, UsageError, UsageQuery};
use weir_tracker::TrackerError;

/// Longest wait for the end of a rebuild between keep-alive lines.
const REBUILD_POLL: Duration = Duration::from_secs(1);

/// Query usage by consumer, API, operation, plan, status and time
#[utoipa::path(get, path = "/v1/usage", tag = "monitor", params(UsageQuery),
    responses(
        (status = 200, description = "Usage up to about a second ago.",
            body = Report),
        (status = 400, description = "The query is invalid, or its result has too many rows."),
        (status = 409, description = "Metering is off."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn usage(call: Call, Params(query): Params<UsageQuery>) -> Result<Json<Report>> {
    let query = UsageQuery { apis: call.caller.scope.apis.clone(), ..query };
    let now = jiff::Timestamp::now();
    let usage = query.parse(now).map_err(UsageError::Query)?;
    let selection = Selection {
        from: usage.from,
        to: usage.to.unwrap_or(now.as_second().unsigned_abs()),
        step: usage.step,
        consumer: usage.consumer,
        node: query.node.clone(),
    };
    call.api
        .query(&call.api.permits, NOT_COUNTING, move |sources| {
            let collected = counts::select(sources, &selection)?;
            Some(collected.and_then(|Collected { monitor, gaps, unreported }| {
                Ok(Report { unreported, ..monitor.report(&query, &gaps)? })
            }))
        })
        .await
        .map(Json)
}

/// Rebuild metering from the journal
///
/// One JSON object per line at the end; empty lines before it are keep-alives.
#[utoipa::path(post, path = "/v1/monitor/rebuild", tag = "monitor",
    responses(
        (status = 200, description = "The rebuilt period and its changes.",
            content_type = "application/x-ndjson", body = RebuildReport),
        (status = 409, description = "Metering is off."),
        (status = 503, description = "Too many long queries are running.")))]
pub(super) async fn rebuild(call: Call) -> Result<Response> {
    let Some(Metering { commands, .. }) = &call.api.sources.metering else {
        return Err(NOT_COUNTING);
    };
    let permit = permit(&call.api.long, "long queries")?;
    call.audit(Action::Rebuild, "", "").await?;
    let (report, reported) = mpsc::channel();
    let is_queued = commands.try_send(CounterCommand::Rebuild(report)).is_ok();
    let mut pending = Some(reported).filter(|_| is_queued);
    let source = move || match pending.as_ref()?.recv_timeout(REBUILD_POLL) {
        Ok(report) => {
            pending = None;
            Some(line(&report))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => Some(String::new()),
        Err(mpsc::RecvTimeoutError::Disconnected) => None,
    };
    Ok(respond(source, Pace::Steady, call.grant()?, permit))
}

impl From<UsageError> for Problem {
    fn from(error: UsageError) -> Self {
        match error {
            UsageError::Query(_) | UsageError::Rows(_) | UsageError::Step => {
                Problem::bad(format!("{error}."))
            }
            UsageError::Monitor(_) | UsageError::Gaps(_) => TrackerError::unreadable(error).into(),
        }
    }
}

const NOT_COUNTING: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "not-counting",
    "Metering is off",
    "Set `monitor.count`, or a quota or price of a plan.",
);
