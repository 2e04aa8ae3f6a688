//! The fleet: state, and retirement of nodes.

use super::Call;
use super::nodes::{self, Scope};
use crate::access::BASE;
use crate::audit::Action;
use crate::counts::{HERE, NO_FLEET};
use crate::problem::{Params, Problem, Result};
use crate::verification::FleetVerification;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use std::ops::Range;
use std::time::Duration;
use tokio::runtime::Handle;
use utoipa::IntoParams;
use uuid::Uuid;
use weir_fleet::Retirement;
use weir_fleet::peers::{Peer, PeerError, PeerRequest, PeerResponse};
use weir_fleet::status::{FleetStatus, NodeState};
use weir_fleet::verify::UsageVerification;
use weir_monitor::billing::{BillingError, period};
use weir_tracker::document::MissingNode;

/// Show the nodes of the fleet, as of the last heartbeat of this node
#[utoipa::path(get, path = "/v1/fleet", tag = "fleet",
    responses(
        (status = 200, description = "Nodes, the shared database, and findings.", body = FleetStatus),
        (status = 404, description = "This node is not a member of a fleet.")))]
pub(super) async fn status(call: Call) -> Result<Json<FleetStatus>> {
    Ok(Json(call.fleet()?.status()))
}

/// The period that is verified.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParams {
    /// Month (`2026-11`), year (`2026`) or day (`2026-11-21`), in UTC.
    period: String,
    /// Name or id of the node that compares its counts, or `here`; default: all.
    node: Option<String>,
}

/// Longest wait for the comparison of another node.
const VERIFY_LIMIT: Duration = Duration::from_secs(10);

/// Compare the usage that nodes have counted with the database of the fleet
///
/// Each node compares its own counts.
#[utoipa::path(get, path = "/v1/fleet/usage", tag = "fleet", params(VerifyParams),
    responses(
        (status = 200, description = "Days that differ, by node.", body = FleetVerification),
        (status = 400, description = "The period is invalid."),
        (status = 404, description = "This node is not a member of a fleet."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn verify(
    call: Call,
    Params(params): Params<VerifyParams>,
) -> Result<Json<FleetVerification>> {
    let range = period(&params.period, "UTC").map_err(BillingError::Period)?;
    let fleet = call.fleet()?.clone();
    let own = match call.scope(params.node.as_deref())? {
        Scope::One(fleet, peer) => {
            let request = verify_request(&call, &params.period);
            let response = fleet.query_peer(&peer, &request, VERIFY_LIMIT).await;
            let mut verification = FleetVerification::default();
            verification.add(&peer, response);
            return Ok(Json(verification));
        }
        Scope::Here if params.node.is_some() || call.caller.via.is_some() => true,
        Scope::Here | Scope::All(..) => false,
    };
    let here = verify_here(&call, &fleet, range);
    if own {
        let nodes = vec![here.await?];
        return Ok(Json(FleetVerification { nodes, ..FleetVerification::default() }));
    }
    let (here, others) = tokio::join!(here, verify_others(&call, &fleet, &params.period));
    let mut all = others;
    all.nodes.push(here?);
    all.nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    all.unverified.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(Json(all))
}

impl FleetVerification {
    fn add(&mut self, peer: &Peer, response: std::result::Result<PeerResponse, PeerError>) {
        match nodes::document::<Self>(response) {
            Ok(verified) => self.nodes.extend(verified.nodes),
            Err(reason) => self.unverified.push(nodes::missing(peer, reason)),
        }
    }
}

fn verify_request(call: &Call, period: &str) -> PeerRequest {
    let target = format!("{BASE}/fleet/usage");
    call.get(nodes::target(&target, &[("period", Some(period)), ("node", Some(HERE))]))
}

async fn verify_here(
    call: &Call,
    fleet: &weir_fleet::Handle,
    range: Range<u64>,
) -> Result<UsageVerification> {
    let fleet = fleet.clone();
    call.api
        .query(&call.api.permits, NO_FLEET, move |sources| {
            let data = &sources.gateway.config().data;
            Some(Handle::current().block_on(fleet.verify(data, &range)))
        })
        .await
}

/// The verifications of all other nodes that have not left the fleet.
async fn verify_others(call: &Call, fleet: &weir_fleet::Handle, period: &str) -> FleetVerification {
    let mut all = FleetVerification::default();
    let Some(peers) = fleet.peers() else {
        let FleetStatus { node: own, nodes, .. } = fleet.status();
        let left = |state| matches!(state, NodeState::Retired | NodeState::Lost);
        let others = nodes.into_iter().filter(|node| node.id != own && !left(node.state));
        all.unverified.extend(others.map(|node| MissingNode {
            id: node.id,
            name: node.name,
            reason: "nodes query each other only with `fleet.key` and `fleet.advertise`".to_owned(),
        }));
        return all;
    };
    let request = verify_request(call, period);
    let requests = peers.others.iter().map(|peer| (peer.clone(), request.clone())).collect();
    let mut responses = fleet.query_peers(requests, VERIFY_LIMIT);
    while let Some((peer, response)) = responses.next().await {
        all.add(&peer, response);
    }
    all
}

/// How a node leaves the fleet.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RetireParams {
    /// The data of the node is gone: what it has not reported is missing for ever.
    #[serde(default)]
    lost: bool,
}

/// Retire a node that has ended
///
/// A retired node is not waited for. If it starts again, it is a member again.
#[utoipa::path(post, path = "/v1/fleet/nodes/{id}/retire", tag = "fleet",
    params(("id" = String, Path, description = "Id of the node."), RetireParams),
    responses(
        (status = 204, description = "The node is retired."),
        (status = 404, description = "Unknown node, or no fleet."),
        (status = 409, description = "The node still sends heartbeats."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn retire(
    call: Call,
    Path(id): Path<String>,
    Params(RetireParams { lost }): Params<RetireParams>,
) -> Result<StatusCode> {
    let fleet = call.fleet()?.clone();
    let id: Uuid = id.parse().map_err(|_| UNKNOWN_NODE)?;
    call.audit(Action::RetireNode, id.to_string(), if lost { "lost" } else { "" }).await?;
    match fleet.retire(id, lost).await {
        Ok(Retirement::Done) => Ok(StatusCode::NO_CONTENT),
        Ok(Retirement::Unknown) => Err(UNKNOWN_NODE),
        Ok(Retirement::Live) => Err(LIVE),
        Err(error) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-database",
            "The database of the fleet cannot be used",
            format!("{error}."),
        )),
    }
}

impl Call {
    pub(super) fn fleet(&self) -> Result<&weir_fleet::Handle> {
        self.api.sources.fleet.as_ref().ok_or(NO_FLEET)
    }
}

pub(super) const NO_CHECK: Problem = Problem::unavailable(
    "The version cannot be checked",
    "weir is stopping, or the check timed out; try again later.",
);

const UNKNOWN_NODE: Problem = Problem::not_found("Unknown node", "GET /v1/fleet lists the nodes.");

const LIVE: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "node-is-live",
    "The node still sends heartbeats",
    "Stop the node, or wait until its lease of 10 s has ended.",
);
