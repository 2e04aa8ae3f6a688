//! Counts of transactions: facets and a histogram over time.

use super::Call;
use super::nodes::{self, Scope};
use super::transaction::timeout;
use crate::access::{BASE, forbidden};
use crate::audit::Action;
use crate::problem::{Params, Result};
use crate::role::Role;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;
use weir_fleet::Handle;
use weir_fleet::peers::{PeerRequest, Peers};
use weir_tracker::{Counts, SEARCH_TIMEOUT, Search};

/// Query and options of the counts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CountParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Include facets of business keys; requires the role `payload-viewer`.
    #[serde(default)]
    keys: bool,
    /// Timeout in seconds, 1 to 30; default 5, and 2 for a query over nodes. The newest
    /// transactions are counted first.
    timeout: Option<u64>,
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
}

/// Count transactions by field and over time
///
/// In a fleet whose nodes query each other: the sums of all nodes, or of those that respond in time;
/// `nodes` names the others. Where a facet has more values, their numbers may be too low.
#[utoipa::path(get, path = "/v1/transactions/summary", tag = "transactions", params(CountParams),
    responses(
        (status = 200, description = "Number of transactions, by field and over time.", body = Counts),
        (status = 400, description = "The query or the timeout is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn summary(call: Call, Params(params): Params<CountParams>) -> Result<Response> {
    if params.keys && call.caller.role < Role::PayloadViewer {
        return Err(forbidden(Role::PayloadViewer, "Counting business keys"));
    }
    match call.scope(params.node.as_deref())? {
        Scope::Here => {
            let timeout = timeout(params.timeout, SEARCH_TIMEOUT)?;
            Ok(Json(count_here(&call, &params, timeout).await?).into_response())
        }
        Scope::One(fleet, peer) => {
            let timeout = timeout(params.timeout, nodes::DEADLINE)?;
            let request = request(&call, &params, timeout);
            let response = nodes::forward(&fleet, &peer, &request, nodes::limit(timeout)).await?;
            Ok(nodes::passed_on(response))
        }
        Scope::All(fleet, peers) => {
            Ok(Json(count_all(&call, (&fleet, &peers), &params).await?).into_response())
        }
    }
}

/// The request to another node.
fn request(call: &Call, params: &CountParams, timeout: Duration) -> PeerRequest {
    let timeout = timeout.as_secs().to_string();
    let keys = params.keys.then_some("true");
    let parameters = [("q", Some(params.q.as_str())), ("keys", keys), ("timeout", Some(&timeout))];
    call.get(nodes::target(&format!("{BASE}/transactions/summary"), &parameters))
}

/// The counts of this node.
async fn count_here(call: &Call, params: &CountParams, timeout: Duration) -> Result<Counts> {
    let payload = call.caller.role >= Role::PayloadViewer;
    let (query, keys) = (params.q.clone(), params.keys);
    let search = Search { query, limit: 0, cursor: None, payload, timeout };
    let counts = call.api.query_tracker(move |tracker| tracker.count(&search, keys)).await?;
    if counts.payload {
        call.audit(Action::Count, params.q.clone(), "").await?;
    }
    Ok(counts)
}

/// The sums of the counts of all nodes.
async fn count_all(
    call: &Call,
    (fleet, peers): (&Handle, &Peers),
    params: &CountParams,
) -> Result<Counts> {
    let timeout = timeout(params.timeout, nodes::DEADLINE)?;
    let request = request(call, params, timeout);
    let requests = peers.others.iter().map(|peer| (peer.clone(), request.clone())).collect();
    let mut responses = fleet.query_peers(requests, nodes::limit(timeout));
    let mut all = vec![count_here(call, params, timeout).await?];
    let mut missing = Vec::new();
    while let Some((peer, response)) = responses.next().await {
        match nodes::document(response) {
            Ok(counts) => all.push(counts),
            Err(reason) => missing.push(nodes::missing(&peer, reason)),
        }
    }
    let mut sum = Counts::merge(all);
    sum.incomplete |= !missing.is_empty();
    sum.nodes = Some(nodes::nodes(peers, missing));
    Ok(sum)
}
