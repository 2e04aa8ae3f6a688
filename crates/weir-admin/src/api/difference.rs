//! What distinguishes a group of transactions.

use super::Call;
use super::nodes::FiguresRequest;
use crate::access::BASE;
use crate::problem::{Params, Result};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_tracker::Difference;

/// The group and the transactions it is compared with.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DifferenceParams {
    /// The query of the group.
    q: String,
    /// The query of all transactions that are compared; those that are not in the group are the rest. Empty: all
    /// transactions.
    #[serde(default)]
    among: String,
    /// Compare business keys, too; requires the role `payload-viewer`.
    #[serde(default)]
    keys: bool,
    /// Timeout in seconds, 1 to 30; default 5, and 2 for a query over nodes. The newest transactions are
    /// compared first.
    timeout: Option<u64>,
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
}

/// Compare a group of transactions with the rest
///
/// Attributes are in the order of the largest significant difference of the shares of a value; fields that the
/// query of the group has a condition for are left out, and for a group of outcomes what else says how a
/// transaction ended. Of each side the newest 50,000 of a node are compared.
#[utoipa::path(get, path = "/v1/transactions/difference", tag = "transactions", params(DifferenceParams),
    responses(
        (status = 200, description = "Attributes of both sides.", body = Difference),
        (status = 400, description = "A query or the timeout is invalid."),
        (status = 403, description = "A query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn difference(
    call: Call,
    Params(params): Params<DifferenceParams>,
) -> Result<Response> {
    let DifferenceParams { q, among, keys, timeout, node } = &params;
    if *keys && !call.caller.reads_payloads() {
        return Err(call.caller.no_payloads("Comparing business keys"));
    }
    let (rest, keys) = (among.clone(), *keys);
    let request = FiguresRequest {
        path: format!("{BASE}/transactions/difference"),
        query: q,
        parameters: &[("among", Some(among)), ("keys", keys.then_some("true"))],
        audited: format!("among {among}"),
        timeout: *timeout,
        node: node.as_deref(),
    };
    request.respond(&call, move |tracker, search| tracker.difference(search, &rest, keys)).await
}
