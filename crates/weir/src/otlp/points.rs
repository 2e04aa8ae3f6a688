//! The metrics of `/metrics` in OTLP, from the same families.
//!
//! Families of OpenTelemetry's conventions get their names and units back; all others have the name
//! and the labels that they have on the page.

use super::attributes::{SCHEMA, nanos, number, scope, text};
use super::messages::{
    AGGREGATION_TEMPORALITY_CUMULATIVE, Data, Exemplar, ExportMetricsServiceRequest, Gauge,
    Histogram, HistogramDataPoint, KeyValue, Metric, NumberDataPoint, Resource, ResourceMetrics,
    ScopeMetrics, Sum,
};
use prost::Message;
use std::time::Duration;
use weir_admin::metrics::{self, Family, Labels, Samples};

/// Name on the page, name and unit by the conventions
/// (<https://opentelemetry.io/docs/specs/semconv/http/http-metrics/>).
const NAMES: [(&str, &str, &str); 4] = [
    ("http_server_request_duration_seconds", "http.server.request.duration", "s"),
    ("http_client_request_duration_seconds", "http.client.request.duration", "s"),
    ("http_server_active_requests", "http.server.active_requests", "{request}"),
    ("http_client_open_connections", "http.client.open_connections", "{connection}"),
];

/// Labels of the conventions, and whether their value is a number.
const LABELS: [(&str, &str, bool); 8] = [
    ("http_request_method", "http.request.method", false),
    ("http_response_status_code", "http.response.status_code", true),
    ("http_route", "http.route", false),
    ("http_connection_state", "http.connection.state", false),
    ("server_address", "server.address", false),
    ("server_port", "server.port", true),
    ("error_type", "error.type", false),
    ("otel_metric_overflow", "otel.metric.overflow", false),
];

/// Period of the points, since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) since: Duration,
    pub(crate) until: Duration,
}

/// A request to a collector with these families.
pub(crate) fn encode(families: &[Family], span: Span, resource: Resource) -> Vec<u8> {
    let metrics = families.iter().filter_map(|family| metric(family, span));
    let scope_metrics = ScopeMetrics {
        scope: Some(scope()),
        metrics: metrics.collect(),
        schema_url: SCHEMA.to_owned(),
    };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scope_metrics],
        schema_url: SCHEMA.to_owned(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

/// A family; `None` if it is empty.
fn metric(family: &Family, span: Span) -> Option<Metric> {
    let convention = NAMES.iter().find(|(name, ..)| *name == family.name);
    let (name, unit) =
        convention.map_or_else(|| (family.name, unit(family.name)), |(_, name, unit)| (name, unit));
    let cumulative = AGGREGATION_TEMPORALITY_CUMULATIVE;
    let sum = |samples: &[metrics::Sample], is_monotonic| {
        let data_points = numbers(samples, span);
        Data::Sum(Sum { data_points, aggregation_temporality: cumulative, is_monotonic })
    };
    let data = match &family.samples {
        Samples::Counter(samples) if !samples.is_empty() => sum(samples, true),
        // By the conventions these are counted up and down.
        Samples::Gauge(samples) if !samples.is_empty() && convention.is_some() => {
            sum(samples, false)
        }
        Samples::Gauge(samples) if !samples.is_empty() => {
            Data::Gauge(Gauge { data_points: numbers(samples, span) })
        }
        Samples::Histogram(histograms) if !histograms.is_empty() => {
            let data_points = histograms.iter().map(|one| histogram(one, span)).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative })
        }
        _ => return None,
    };
    Some(Metric {
        name: name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    })
}

/// The unit in the name of a metric (<https://ucum.org/ucum>).
fn unit(name: &str) -> &'static str {
    match name.strip_suffix("_total").unwrap_or(name) {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "1",
    }
}

fn numbers(samples: &[metrics::Sample], span: Span) -> Vec<NumberDataPoint> {
    let point = |sample: &metrics::Sample| NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano: nanos(span.since),
        time_unix_nano: nanos(span.until),
        as_double: Some(sample.value),
    };
    samples.iter().map(point).collect()
}

fn histogram(one: &metrics::Histogram, span: Span) -> HistogramDataPoint {
    let mut below = 0;
    let upto = one.buckets.iter().map(|(_, count)| *count).chain([one.count]);
    // On the page they are cumulative over the buckets.
    let counts = upto.map(|count| count.saturating_sub(std::mem::replace(&mut below, count)));
    HistogramDataPoint {
        attributes: attributes(&one.labels),
        start_time_unix_nano: nanos(span.since),
        time_unix_nano: nanos(span.until),
        count: one.count,
        sum: Some(one.sum),
        bucket_counts: counts.collect(),
        explicit_bounds: one.buckets.iter().map(|(bound, _)| *bound).collect(),
        exemplars: one.exemplars.iter().map(|(_, exemplar)| as_exemplar(exemplar)).collect(),
    }
}

fn as_exemplar(one: &metrics::Exemplar) -> Exemplar {
    Exemplar {
        time_unix_nano: nanos(one.at),
        span_id: one.span.span.to_be_bytes().to_vec(),
        trace_id: one.span.trace.to_be_bytes().to_vec(),
        as_double: Some(one.seconds),
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let attribute = |(name, value): &(&'static str, String)| {
        let known = LABELS.iter().find(|(label, ..)| label == name);
        match (known, value.parse::<i64>()) {
            (Some((_, name, true)), Ok(value)) => number(name, value),
            (Some((_, name, _)), _) => text(name, value),
            (None, _) => match name.strip_prefix("weir_") {
                Some(rest) => text(&format!("weir.{rest}"), value),
                None => text(name, value),
            },
        }
    };
    // Labels that are empty on the page are omitted.
    labels.iter().filter(|(_, value)| !value.is_empty()).map(attribute).collect()
}
