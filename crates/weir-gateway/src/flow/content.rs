//! Validation and transformation of the content of requests and responses.

use super::Effects;
use crate::handler::HandlerInput;
use crate::handler::script::{self, Mapped};
use crate::response_body::ResponseBody;
use crate::validate::Findings;
use crate::{transform, validate};
use weir_config::BodyMap;
use weir_config::validation::{Enforcement, Validation};
use weir_http::body::RequestBody;
use weir_http::rejection::Rejection;
use weir_model::stage;

/// Validates a request by the OpenAPI document.
pub(super) async fn validate_request<'a>(
    input: &mut HandlerInput<'_>,
    validation: &Validation,
    body: RequestBody<'a>,
) -> Result<RequestBody<'a>, Rejection> {
    let started = input.recording.mark().unwrap_or(input.context.arrival.started);
    let mut found = Findings::default();
    let (request, deadline) = (input.view(), input.context.deadline);
    let rules = (validation, &input.context.live.site.schemas);
    let checked = validate::request(&request, deadline, rules, body, &mut found).await;
    note_findings(input, "request", found);
    let body = checked?;
    input.recording.stage_ended(stage::VALIDATE, started);
    Ok(body)
}

/// Validates a response by the OpenAPI document.
pub(super) async fn validate_response<'a>(
    input: &mut HandlerInput<'_>,
    validation: &Validation,
    body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    if validation.responses == Enforcement::Off {
        return Ok(body);
    }
    let mut found = Findings::default();
    let limit = input.context.route.body_limit;
    let rules = (validation, &input.context.live.site.schemas);
    let checked = validate::response(input.stage(), rules, limit, body, &mut found);
    let checked = Box::pin(checked).await;
    note_findings(input, "response", found);
    checked
}

/// Counts and logs the findings about a `request` or a `response`.
fn note_findings(input: &mut HandlerInput<'_>, side: &'static str, found: Findings) {
    let (worker, count) = (input.context.worker, found.over_budget.len() as u64);
    let stats = &worker.stats;
    let (invalid, over_budget) = match side {
        "request" => (&stats.invalid_requests, &stats.validation_over_budget_requests),
        _ => (&stats.invalid_responses, &stats.validation_over_budget_responses),
    };
    invalid.add(found.invalid);
    over_budget.add(count);
    for violation in &found.over_budget {
        worker.over_budget.add(&input.view(), side, violation);
    }
    if !found.notes.is_empty() {
        input.notes.get_or_insert_default().logs.extend(found.notes);
    }
}

/// Transforms a request before the handler.
pub(super) async fn map_request<'a, E: Effects>(
    input: &mut HandlerInput<'_>,
    map: &BodyMap,
    body: RequestBody<'a>,
) -> Result<Mapped<'a>, Rejection> {
    let started = input.recording.mark().unwrap_or(input.context.arrival.started);
    let mapped = match map {
        BodyMap::Structure(one) => {
            let (request, deadline) = (input.view(), input.context.deadline);
            let built = transform::build(&request, deadline, one, 0, body);
            let (mapped, content_type) = Box::pin(built).await?;
            input.request.headers.set("content-type", content_type.as_bytes());
            Mapped::Request(RequestBody::buffered(mapped))
        }
        // The script may send requests to upstreams.
        BodyMap::Script(_) if !E::CALLS_SCRIPTS => Mapped::Request(body),
        BodyMap::Script(script) => Box::pin(script::map_request(input, script, body)).await?,
    };
    input.recording.stage_ended(stage::REQUEST_MAP, started);
    Ok(mapped)
}

/// Transforms the response of the handler.
pub(super) async fn map_response<'a, E: Effects>(
    input: &mut HandlerInput<'_>,
    map: &BodyMap,
    body: ResponseBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let limit = input.context.route.body_limit;
    let body = match map {
        BodyMap::Structure(one) => {
            Box::pin(transform::response(input.stage(), one, limit, body)).await?
        }
        BodyMap::Script(_) if !E::CALLS_SCRIPTS => body,
        BodyMap::Script(script) => Box::pin(script::map_response(input, script, body)).await?,
    };
    input.recording.stage_ended(stage::RESPONSE_MAP, input.context.arrival.started);
    Ok(body)
}
