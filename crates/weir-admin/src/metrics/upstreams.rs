//! Statistics of upstream targets as families.

use super::Kind::{Counter, Gauge};
use super::gateway::{histogram, overflow};
use super::{Family, Histogram, LabelledRow, Labels, Row, Sample, Samples, counts};
use strum::VariantNames;
use weir_server::snapshot::TargetSeries;
use weir_telemetry::labels::{EjectionReason, Hedged, RetryDenied, RetryReason};
use weir_telemetry::stats::CallKey;

#[rustfmt::skip]
const TARGETS: &[Row<TargetSeries>] = &[
    (Gauge, "weir_upstream_up", |t| t.health.out.is_none().into(),
        "Whether a target is in service."),
    (Counter, "weir_upstream_connects_total", |t| t.connects as f64,
        "Connection attempts."),
    (Counter, "weir_upstream_reused_total", |t| t.reused as f64,
        "Requests on a reused connection."),
    (Counter, "weir_upstream_busy_total", |t| t.busy as f64,
        "Requests rejected because every connection was in use."),
];

#[rustfmt::skip]
const LABELLED: &[LabelledRow<TargetSeries>] = &[
    (Counter, "weir_upstream_taken_out_total", "weir_reason",
        |t| counts(EjectionReason::VARIANTS, &t.health.ejections),
        "Ejections of a target, by reason."),
    (Counter, "weir_upstream_checks_total", "weir_result",
        |t| counts(&["good", "bad"], &t.health.checks),
        "Health checks, by result."),
    (Counter, "weir_upstream_retries_total", "weir_reason",
        |t| counts(RetryReason::VARIANTS, &t.retries),
        "Retries after a failed attempt, by reason."),
    (Counter, "weir_upstream_retries_refused_total", "weir_reason",
        |t| counts(RetryDenied::VARIANTS, &t.retries_denied),
        "Retries that were allowed by the request and denied by weir, by reason."),
    (Counter, "weir_upstream_hedges_total", "weir_winner",
        |t| counts(Hedged::VARIANTS, &t.hedges),
        "Hedged requests by winner."),
    (Counter, "weir_upstream_resolutions_total", "weir_result",
        |t| counts(&["good", "bad"], &t.resolutions),
        "DNS queries for targets that have a name, by result."),
];

#[rustfmt::skip]
const CONNECTIONS: &[LabelledRow<TargetSeries>] = &[
    (Gauge, "http_client_open_connections", "http_connection_state",
        |t| counts(&["active", "idle"], &[t.open.saturating_sub(t.idle), t.idle]),
        "Open connections to upstreams."),
];

/// State and activity of upstream targets.
pub(super) fn upstreams(targets: &[TargetSeries]) -> Vec<Family> {
    let plain = Family::table_of(TARGETS, targets, target_labels);
    let labelled = Family::labelled(LABELLED, targets, target_labels);
    plain.chain(labelled).chain([grpc(targets)]).collect()
}

/// gRPC calls of each target by their status, as far as there were any.
fn grpc(targets: &[TargetSeries]) -> Family {
    let samples = targets.iter().flat_map(|target| {
        let counted = target.grpc.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(move |(code, count)| {
            let mut labels = target_labels(target);
            labels.push(("rpc_grpc_status_code", code.to_string()));
            Sample::new(labels, *count)
        })
    });
    Family::new(Counter, "weir_upstream_grpc_total", "Ended gRPC calls, by status.", samples)
}

fn target_labels(target: &TargetSeries) -> Labels {
    vec![
        ("weir_upstream", target.key.upstream.clone()),
        ("server_address", target.key.host.clone()),
        ("server_port", target.key.port.to_string()),
    ]
}

/// Durations and connections under the names of OpenTelemetry's conventions for HTTP clients.
pub(super) fn client(targets: &[TargetSeries]) -> Vec<Family> {
    let histograms = targets.iter().flat_map(|target| {
        target.calls.iter().map(|(call, durations)| Histogram {
            labels: call_labels(target, call),
            ..histogram(durations)
        })
    });
    let durations = Family {
        name: "http_client_request_duration_seconds",
        help: "From the choice of a connection to the last byte of the upstream's response.",
        samples: Samples::Histogram(histograms.collect()),
    };
    let connections = Family::labelled(CONNECTIONS, targets, target_labels);
    std::iter::once(durations).chain(connections).collect()
}

/// A response of 400 or more is an error by its status code; without a response there is no status.
fn call_labels(target: &TargetSeries, call: &CallKey) -> Labels {
    let mut labels = match call.method {
        "" => vec![overflow()],
        method => vec![("http_request_method", method.to_owned())],
    };
    if call.status != 0 {
        labels.push(("http_response_status_code", call.status.to_string()));
    }
    labels.extend(target_labels(target));
    if !call.error.is_empty() {
        labels.push(("error_type", call.error.to_owned()));
    } else if call.status >= 400 {
        labels.push(("error_type", call.status.to_string()));
    }
    labels
}
