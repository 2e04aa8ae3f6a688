//! Named views of the console. In a fleet they are those of all nodes.

use super::job::no_database;
use super::resubmit::read;
use super::{Api, Call};
use crate::audit::Action;
use crate::problem::{Problem, Result};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;
use weir_store::views::{self, MAX_VIEWS, SavedView, Views};
use weir_tracker::{TrackerError, is_permitted};

/// A view to be saved.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewView {
    /// Query of the address of the Tracker, percent-encoded.
    search: String,
}

/// List the named views of the console
///
/// In a fleet: those of all nodes. Views with a query that the caller could not execute, or that names an API
/// outside of the scope, are left out.
#[utoipa::path(get, path = "/v1/views", tag = "views",
    responses(
        (status = 200, description = "The views, by name.", body = Vec<SavedView>),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn list(call: Call) -> Result<Json<Vec<SavedView>>> {
    let mut views = match &call.api.sources.fleet {
        Some(fleet) => fleet.views().await.map_err(no_database)?,
        None => call.api.views(Views::list).await?,
    };
    let (payload, apis) = (call.caller.reads_payloads(), &call.caller.scope.apis);
    if !payload || !apis.is_empty() {
        views.retain(|view| is_shown(&view.search, payload, apis));
    }
    Ok(Json(views))
}

/// Whether somebody may execute the query in an address.
fn is_shown(search: &str, payload: bool, apis: &[String]) -> bool {
    let mut pairs = url::form_urlencoded::parse(search.trim_start_matches('?').as_bytes());
    pairs.all(|(name, value)| name != "q" || is_permitted(&value, payload, apis))
}

/// Save a view under a name, or replace the one with this name
#[utoipa::path(put, path = "/v1/views/{name}", tag = "views", request_body = NewView,
    params(("name" = String, Path, description = "Name of the view, 1 to 80 characters.")),
    responses(
        (status = 204, description = "The view is saved."),
        (status = 400, description = "The name or the query of the address is invalid."),
        (status = 409, description = "There are 200 views already."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn save(call: Call, Path(name): Path<String>, body: Bytes) -> Result<StatusCode> {
    let NewView { search } = read(&body)?;
    views::check(&name, &search).map_err(Problem::bad)?;
    call.audit(Action::SaveView, name.clone(), search.clone()).await?;
    let who = call.caller.name.clone();
    let is_saved = match &call.api.sources.fleet {
        Some(fleet) => fleet.save_view(&name, &search, &who).await.map_err(no_database)?,
        None => call.api.views(move |views| views.save(&name, &search, &who)).await?,
    };
    if is_saved { Ok(StatusCode::NO_CONTENT) } else { Err(full()) }
}

/// Delete a view
#[utoipa::path(delete, path = "/v1/views/{name}", tag = "views",
    params(("name" = String, Path, description = "Name of the view.")),
    responses(
        (status = 204, description = "The view is deleted."),
        (status = 404, description = "Unknown view."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn delete(call: Call, Path(name): Path<String>) -> Result<StatusCode> {
    views::check(&name, "").map_err(Problem::bad)?;
    call.audit(Action::DeleteView, name.clone(), "").await?;
    let is_deleted = match &call.api.sources.fleet {
        Some(fleet) => fleet.delete_view(&name).await.map_err(no_database)?,
        None => call.api.views(move |views| views.delete(&name)).await?,
    };
    if is_deleted { Ok(StatusCode::NO_CONTENT) } else { Err(NONE) }
}

impl Api {
    /// Uses the views of this node.
    async fn views<T, E>(
        &self,
        work: impl FnOnce(&Views) -> Result<T, E> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let views = Arc::clone(&self.access()?.views);
        let done = tokio::task::spawn_blocking(move || work(&views)).await;
        let done = done.map_err(|_| TrackerError::unreadable("the task was aborted"))?;
        Ok(done.map_err(TrackerError::unreadable)?)
    }
}

fn full() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "too-many-views",
        "There are too many views",
        format!("There are {MAX_VIEWS}: delete one, or replace one by its name."),
    )
}

const NONE: Problem = Problem::not_found("Unknown view", "GET /v1/views lists the views.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_shown_to_those_who_may_execute_its_query() {
        let orders = ["orders".to_owned()];
        for (search, payload, apis, shown) in [
            ("", false, &orders[..], true),
            ("q=status%3A500&range=24h", false, &[][..], true),
            ("q=body%3Aquokka", false, &[], false),
            ("q=body%3Aquokka", true, &[], true),
            ("q=key.order%3A4711&columns=a", false, &[], false),
            ("%71=quokka", false, &[], false),
            ("q=status%3A500&q=quokka", false, &[], false),
            ("q=(", false, &[], false),
            ("q=api%3Aorders+status%3A500", true, &orders, true),
            ("q=api%3Aorders+OR+-api%3Aother", true, &orders, false),
            ("q=api%3Ao*", true, &orders, false),
        ] {
            assert_eq!(is_shown(search, payload, apis), shown, "{search} {payload} {apis:?}");
        }
    }
}
