//! Validation of requests and responses by the OpenAPI document. A validated body is buffered,
//! within the route's limit; one that arrived with the head stays in its buffer.

use crate::response_body::ResponseBody;
use bytes::Bytes;
use weir_config::Segment;
use weir_config::validation::{Enforcement, Place, Validation, Violation};
use weir_http::body::RequestBody;
use weir_http::deadline::Deadline;
use weir_http::headers::{self, is_encoded};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_record::client_request::{ClientRequest, StageInput};
use weir_validate::{Fault, RequestParts, Schemas};
use weir_wire::{Framing, Known, Method};

/// Findings of validation, besides its verdict.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Number of mismatches.
    pub(crate) invalid: u64,
    /// Validations that exceeded their budget.
    pub(crate) over_budget: Vec<Violation>,
    /// Lines for the log of the transaction.
    pub(crate) notes: Vec<String>,
}

/// Validates parameters and body of a request; returns the body, buffered if it was read.
pub(crate) async fn request<'a>(
    request: &ClientRequest<'_>,
    deadline: &Deadline,
    (validation, schemas): (&Validation, &Schemas),
    mut body: RequestBody<'a>,
    found: &mut Findings,
) -> Result<RequestBody<'a>, Rejection> {
    if validation.requests == Enforcement::Off {
        return Ok(body);
    }
    if !validation.parameters.is_empty() {
        let checked = parameters(request, validation, schemas);
        settle(found, validation.requests, checked)?;
    }
    let Some(rules) = &validation.body else { return Ok(body) };
    if matches!(body.framing(), Framing::None | Framing::Length(0)) {
        if rules.required {
            judge(found, validation.requests, vec![of_body("a body is required".to_owned())])?;
        }
        return Ok(body);
    }
    let content = match rules.content(request.head.headers.known(Known::ContentType)) {
        Ok(content) => content,
        Err(accepted) => {
            let rejection = Rejection::new(Problem::UnsupportedMediaType).detail(accepted);
            return lenient(found, validation.requests, rejection).map(|()| body);
        }
    };
    if !content.reads_body() {
        return Ok(body);
    }
    if is_encoded(&request.head.headers) {
        let rejection = Rejection::new(Problem::UnsupportedMediaType)
            .detail("compressed bodies cannot be validated");
        return lenient(found, validation.requests, rejection).map(|()| body);
    }
    if let Some(bytes) = body.complete_if_buffered()? {
        let checked = schemas.check_body(content, bytes);
        settle(found, validation.requests, checked)?;
        return Ok(body);
    }
    let bytes = Box::pin(body.read_all(deadline)).await?;
    settle(found, validation.requests, schemas.check_body(content, &bytes))?;
    Ok(RequestBody::buffered(bytes))
}

/// Rejects a body that does not match, or logs it.
fn settle(
    found: &mut Findings,
    mode: Enforcement,
    checked: Result<(), Fault>,
) -> Result<(), Rejection> {
    match checked {
        Ok(()) => Ok(()),
        Err(Fault::Violations(violations)) => judge(found, mode, violations),
        Err(Fault::Malformed(why)) => {
            lenient(found, mode, Rejection::new(Problem::MalformedJson).detail(why))
        }
        Err(Fault::OverBudget(violation)) => {
            found.over_budget.push(violation.clone());
            let rejection = Rejection::new(Problem::InvalidRequest).violations(vec![violation]);
            if mode == Enforcement::Enforce {
                note(found, "request", &rejection);
            }
            lenient(found, mode, rejection)
        }
    }
}

fn parameters(
    request: &ClientRequest<'_>,
    validation: &Validation,
    schemas: &Schemas,
) -> Result<(), Fault> {
    let pattern = request.route.into_iter().flat_map(|route| &route.path.segments);
    let path: Vec<(&str, &str)> = pattern
        .zip(request.segments_below_base())
        .filter_map(|(pattern, raw)| match pattern {
            Segment::Template(name) => Some((name.as_str(), raw)),
            Segment::Literal(_) => None,
        })
        .collect();
    let request = request.head;
    let fields = |name: &str| {
        let named = request.headers.iter().filter(|(_, n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, _, value)| headers::text(value).into_owned()).collect()
    };
    let query = request.query().unwrap_or_default();
    let parts = RequestParts { path: &path, query, headers: &fields };
    schemas.check_parameters(&validation.parameters, &parts)
}

