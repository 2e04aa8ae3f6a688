//! Invoices.

use super::Call;
use crate::counts;
use crate::invoice::{csv, html};
use crate::problem::{Params, Problem, Result};
use crate::sources::Sources;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::fmt::Display;
use utoipa::IntoParams;
use weir_fleet::collect::{Collected, Selection};
use weir_monitor::UsageError;
use weir_monitor::billing::{BillingError, Invoice, InvoiceQuery, find_invoices, period};

/// Period, consumer and format of invoices.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct InvoiceParams {
    /// Month (`2026-11`), year (`2026`) or day (`2026-11-21`).
    period: String,
    /// Time zone of the period; default UTC.
    #[serde(default = "utc")]
    zone: String,
    /// Only this consumer; default: all consumers with a price.
    consumer: Option<String>,
    /// Only calls that this node of the fleet has counted: its name or id, or `here` for the node that
    /// responds; default: all nodes.
    node: Option<String>,
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
#[utoipa::path(get, path = "/v1/invoices", tag = "usage", params(InvoiceParams),
    responses(
        (status = 200, description = "The invoices as JSON, CSV (RFC 4180) or a printable page.", body = Vec<Invoice>),
        (status = 400, description = "The period is invalid, or cannot be billed as a whole."),
        (status = 409, description = "Metering is off.")))]
pub(super) async fn invoices(
    call: Call,
    Params(params): Params<InvoiceParams>,
) -> Result<Response> {
    let InvoiceParams { period: text, zone, consumer, node, format } = params;
    let range = period(&text, &zone).map_err(BillingError::Period)?;
    let selection = Selection {
        from: range.start,
        to: range.end,
        step: None,
        consumer: consumer.clone(),
        node,
    };
    let query = InvoiceQuery { consumer, period: text, zone };
    let find = move |sources: &Sources| {
        let collected = counts::select(sources, &selection)?;
        Some(collected.and_then(|collected| invoices_of(&collected, &query)))
    };
    let invoices = call.api.query(&call.api.permits, NOT_COUNTING, find).await?;
    let typed = |kind: &'static str, text: String| ([(header::CONTENT_TYPE, kind)], text);
    Ok(match format {
        Format::Json => Json(invoices).into_response(),
        Format::Csv => {
            typed("text/csv; charset=utf-8; header=present", csv(&invoices)).into_response()
        }
        Format::Html => typed("text/html; charset=utf-8", html(&invoices)).into_response(),
    })
}

fn invoices_of(collected: &Collected, query: &InvoiceQuery) -> Result<Vec<Invoice>> {
    let Collected { monitor, gaps, unreported } = collected;
    let mut invoices = find_invoices(monitor, gaps, query)?;
    invoices.iter_mut().for_each(|invoice| invoice.unreported = unreported.clone());
    Ok(invoices)
}

impl From<BillingError> for Problem {
    fn from(error: BillingError) -> Self {
        match error {
            BillingError::Gaps(error) => unreadable(error),
            BillingError::Usage(UsageError::Monitor(error)) => unreadable(error),
            error => Self::new(
                StatusCode::BAD_REQUEST,
                "bad-request",
                "Invalid period",
                format!("{error}."),
            ),
        }
    }
}

fn unreadable(error: impl Display) -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "unreadable",
        "Metering data cannot be read",
        format!("{error}."),
    )
}

const NOT_COUNTING: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "not-counting",
    "Metering is off",
    "Calls are metered for plans with a price or a quota, and by `monitor.count`.",
);
