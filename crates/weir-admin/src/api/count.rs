//! Counts of transactions: facets and a histogram over time.

use super::Call;
use super::nodes::FiguresRequest;
use crate::access::BASE;
use crate::problem::{Params, Result};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_tracker::Counts;

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
///
/// Equal requests share their figures, which are then at most 5 s old, and at most 50 times as old as the
/// query took.
#[utoipa::path(get, path = "/v1/transactions/summary", tag = "transactions", params(CountParams),
    responses(
        (status = 200, description = "Number of transactions, by field and over time.", body = Counts),
        (status = 400, description = "The query or the timeout is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn summary(call: Call, Params(params): Params<CountParams>) -> Result<Response> {
    let CountParams { q, keys, timeout, node } = &params;
    if *keys && !call.caller.reads_payloads() {
        return Err(call.caller.no_payloads("Counting business keys"));
    }
    let keys = *keys;
    let request = FiguresRequest {
        path: format!("{BASE}/transactions/summary"),
        query: q,
        parameters: &[("keys", keys.then_some("true"))],
        audited: String::new(),
        timeout: *timeout,
        node: node.as_deref(),
    };
    request.respond(&call, move |tracker, search| tracker.count(search, keys)).await
}
