//! The gateway's statistics as families.
//!
//! Names and labels of requests are those of OpenTelemetry's HTTP conventions as Prometheus writes
//! them; what they do not know begins with `weir_`.

use super::upstreams::{client, upstreams};
use super::{Family, Histogram, Labels, Sample, Samples};
use weir_gateway::snapshot::{Distribution, RequestSeries, Snapshot};
use weir_gateway::stats::{BUCKETS, Mirrored, UpgradeEnd};

/// Everything the gateway counts.
pub fn gateway(stats: &Snapshot) -> Vec<Family> {
    let mut families = requests(stats);
    families.extend(connections(stats));
    families.extend(policies(stats));
    families.extend(client(&stats.targets));
    families.extend(upstreams(&stats.targets));
    families
}

/// What weir turned away, of all consumers together: their number has no bound here.
fn rejections(stats: &Snapshot) -> Family {
    let mut sums = std::collections::BTreeMap::new();
    for one in &stats.rejections {
        *sums.entry((one.problem.status(), one.problem.slug())).or_insert(0) += one.requests;
    }
    let sample = |((status, reason), requests): ((u16, &str), u64)| {
        let labels = vec![
            ("error_type", reason.to_owned()),
            ("http_response_status_code", status.to_string()),
        ];
        Sample::new(labels, requests as f64)
    };
    Family {
        name: "weir_rejected_requests_total",
        help: "Requests that weir itself answered with 401, 403, 429 or 503.",
        samples: Samples::Counter(sums.into_iter().map(sample).collect()),
    }
}

fn requests(stats: &Snapshot) -> Vec<Family> {
    let histograms = stats
        .requests
        .iter()
        .map(|series| Histogram { labels: request_labels(series), ..histogram(&series.durations) });
    vec![
        Family {
            name: "http_server_request_duration_seconds",
            help: "From the end of a request's head to the last byte of its answer.",
            samples: Samples::Histogram(histograms.collect()),
        },
        Family::gauge("http_server_active_requests", "Requests in flight.", stats.active as f64),
        Family::counter(
            "weir_request_body_bytes_total",
            "Bytes of request bodies received.",
            stats.request_bytes,
        ),
        Family::counter(
            "weir_response_body_bytes_total",
            "Bytes of response bodies sent.",
            stats.response_bytes,
        ),
        Family::counter(
            "weir_bad_requests_total",
            "Requests refused because their bytes are not acceptable HTTP.",
            stats.bad_requests,
        ),
        Family::counter(
            "weir_headers_dropped_total",
            "Request headers that were not passed on because of an underscore or a dot in their name.",
            stats.dropped_headers,
        ),
        Family::counter(
            "weir_aborted_requests_total",
            "Requests whose client went away or whose answer broke off.",
            stats.aborted,
        ),
        Family::counter(
            "weir_request_timeouts_total",
            "Requests that a time limit ended: answered 408 or 504, or broken off.",
            stats.timeouts,
        ),
        Family::counter(
            "weir_access_log_dropped_total",
            "Access log lines dropped because the log could not keep up.",
            stats.log_dropped,
        ),
    ]
}

pub(super) fn histogram(durations: &Distribution) -> Histogram {
    Histogram {
        labels: Vec::new(),
        buckets: BUCKETS.into_iter().zip(durations.buckets).collect(),
        count: durations.count,
        sum: durations.sum,
        exemplars: durations.exemplars.clone(),
    }
}

fn request_labels(series: &RequestSeries) -> Labels {
    let mut labels = match series.method {
        "" => vec![overflow()],
        method => vec![
            ("http_request_method", method.to_owned()),
            ("http_response_status_code", series.status.to_string()),
        ],
    };
    labels.extend([
        ("http_route", series.path.clone()),
        ("weir_api", series.api.clone()),
        ("weir_operation", series.operation.clone()),
    ]);
    labels
}

/// Label of a series that has all of which there are too many combinations, as OpenTelemetry has
/// it (<https://opentelemetry.io/docs/specs/otel/metrics/sdk/#overflow-attribute>).
pub(super) fn overflow() -> (&'static str, String) {
    ("otel_metric_overflow", "true".to_owned())
}

fn connections(stats: &Snapshot) -> Vec<Family> {
    vec![
        Family::gauge("weir_workers", "Threads that serve requests.", stats.workers as f64),
        Family::gauge(
            "weir_connections",
            "Client connections that are open.",
            stats.connections as f64,
        ),
        Family::counter(
            "weir_connections_accepted_total",
            "Client connections accepted.",
            stats.accepted,
        ),
        Family::counter(
            "weir_connections_refused_total",
            "Client connections closed at once because of limits.connections.",
            stats.refused_connections,
        ),
        Family::counter(
            "weir_descriptors_exhausted_total",
            "Requests and connections refused because no file descriptor was free.",
            stats.descriptors_exhausted,
        ),
        Family::counter(
            "weir_tls_handshake_failures_total",
            "TLS handshakes that failed or took too long.",
            stats.handshake_failures,
        ),
        Family::counter(
            "weir_proxy_protocol_failures_total",
            "Connections without the PROXY protocol header that their listener asks for.",
            stats.proxy_protocol_failures,
        ),
    ]
}

