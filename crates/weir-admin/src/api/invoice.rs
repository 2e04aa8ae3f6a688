//! Invoices.

use super::transaction::bad;
use super::{Api, busy};
use crate::invoice::{self, Invoice, InvoiceFailure, csv, html};
use crate::problem::Problem;
use axum::Json;
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Period, consumer and format of invoices.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Month (`2026-11`), year (`2026`) or day (`2026-11-21`).
    period: String,
    /// Time zone of the period; default UTC.
    #[serde(default = "utc")]
    zone: String,
    /// Only this consumer; default: all consumers with a price.
    consumer: Option<String>,
    /// Format: `json`, `csv` or `html`; default `json`.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    #[default]
    Json,
    Csv,
    Html,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Create invoices
#[utoipa::path(get, path = "/v1/invoices", tag = "usage", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "The invoices as JSON, CSV (RFC 4180) or a printable page.", body = Vec<Invoice>),
        (status = 400, description = "The period is invalid, or cannot be billed as a whole."),
        (status = 409, description = "Metering is off.")))]
pub(super) async fn invoices(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let Wanted { period, zone, consumer, format } = wanted;
    let Ok(turn) = Arc::clone(&api.turns).try_acquire_owned() else {
        return Err(busy("queries"));
    };
    let sources = Arc::clone(&api.sources);
    let asked = tokio::task::spawn_blocking(move || {
        let billing = sources.billing.as_ref();
        let made = billing.map(|b| (b.invoices)(&invoice::Wanted { consumer, period, zone }));
        drop(turn);
        made
    });
    let made = match asked.await {
        Ok(Some(made)) => made.map_err(Problem::from)?,
        Ok(None) => return Err(not_counting()),
        Err(_) => return Err(InvoiceFailure::Unreadable("the query was aborted".to_owned()).into()),
    };
    let typed = |kind: &'static str, text: String| ([(header::CONTENT_TYPE, kind)], text);
    Ok(match format {
        Format::Json => Json(made).into_response(),
        Format::Csv => typed("text/csv; charset=utf-8; header=present", csv(&made)).into_response(),
        Format::Html => typed("text/html; charset=utf-8", html(&made)).into_response(),
    })
}

impl From<InvoiceFailure> for Problem {
    fn from(failure: InvoiceFailure) -> Self {
        let (status, kind, title) = match failure {
            InvoiceFailure::Wanted(_) => (StatusCode::BAD_REQUEST, "bad-request", "Invalid period"),
            InvoiceFailure::Unreadable(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "unreadable", "Metering data cannot be read")
            }
        };
        Self { status, kind, title, place: None, detail: format!("{failure}.") }
    }
}

fn not_counting() -> Problem {
    Problem {
        status: StatusCode::CONFLICT,
        kind: "not-counting",
        title: "Metering is off",
        place: None,
        detail: "Calls are metered for plans with a price or a quota, and by `monitor.count`."
            .to_owned(),
    }
}
