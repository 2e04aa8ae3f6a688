//! TracedRequest requests as spans, by OpenTelemetry's conventions for HTTP
//! (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>).

use crate::otlp::attributes::{SCHEMA, nanos, number, scope, text};
use crate::otlp::messages::{
    CONTEXT_HAS_IS_REMOTE, CONTEXT_IS_REMOTE, ExportTraceServiceRequest, KeyValue, Resource,
    ResourceSpans, SPAN_KIND_CLIENT, SPAN_KIND_SERVER, STATUS_CODE_ERROR, ScopeSpans, Span, Status,
};
use prost::Message;
use weir_telemetry::spans::{TracedAttempt, TracedRequest};

/// `traceparent` flag: the trace is sampled.
const SAMPLED: u32 = 1;

/// A request to a collector with all spans of these.
pub(super) fn encode(traced: &[TracedRequest], resource: Resource) -> Vec<u8> {
    let spans = traced.iter().flat_map(|one| {
        let attempts =
            one.attempts.iter().enumerate().map(move |(sent, attempt)| client(one, attempt, sent));
        std::iter::once(server(one)).chain(attempts)
    });
    let scope_spans =
        ScopeSpans { scope: Some(scope()), spans: spans.collect(), schema_url: SCHEMA.to_owned() };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        schema_url: SCHEMA.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

/// The request of the client.
fn server(one: &TracedRequest) -> Span {
    let mut attributes = method(one);
    attributes.extend([
        text("url.path", &one.path),
        text("url.scheme", one.scheme),
        text("client.address", &one.client),
        text("network.protocol.version", one.protocol),
        text("weir.transaction.id", &one.transaction),
    ]);
    let named = [
        ("server.address", &one.host),
        ("http.route", &one.route),
        ("weir.api", &one.api),
        ("weir.operation", &one.operation),
    ];
    attributes.extend(named.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| text(k, *v)));
    attributes.extend(one.consumer.iter().map(|consumer| text("weir.consumer", consumer)));
    if one.status != 0 {
        attributes.push(number("http.response.status_code", one.status));
    }
    // A rejection is the fault of the client, except with a status of 5xx.
    let failed = one.aborted || one.status >= 500;
    if failed {
        attributes.push(error_type(one.error, one.status));
    } else if !one.error.is_empty() {
        attributes.push(text("weir.problem", one.error));
    }
    let name = match (known_method(one), one.route.as_str()) {
        (method, "") => method.to_owned(),
        (method, route) => format!("{method} {route}"),
    };
    let remote = CONTEXT_HAS_IS_REMOTE | if one.parent == 0 { 0 } else { CONTEXT_IS_REMOTE };
    Span {
        span_id: id(one.span),
        parent_span_id: if one.parent == 0 { Vec::new() } else { id(one.parent) },
        flags: SAMPLED | remote,
        name,
        kind: SPAN_KIND_SERVER,
        start_time_unix_nano: one.start_ns,
        end_time_unix_nano: one.start_ns.saturating_add(nanos(one.duration)),
        attributes,
        status: failed.then(error),
        ..trace_fields(one)
    }
}

/// A request to an upstream.
fn client(one: &TracedRequest, attempt: &TracedAttempt, sent_before: usize) -> Span {
    let mut attributes = method(one);
    attributes.extend([
        text("server.address", &attempt.host),
        number("server.port", attempt.port),
        text("url.full", &attempt.url),
        text("network.protocol.version", attempt.protocol),
        text("weir.upstream", &attempt.upstream),
    ]);
    if sent_before > 0 {
        let count = i64::try_from(sent_before).unwrap_or(i64::MAX);
        attributes.push(number("http.request.resend_count", count));
    }
    if attempt.status != 0 {
        attributes.push(number("http.response.status_code", attempt.status));
    }
    let failed = !attempt.error.is_empty() || attempt.status >= 400;
    if failed {
        attributes.push(error_type(attempt.error, attempt.status));
    }
    let start = one.start_ns.saturating_add(nanos(attempt.started));
    Span {
        span_id: id(attempt.span),
        parent_span_id: id(one.span),
        flags: SAMPLED | CONTEXT_HAS_IS_REMOTE,
        name: known_method(one).to_owned(),
        kind: SPAN_KIND_CLIENT,
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(nanos(attempt.duration)),
        attributes,
        status: failed.then(error),
        ..trace_fields(one)
    }
}

fn trace_fields(one: &TracedRequest) -> Span {
    Span {
        trace_id: one.trace.to_be_bytes().to_vec(),
        trace_state: one.state.clone(),
        ..Span::default()
    }
}

fn id(span: u64) -> Vec<u8> {
    span.to_be_bytes().to_vec()
}

/// The status has no text: attributes have the reason.
fn error() -> Status {
    Status { code: STATUS_CODE_ERROR }
}

fn error_type(problem: &str, status: u16) -> KeyValue {
    match problem {
        "" => text("error.type", status.to_string()),
        problem => text("error.type", problem),
    }
}

fn method(one: &TracedRequest) -> Vec<KeyValue> {
    let mut attributes = vec![text("http.request.method", one.method_label)];
    if one.method_label == "_OTHER" {
        attributes.push(text("http.request.method_original", &one.method));
    }
    attributes
}

/// The method in names of spans.
fn known_method(one: &TracedRequest) -> &'static str {
    if one.method_label == "_OTHER" { "HTTP" } else { one.method_label }
}