fn policies(stats: &Snapshot) -> Vec<Family> {
    let lookups = [("hit", stats.token_hits), ("miss", stats.token_misses)];
    vec![
        Family {
            name: "weir_token_cache_lookups_total",
            help: "Tokens looked up in the cache of verified tokens; a miss is verified.",
            samples: Samples::Counter(
                lookups
                    .into_iter()
                    .map(|(result, count)| {
                        Sample::new(vec![("result", result.to_owned())], count as f64)
                    })
                    .collect(),
            ),
        },
        Family::counter(
            "weir_token_cache_evictions_total",
            "Verified tokens forgotten before their time for want of room.",
            stats.token_evictions,
        ),
        Family {
            name: "weir_jwks_fetches_total",
            help: "Fetches of key sets, by what became of them.",
            samples: Samples::Counter(
                stats
                    .key_sets
                    .iter()
                    .flat_map(|set| [(set, "taken", set.fetched), (set, "failed", set.failed)])
                    .map(|(set, result, count)| {
                        let labels =
                            vec![("auth", set.auth.clone()), ("result", result.to_owned())];
                        Sample::new(labels, count as f64)
                    })
                    .collect(),
            ),
        },
        Family {
            name: "weir_introspections_total",
            help: "Questions to authorization servers about tokens, by what became of them.",
            samples: Samples::Counter(
                stats
                    .introspections
                    .iter()
                    .flat_map(|of| {
                        [
                            (of, "active", of.active),
                            (of, "inactive", of.inactive),
                            (of, "failed", of.failed),
                            (of, "crowded", of.crowded),
                        ]
                    })
                    .map(|(of, result, count)| {
                        let labels = vec![("auth", of.auth.clone()), ("result", result.to_owned())];
                        Sample::new(labels, count as f64)
                    })
                    .collect(),
            ),
        },
        Family {
            name: "weir_jwks_keys",
            help: "Keys in use of key sets that are fetched.",
            samples: Samples::Gauge(
                stats
                    .key_sets
                    .iter()
                    .map(|set| Sample::new(vec![("auth", set.auth.clone())], set.keys as f64))
                    .collect(),
            ),
        },
        Family {
            name: "weir_cache_requests_total",
            help: "Requests of routes with a cache, by what it had for them.",
            samples: Samples::Counter(
                [
                    ("hit", stats.cache_hits),
                    ("miss", stats.cache_misses.saturating_sub(stats.cache_revalidated)),
                    ("revalidated", stats.cache_revalidated),
                    ("bypass", stats.cache_bypassed),
                ]
                .into_iter()
                .map(|(result, count)| {
                    Sample::new(vec![("result", result.to_owned())], count as f64)
                })
                .collect(),
            ),
        },
        Family {
            name: "weir_mirror_requests_total",
            help: "Copies of requests, by what came of them.",
            samples: Samples::Counter(
                (Mirrored::ALL.iter().zip(stats.mirrored))
                    .map(|(outcome, count)| {
                        let outcome = outcome.as_str().to_owned();
                        Sample::new(vec![("weir_outcome", outcome)], count as f64)
                    })
                    .collect(),
            ),
        },
        Family::counter(
            "weir_call_fallbacks_total",
            "Calls in whose place their fallback stood.",
            stats.fallbacks,
        ),
        Family::counter(
            "weir_cache_waits_total",
            "Requests that waited for the answer to another one.",
            stats.cache_waited,
        ),
        Family::counter(
            "weir_cache_evictions_total",
            "Stored answers that had to go for others.",
            stats.cache_evictions,
        ),
        Family::gauge("weir_cache_entries", "Answers that are stored.", stats.cache_entries as f64),
        Family::gauge(
            "weir_cache_bytes",
            "Memory that stored answers take.",
            stats.cache_bytes as f64,
        ),
        Family::counter(
            "weir_rate_limited_total",
            "Requests refused by a rate limit.",
            stats.limited,
        ),
        Family::counter("weir_over_quota_total", "Requests refused by a quota.", stats.over_quota),
        rejections(stats),
        Family::counter(
            "weir_authentication_throttled_total",
            "Requests rejected because too many credentials from their address had failed.",
            stats.auth_throttled,
        ),
        Family::counter(
            "weir_invalid_requests_total",
            "Requests that are not as their API's description says, refused or not.",
            stats.invalid_requests,
        ),
        Family::counter(
            "weir_invalid_answers_total",
            "Answers that are not as their API's description says, refused or not.",
            stats.invalid_answers,
        ),
        Family::counter(
            "weir_validation_over_budget_requests_total",
            "Requests whose validation would exceed its budget of steps and memory, rejected or not.",
            stats.validation_over_budget_requests,
        ),
        Family::counter(
            "weir_validation_over_budget_responses_total",
            "Responses whose validation would exceed its budget of steps and memory, rejected or not.",
            stats.validation_over_budget_responses,
        ),
        Family::counter(
            "weir_unrecorded_total",
            "Requests without a recorded transaction for want of room, or not recorded as durably as promised.",
            stats.unrecorded,
        ),
        Family::counter(
            "weir_monitor_uncounted_total",
            "Calls that are not counted because there was no room even for that.",
            stats.uncounted,
        ),
        Family::counter(
            "weir_capture_withheld_total",
            "Bodies that were not recorded because they could not be masked.",
            stats.withheld,
        ),
        Family::gauge(
            "weir_upgrades_open",
            "Connections open that have become something else, such as WebSockets.",
            stats.upgrades_open as f64,
        ),
        Family {
            name: "weir_upgrades_total",
            help: "Connections that had become something else, by who or what ended them.",
            samples: Samples::Counter(
                UpgradeEnd::ALL
                    .iter()
                    .zip(stats.upgrades)
                    .map(|(ended, count)| {
                        Sample::new(
                            vec![("weir_ended_by", ended.as_str().to_owned())],
                            count as f64,
                        )
                    })
                    .collect(),
            ),
        },
        Family::counter(
            "weir_upgrades_refused_total",
            "Requests for a WebSocket on a route that allows no upgrade.",
            stats.upgrades_refused,
        ),
        Family::counter(
            "weir_clock_backwards_total",
            "Times that the system's clock was set back, as seen while requests came in.",
            stats.clock_backwards,
        ),
        Family::gauge("weir_limit_keys", "Keys that rate limits count.", stats.limit_keys as f64),
        Family::counter(
            "weir_limit_overflow_total",
            "Requests counted in the bucket that all share when there is no room for another key.",
            stats.limit_overflow,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::render;
    use weir_gateway::snapshot::{CallSeries, TargetSeries};

    fn stats() -> Snapshot {
        let mut buckets = [0; BUCKETS.len()];
        buckets[BUCKETS.len() - 1] = 2;
        Snapshot {
            active: 3,
            requests: vec![RequestSeries {
                api: "orders".to_owned(),
                operation: "get-order".to_owned(),
                path: "/orders/{id}".to_owned(),
                method: "GET",
                status: 200,
                durations: Distribution { buckets, count: 3, sum: 12.5, ..Distribution::default() },
            }],
            targets: vec![target(buckets)],
            ..Snapshot::default()
        }
    }

    fn target(buckets: [u64; BUCKETS.len()]) -> TargetSeries {
        let call = |status, error| CallSeries {
            method: "GET",
            status,
            error,
            durations: Distribution { buckets, count: 3, sum: 1.5, ..Distribution::default() },
        };
        TargetSeries {
            upstream: "stock".to_owned(),
            host: "stock.internal".to_owned(),
            port: 8080,
            open: 5,
            idle: 2,
            calls: vec![call(0, "connect"), call(200, ""), call(503, "")],
            ..TargetSeries::default()
        }
    }

    #[test]
    fn upstreams_have_the_names_of_the_conventions() {
        let text = render(&gateway(&stats()));
        let target =
            "weir_upstream=\"stock\",server_address=\"stock.internal\",server_port=\"8080\"";
        let count = "http_client_request_duration_seconds_count{http_request_method=\"GET\"";
        for line in [
            format!("{count},{target},error_type=\"connect\"}} 3"),
            format!("{count},http_response_status_code=\"200\",{target}}} 3"),
            format!("{count},http_response_status_code=\"503\",{target},error_type=\"503\"}} 3"),
            format!("http_client_open_connections{{{target},http_connection_state=\"active\"}} 3"),
            format!("http_client_open_connections{{{target},http_connection_state=\"idle\"}} 2"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn requests_have_the_names_of_the_conventions() {
        let text = render(&gateway(&stats()));
        let labels = "http_request_method=\"GET\",http_response_status_code=\"200\",\
            http_route=\"/orders/{id}\",weir_api=\"orders\",weir_operation=\"get-order\"";
        for line in [
            format!("http_server_request_duration_seconds_bucket{{{labels},le=\"10\"}} 2"),
            format!("http_server_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("http_server_request_duration_seconds_sum{{{labels}}} 12.5"),
            "http_server_active_requests 3".to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<&str> = gateway(&stats()).iter().map(|family| family.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
