//! Counts of transactions: facets and a histogram over time.

use super::Call;
use super::transaction::timeout;
use crate::access::forbidden;
use crate::audit::Action;
use crate::problem::{Params, Result};
use crate::role::Role;
use axum::Json;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_tracker::{Counts, Search};

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
    /// Timeout in seconds, 1 to 30; default 5. The newest transactions are counted first.
    timeout: Option<u64>,
}

/// Count transactions by field and over time
#[utoipa::path(get, path = "/v1/transactions/summary", tag = "transactions", params(CountParams),
    responses(
        (status = 200, description = "Number of transactions, by field and over time.", body = Counts),
        (status = 400, description = "The query or the timeout is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off.")))]
pub(super) async fn summary(
    call: Call,
    Params(params): Params<CountParams>,
) -> Result<Json<Counts>> {
    let payload = call.caller.role >= Role::PayloadViewer;
    if params.keys && !payload {
        return Err(forbidden(Role::PayloadViewer, "Counting business keys"));
    }
    let (query, keys) = (params.q.clone(), params.keys);
    let timeout = timeout(params.timeout)?;
    let search = Search { query: params.q, limit: 0, cursor: None, payload, timeout };
    let counts = call.api.query_tracker(move |tracker| tracker.count(&search, keys)).await?;
    if counts.payload {
        call.audit(Action::Count, query, "").await?;
    }
    Ok(Json(counts))
}
