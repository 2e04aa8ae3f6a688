//! Rate, outcomes and durations of transactions over time.

use super::Call;
use super::nodes::FiguresRequest;
use crate::access::BASE;
use crate::problem::{Params, Result};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_tracker::Profile;

/// Query and options of the figures.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ProfileParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Timeout in seconds, 1 to 30; default 5, and 2 for a query over nodes. The newest
    /// transactions are read first.
    timeout: Option<u64>,
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
}

/// Rate, outcomes and durations of transactions
///
/// By intervals of time: numbers by class of status, and histograms of durations. The slowest transactions, and
/// the mean durations of stages. In a fleet as the counts: the sums of all nodes.
#[utoipa::path(get, path = "/v1/transactions/profile", tag = "transactions", params(ProfileParams),
    responses(
        (status = 200, description = "Figures over time.", body = Profile),
        (status = 400, description = "The query or the timeout is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn profile(call: Call, Params(params): Params<ProfileParams>) -> Result<Response> {
    let ProfileParams { q, timeout, node } = &params;
    let request = FiguresRequest {
        path: format!("{BASE}/transactions/profile"),
        query: q,
        parameters: &[],
        audited: String::new(),
        timeout: *timeout,
        node: node.as_deref(),
    };
    request.respond(&call, |tracker, search| tracker.profile(search)).await
}
