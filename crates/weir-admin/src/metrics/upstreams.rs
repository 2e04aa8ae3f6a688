//! The statistics of upstreams' targets as families.

use super::gateway::{histogram, overflow};
use super::{Family, Histogram, Labels, Sample, Samples};
use weir_gateway::snapshot::{CallSeries, TargetSeries};
use weir_gateway::stats::{Again, EjectionReason, Hedged, NotAgain};

/// What targets of upstreams did, and how they are.
pub(super) fn upstreams(targets: &[TargetSeries]) -> Vec<Family> {
    let each = |value: fn(&TargetSeries) -> u64| -> Vec<Sample> {
        targets.iter().map(|t| Sample::new(target_labels(t), value(t) as f64)).collect()
    };
    let counter = |name, help, value| Family { name, help, samples: Samples::Counter(each(value)) };
    vec![
        Family {
            name: "weir_upstream_up",
            help: "Whether a target is in service.",
            samples: Samples::Gauge(each(|t| t.out.is_none().into())),
        },
        Family {
            name: "weir_upstream_taken_out_total",
            help: "Times that a target was taken out of service, by why.",
            samples: Samples::Counter(by_reason(
                targets,
                &EjectionReason::ALL,
                EjectionReason::as_str,
                |t| &t.taken_out,
            )),
        },
        Family {
            name: "weir_upstream_checks_total",
            help: "Health checks that were good, and that were not.",
            samples: Samples::Counter(by("weir_result", targets, &["good", "bad"], |t| &t.checks)),
        },
        counter("weir_upstream_connects_total", "Connections opened, or tried to.", |t| t.connects),
        counter(
            "weir_upstream_reused_total",
            "Requests on a connection that had carried others.",
            |t| t.reused,
        ),
        Family {
            name: "weir_upstream_retries_total",
            help: "Requests sent again after a target failed, by why.",
            samples: Samples::Counter(by_reason(targets, &Again::ALL, Again::as_str, |t| &t.again)),
        },
        Family {
            name: "weir_upstream_retries_refused_total",
            help: "Requests not sent again after a target failed, though they could have been, by why.",
            samples: Samples::Counter(by_reason(targets, &NotAgain::ALL, NotAgain::as_str, |t| {
                &t.not_again
            })),
        },
        Family {
            name: "weir_upstream_hedges_total",
            help: "Requests that were sent to another target, too, by who answered.",
            samples: Samples::Counter(by(
                "weir_winner",
                targets,
                &Hedged::ALL.map(Hedged::as_str),
                |t| &t.hedges,
            )),
        },
        Family {
            name: "weir_upstream_resolutions_total",
            help: "Questions for the addresses of targets that have a name.",
            samples: Samples::Counter(by("weir_result", targets, &["good", "bad"], |t| {
                &t.resolutions
            })),
        },
        Family {
            name: "weir_upstream_grpc_total",
            help: "gRPC calls that are over, by their status.",
            samples: Samples::Counter(grpc(targets)),
        },
        counter(
            "weir_upstream_busy_total",
            "Requests refused because every connection was in use.",
            |t| t.busy,
        ),
    ]
}

/// Calls of each target by their status, as far as there were any.
fn grpc(targets: &[TargetSeries]) -> Vec<Sample> {
    let each = targets.iter().flat_map(|target| {
        let counted = target.grpc.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(move |(code, count)| {
            let mut labels = target_labels(target);
            labels.push(("rpc_grpc_status_code", code.to_string()));
            Sample::new(labels, *count as f64)
        })
    });
    each.collect()
}

/// Counts of each target by why.
fn by_reason<R: Copy, const N: usize>(
    targets: &[TargetSeries],
    reasons: &[R; N],
    name: fn(R) -> &'static str,
    counts: fn(&TargetSeries) -> &[u64; N],
) -> Vec<Sample> {
    by("weir_reason", targets, &reasons.map(name), counts)
}

/// Counts of each target by the values of another label.
fn by<const N: usize>(
    label: &'static str,
    targets: &[TargetSeries],
    values: &[&'static str; N],
    counts: fn(&TargetSeries) -> &[u64; N],
) -> Vec<Sample> {
    let of = |target| {
        values.iter().zip(counts(target)).map(move |(value, count)| {
            let mut labels = target_labels(target);
            labels.push((label, (*value).to_owned()));
            Sample::new(labels, *count as f64)
        })
    };
    targets.iter().flat_map(of).collect()
}

fn target_labels(target: &TargetSeries) -> Labels {
    vec![
        ("weir_upstream", target.upstream.clone()),
        ("server_address", target.host.clone()),
        ("server_port", target.port.to_string()),
    ]
}

/// Durations and connections under the names of OpenTelemetry's conventions for HTTP clients.
pub(super) fn client(targets: &[TargetSeries]) -> Vec<Family> {
    let histograms = targets.iter().flat_map(|target| {
        target.calls.iter().map(|call| Histogram {
            labels: call_labels(target, call),
            ..histogram(&call.durations)
        })
    });
    let connections = targets.iter().flat_map(|target| {
        let states = [("active", target.open.saturating_sub(target.idle)), ("idle", target.idle)];
        states.map(|(state, count)| {
            let mut labels = target_labels(target);
            labels.push(("http_connection_state", state.to_owned()));
            Sample::new(labels, count as f64)
        })
    });
    vec![
        Family {
            name: "http_client_request_duration_seconds",
            help: "From the choice of a connection to the last byte of the upstream's answer.",
            samples: Samples::Histogram(histograms.collect()),
        },
        Family {
            name: "http_client_open_connections",
            help: "Connections to upstreams that are open.",
            samples: Samples::Gauge(connections.collect()),
        },
    ]
}

/// An answer of 400 or more is an error by its status code; what has no answer has no status.
fn call_labels(target: &TargetSeries, call: &CallSeries) -> Labels {
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