/// A violation of the body as a whole.
fn of_body(detail: String) -> Violation {
    Violation { place: Place::Body, name: String::new(), pointer: String::new(), detail }
}

/// Rejects violations, or logs them.
fn judge(
    found: &mut Findings,
    mode: Enforcement,
    violations: Vec<Violation>,
) -> Result<(), Rejection> {
    if violations.is_empty() {
        return Ok(());
    }
    lenient(found, mode, Rejection::new(Problem::InvalidRequest).violations(violations))
}

/// Rejects only with `enforce`; otherwise the rejection is logged.
fn lenient(found: &mut Findings, mode: Enforcement, rejection: Rejection) -> Result<(), Rejection> {
    found.invalid += 1;
    if mode == Enforcement::Enforce {
        return Err(rejection);
    }
    note(found, "request", &rejection);
    Ok(())
}

/// Adds a mismatch to the transaction's log.
fn note(found: &mut Findings, what: &str, rejection: &Rejection) {
    let (logs, details) = (&mut found.notes, rejection.details());
    if let Some(detail) = &details.detail {
        logs.push(format!("invalid {what}: {detail}"));
    }
    for v in &details.violations {
        let Violation { place, name, pointer, detail } = v;
        let space = if name.is_empty() { "" } else { " " };
        let place = place.as_str();
        logs.push(format!("invalid {what}: {place}{space}{name}{pointer}: {detail}"));
    }
}

/// Validates a response of at most `limit` bytes. With `enforce`, a longer one is rejected;
/// otherwise the body is not validated if it is longer, or its length unknown.
pub(crate) async fn response<'a>(
    input: StageInput<'_>,
    (validation, schemas): (&Validation, &Schemas),
    limit: u64,
    mut body: ResponseBody<'a>,
    found: &mut Findings,
) -> Result<ResponseBody<'a>, Rejection> {
    let StageInput { request, response, deadline, .. } = input;
    let bodiless = matches!(response.status, 204 | 205 | 304) || body.length() == Some(0);
    let content_type = response.headers.known(Known::ContentType);
    let content = match validation.answer(response.status, content_type) {
        Ok(content) => content,
        Err(violation) if bodiless && violation.place != Place::Status => None,
        Err(violation) => {
            verdict(found, validation, vec![violation])?;
            return Ok(body);
        }
    };
    let enforced = validation.responses == Enforcement::Enforce;
    let Some(content) = content.filter(|content| content.reads_body()) else { return Ok(body) };
    if bodiless || request.head.method == Method::Head {
        return Ok(body);
    }
    let short = body.length().is_some_and(|length| length <= limit);
    if is_encoded(&response.headers) || !(enforced || short) {
        if enforced {
            let detail = "compressed bodies cannot be validated".to_owned();
            let name = "content-encoding".to_owned();
            let pointer = String::new();
            let violation = Violation { place: Place::Header, name, pointer, detail };
            verdict(found, validation, vec![violation])?;
        }
        return Ok(body);
    }
    let bytes = body.read_all(deadline, limit).await?;
    let violations = match schemas.check_body(content, &bytes) {
        Ok(()) => return Ok(ResponseBody::Whole(Bytes::from(bytes))),
        Err(Fault::Violations(violations)) => violations,
        Err(Fault::Malformed(detail)) => vec![of_body(detail)],
        Err(Fault::OverBudget(violation)) => {
            found.over_budget.push(violation.clone());
            vec![violation]
        }
    };
    verdict(found, validation, violations)?;
    Ok(ResponseBody::Whole(Bytes::from(bytes)))
}

/// Records the violations, and rejects the response with `enforce`. The details go to the record,
/// not to the client.
fn verdict(
    found: &mut Findings,
    validation: &Validation,
    violations: Vec<Violation>,
) -> Result<(), Rejection> {
    found.invalid += 1;
    let rejection = Rejection::new(Problem::InvalidResponse).violations(violations);
    note(found, "answer", &rejection);
    if validation.responses == Enforcement::Enforce {
        return Err(Problem::InvalidResponse.into());
    }
    Ok(())
}
