//! Counting transactions: facets and a histogram over time.

use super::Api;
use super::transaction::{bad, timeout};
use crate::access::forbidden;
use crate::audit::Action;
use crate::problem::Problem;
use crate::role::Role;
use crate::tokens::Caller;
use crate::tracker::{Counts, Search};
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// What to count.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The query; an empty one counts everything.
    #[serde(default)]
    q: String,
    /// Count the values of business keys, too; that needs payload-viewer.
    #[serde(default)]
    keys: bool,
    /// Most seconds to count, 1 to 30; 5 if it is not said. The newest are counted first.
    timeout: Option<u64>,
}

/// Count transactions by field and over time
#[utoipa::path(get, path = "/v1/transactions/summary", tag = "transactions", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "How many there are, by field and over time.", body = Counts),
        (status = 400, description = "The query or the timeout is wrong."),
        (status = 403, description = "It asks for payloads; that needs payload-viewer."),
        (status = 409, description = "Nothing is recorded or indexed here.")))]
pub(super) async fn summary(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Counts>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let payload = caller.role >= Role::PayloadViewer;
    if wanted.keys && !payload {
        return Err(forbidden(Role::PayloadViewer, "Counting business keys"));
    }
    let (query, keys) = (wanted.q.clone(), wanted.keys);
    let timeout = timeout(wanted.timeout)?;
    let search = Search { query: wanted.q, limit: 0, cursor: None, payload, timeout };
    let counts = api.ask(move |tracker| (tracker.count)(&(search, keys))).await?;
    if counts.payload {
        api.audit(&caller, Action::Count(query)).await?;
    }
    Ok(Json(counts))
}
