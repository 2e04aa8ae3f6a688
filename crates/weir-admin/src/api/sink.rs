//! Sinks of transactions: lag, rejected documents, gaps and backfills.

use super::Call;
use super::nodes::{self, Scope};
use crate::access::BASE;
use crate::audit::Action;
use crate::problem::{Params, Problem, Result};
use crate::sinks::{BackfillBody, NodeSinks, SinkLists, SinkView};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use weir_model::UnixMicros;
use weir_ship::{
    BackfillOptions, RejectedDocument, ShipError, ShipGap, SinkKind, SinkState, Sinks,
};
use weir_tracker::{MAX_PAGE_HITS, TrackerError};

/// Default number of listed documents and gaps.
const DEFAULT_LISTED: usize = 100;

/// The node of a query.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NodeParam {
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
}

/// Number of entries of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Maximum number of entries, 1 to 1000; default 100.
    limit: Option<usize>,
}

/// List sinks of transactions, with their lag
///
/// In a fleet whose nodes query each other: of all nodes.
#[utoipa::path(get, path = "/v1/sinks", tag = "sinks", params(NodeParam),
    responses(
        (status = 200, description = "Sinks by node.", body = SinkLists),
        (status = 409, description = "Recording is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn list(call: Call, Params(params): Params<NodeParam>) -> Result<Response> {
    let request = call.get(nodes::target(&format!("{BASE}/sinks"), &[]));
    let limit = nodes::limit(nodes::DEADLINE);
    match call.scope(params.node.as_deref())? {
        Scope::Here => {
            let node = call.api.sources.fleet.as_ref().map(weir_fleet::Handle::node);
            let name = node.unwrap_or_default().1;
            let here = NodeSinks { node: name, sinks: call.sinks_here().await? };
            Ok(Json(SinkLists { nodes: vec![here], missing: Vec::new() }).into_response())
        }
        Scope::One(fleet, peer) => {
            let response = nodes::forward(&fleet, &peer, &request, limit).await?;
            Ok(nodes::passed_on(response))
        }
        Scope::All(fleet, peers) => {
            let requests = peers.others.iter().map(|peer| (peer.clone(), request.clone()));
            let mut responses = fleet.query_peers(requests.collect(), limit);
            let here = NodeSinks { node: peers.name.clone(), sinks: call.sinks_here().await? };
            let mut lists = SinkLists { nodes: vec![here], missing: Vec::new() };
            while let Some((peer, response)) = responses.next().await {
                match nodes::document::<SinkLists>(response) {
                    Ok(found) => lists.nodes.extend(found.nodes),
                    Err(reason) => lists.missing.push(nodes::missing(&peer, reason)),
                }
            }
            lists.nodes.sort_by(|one, other| one.node.cmp(&other.node));
            Ok(Json(lists).into_response())
        }
    }
}

/// List the documents that sinks have rejected on this node, newest first
#[utoipa::path(get, path = "/v1/sinks/rejected", tag = "sinks", params(ListParams),
    responses(
        (status = 200, description = "Transactions, with the reason.", body = Vec<RejectedDocument>),
        (status = 409, description = "Recording is off.")))]
pub(super) async fn rejected(
    call: Call,
    Params(params): Params<ListParams>,
) -> Result<Json<Vec<RejectedDocument>>> {
    let limit = super::transaction::limit(params.limit, DEFAULT_LISTED, MAX_PAGE_HITS)?;
    call.read_data(move |data| weir_ship::rejected(data, limit as u32)).await.map(Json)
}

/// List what was not sent to sinks by this node, or without headers and bodies
#[utoipa::path(get, path = "/v1/sinks/gaps", tag = "sinks", params(ListParams),
    responses(
        (status = 200, description = "Gaps by lane of the journal.", body = Vec<ShipGap>),
        (status = 409, description = "Recording is off.")))]
pub(super) async fn gaps(
    call: Call,
    Params(params): Params<ListParams>,
) -> Result<Json<Vec<ShipGap>>> {
    let limit = super::transaction::limit(params.limit, DEFAULT_LISTED, MAX_PAGE_HITS)?;
    call.read_data(move |data| weir_ship::gaps(data, limit as u32)).await.map(Json)
}

/// Start a backfill of a sink by this node
///
/// Transactions in recorded gaps that the journal still has are sent to the sink beside the live ones, in
/// at most every second request. `GET /v1/sinks` shows the progress.
#[utoipa::path(post, path = "/v1/sinks/{name}/backfill", tag = "sinks", request_body = BackfillBody,
    params(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status = 202, description = "The backfill starts."),
        (status = 400, description = "The period is invalid."),
        (status = 404, description = "Unknown sink."),
        (status = 409, description = "A backfill of this sink is running, the sink is Kafka, or recording is off.")))]
pub(super) async fn backfill(
    call: Call,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode> {
    let BackfillBody { from, to, all } = super::resubmit::read(&body)?;
    let micros = |time: Option<UnixMicros>| time.map(|time| time.0);
    let options = BackfillOptions { from: micros(from), to: micros(to), all };
    if options.from.zip(options.to).is_some_and(|(from, to)| from >= to) {
        return Err(Problem::bad("`from` must be before `to`."));
    }
    let sinks = call.sinks()?;
    match sinks.states().get(&name).map(|state| state.kind) {
        Some(SinkKind::OpenSearch) => {}
        Some(SinkKind::Kafka) => return Err(NO_BACKFILL),
        None => {
            return Err(Problem::not_found("Unknown sink", "GET /v1/sinks lists the sinks."));
        }
    }
    let details = json!({"from": from, "to": to, "all": all}).to_string();
    call.audit(Action::Backfill, name.as_str(), details).await?;
    if sinks.backfill(&name, options) { Ok(StatusCode::ACCEPTED) } else { Err(RUNNING) }
}

const NO_BACKFILL: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "no-backfill",
    "A sink of Kafka has no backfill",
    "Its topic could get transactions twice. `weir search --export` writes those of a period.",
);

const RUNNING: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "backfill-running",
    "A backfill is running",
    "GET /v1/sinks shows its progress.",
);

impl Call {
    fn sinks(&self) -> Result<&Sinks> {
        self.api.sources.sinks.as_ref().ok_or(super::NOT_RECORDING)
    }

    /// The sinks of this node.
    async fn sinks_here(&self) -> Result<Vec<SinkView>> {
        let sinks = self.sinks()?.clone();
        let read = move |_: &crate::Sources| {
            let lags = sinks.lags().map_err(TrackerError::unreadable);
            Some(lags.map(|lags| (sinks.states(), lags)))
        };
        let read = self.api.query(&self.api.permits, super::NOT_RECORDING, read);
        let (states, mut lags) = read.await?;
        let view = |(name, state): (String, SinkState)| {
            let lag = lags.remove(&name).unwrap_or_default();
            SinkView::new(name, state, lag)
        };
        Ok(states.into_iter().map(view).collect())
    }

    /// Reads the database of the data folder.
    async fn read_data<T: Send + 'static>(
        &self,
        read: impl FnOnce(&std::path::Path) -> Result<T, ShipError> + Send + 'static,
    ) -> Result<T> {
        self.sinks()?;
        let read = move |sources: &crate::Sources| {
            let read = read(&sources.gateway.config().data);
            Some(read.map_err(TrackerError::unreadable))
        };
        self.api.query(&self.api.permits, super::NOT_RECORDING, read).await
    }
}
