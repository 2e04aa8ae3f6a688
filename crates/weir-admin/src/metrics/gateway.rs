//! The gateway's statistics as families.
//!
//! Names and labels of requests are those of OpenTelemetry's HTTP conventions as Prometheus writes
//! them; names that the conventions do not have begin with `weir_`.

use super::Kind::{Counter, Gauge};
use super::upstreams::{client, upstreams};
use super::{Family, Histogram, LabelledRow, Labels, Row, Sample, Samples, counts};
use std::collections::BTreeMap;
use std::slice;
use strum::VariantNames;
use weir_server::snapshot::{Distribution, Snapshot};
use weir_telemetry::labels::{Mirrored, UpgradeEnd};
use weir_telemetry::stats::{BUCKETS, SeriesKey};

#[rustfmt::skip]
const REQUESTS: &[Row<Snapshot>] = &[
    (Gauge, "http_server_active_requests", |s| s.totals.active as f64,
        "Requests in flight."),
    (Counter, "weir_request_body_bytes_total", |s| s.totals.request_bytes as f64,
        "Bytes of request bodies received."),
    (Counter, "weir_response_body_bytes_total", |s| s.totals.response_bytes as f64,
        "Bytes of response bodies sent."),
    (Counter, "weir_bad_requests_total", |s| s.totals.bad_requests as f64,
        "Requests rejected because their bytes are not acceptable HTTP."),
    (Counter, "weir_headers_dropped_total", |s| s.totals.dropped_headers as f64,
        "Request headers dropped because of an underscore or a dot in their name."),
    (Counter, "weir_aborted_requests_total", |s| s.totals.aborted as f64,
        "Requests whose client disconnected or whose response was aborted."),
    (Counter, "weir_request_timeouts_total", |s| s.totals.timeouts as f64,
        "Requests ended by a timeout: with status 408 or 504, or by an aborted response."),
    (Counter, "weir_access_log_dropped_total", |s| s.totals.log_dropped as f64,
        "Access log lines dropped because the log could not keep up."),
];

#[rustfmt::skip]
const CONNECTIONS: &[Row<Snapshot>] = &[
    (Gauge, "weir_workers", |s| s.workers as f64,
        "Threads that serve requests."),
    (Gauge, "weir_io_ring", |s| f64::from(u8::from(s.is_ring)),
        "1 if workers use io_uring for connections, 0 if they use epoll."),
    (Counter, "weir_ring_enters_total", |s| s.totals.ring_enters as f64,
        "Calls by which io_uring was given operations of connections, and has completed some."),
    (Counter, "weir_ring_operations_total", |s| s.totals.ring_operations as f64,
        "Operations of connections that io_uring has completed."),
    (Counter, "weir_ring_without_buffer_total", |s| s.totals.ring_without_buffer as f64,
        "Receives that found no free buffer, so that a call of their own read the bytes."),
    (Counter, "weir_ring_orphans_reset_total", |s| s.totals.ring_orphans_reset as f64,
        "Closed connections that were reset, because 256 of the worker waited for slow peers already."),
    (Gauge, "weir_connections", |s| s.totals.connections as f64,
        "Open client connections."),
    (Counter, "weir_connections_accepted_total", |s| s.totals.accepted as f64,
        "Client connections accepted."),
    (Counter, "weir_connections_refused_total", |s| s.totals.refused_connections as f64,
        "Client connections closed at once because of limits.connections."),
    (Counter, "weir_descriptors_exhausted_total", |s| s.totals.descriptors_exhausted as f64,
        "Requests and connections rejected because no file descriptor was free."),
    (Counter, "weir_tls_handshake_failures_total", |s| s.totals.handshake_failures as f64,
        "TLS handshakes that failed or timed out."),
    (Counter, "weir_proxy_protocol_failures_total", |s| s.totals.proxy_protocol_failures as f64,
        "Connections without the PROXY protocol header that their listener requires."),
    (Gauge, "weir_upgrades_open", |s| s.totals.upgrades_open as f64,
        "Open upgraded connections, such as WebSockets."),
    (Counter, "weir_upgrades_refused_total", |s| s.totals.upgrades_refused as f64,
        "Requests for a WebSocket on a route that allows no upgrade."),
    (Counter, "weir_clock_backwards_total", |s| s.clock_backwards as f64,
        "Times that the system's clock was set back while requests came in."),
];

#[rustfmt::skip]
const POLICIES: &[Row<Snapshot>] = &[
    (Counter, "weir_token_cache_evictions_total", |s| s.token_evictions as f64,
        "Verified tokens evicted from the full cache before they expired."),
    (Counter, "weir_authentication_throttled_total", |s| s.totals.auth_throttled as f64,
        "Requests rejected because too many credentials from their address had failed."),
    (Counter, "weir_rate_limited_total", |s| s.totals.limited as f64,
        "Requests rejected by a rate limit."),
    (Counter, "weir_over_quota_total", |s| s.totals.over_quota as f64,
        "Requests rejected by a quota."),
    (Gauge, "weir_limit_keys", |s| s.limit_keys as f64,
        "Keys with a rate limit bucket."),
    (Counter, "weir_limit_overflow_total", |s| s.limit_overflow as f64,
        "Requests counted in the overflow bucket, which is shared when there is no room for another key."),
    (Counter, "weir_cache_waits_total", |s| s.totals.cache_waited as f64,
        "Requests collapsed: they waited for the response to another request."),
    (Counter, "weir_cache_evictions_total", |s| s.totals.cache_evictions as f64,
        "Cache evictions."),
    (Gauge, "weir_cache_entries", |s| s.cache_entries as f64,
        "Cached responses."),
    (Gauge, "weir_cache_bytes", |s| s.cache_bytes as f64,
        "Memory of cached responses."),
    (Counter, "weir_call_fallbacks_total", |s| s.totals.fallbacks as f64,
        "Calls replaced by their fallback."),
    (Counter, "weir_invalid_requests_total", |s| s.totals.invalid_requests as f64,
        "Requests that violate the API description, rejected or not."),
    (Counter, "weir_invalid_answers_total", |s| s.totals.invalid_responses as f64,
        "Responses that violate the API description, rejected or not."),
    (Counter, "weir_validation_over_budget_requests_total",
        |s| s.totals.validation_over_budget_requests as f64,
        "Requests whose validation would exceed its budget of steps and memory, rejected or not."),
    (Counter, "weir_validation_over_budget_responses_total",
        |s| s.totals.validation_over_budget_responses as f64,
        "Responses whose validation would exceed its budget of steps and memory, rejected or not."),
    (Counter, "weir_unrecorded_total", |s| s.totals.unrecorded as f64,
        "Requests without a recorded transaction because the journal was full, or with one that is less durable than configured."),
    (Counter, "weir_monitor_uncounted_total", |s| s.totals.uncounted as f64,
        "Calls that are not metered because the journal had no room even for that."),
    (Counter, "weir_capture_withheld_total", |s| s.totals.withheld as f64,
        "Bodies that were not recorded because they could not be redacted."),
];

#[rustfmt::skip]
const RESULTS: &[LabelledRow<Snapshot>] = &[
    (Counter, "weir_token_cache_lookups_total", "result",
        |s| counts(&["hit", "miss"], &[s.token_hits, s.token_misses]),
        "Lookups in the cache of verified tokens; a miss is verified."),
    (Counter, "weir_cache_requests_total", "result", cache_results,
        "Requests of routes with a cache, by the result of the lookup."),
    (Counter, "weir_mirror_requests_total", "weir_outcome",
        |s| counts(Mirrored::VARIANTS, &s.mirrored),
        "Mirrored requests, by outcome."),
    (Counter, "weir_upgrades_total", "weir_ended_by",
        |s| counts(UpgradeEnd::VARIANTS, &s.upgrades),
        "Upgraded connections that ended, by the side that ended them."),
];

/// All statistics of the gateway.
pub fn gateway(stats: &Snapshot) -> Vec<Family> {
    let mut families = vec![durations(stats)];
    families.extend(Family::table(REQUESTS, stats));
    families.extend(Family::table(CONNECTIONS, stats));
    families.extend(Family::table(POLICIES, stats));
    families.extend(Family::labelled(RESULTS, slice::from_ref(stats), |_| Vec::new()));
    families.push(rejections(stats));
    families.push(certificates(stats));
    families.extend(authorization_servers(stats));
    families.extend(client(&stats.targets));
    families.extend(upstreams(&stats.targets));
    families
}

/// Several certificates of one name, on listeners of their own: the one that expires first.
fn certificates(stats: &Snapshot) -> Family {
    let mut first: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, end) in &stats.certificates {
        first.entry(name).and_modify(|known| *known = (*known).min(*end)).or_insert(*end);
    }
    let samples = first.into_iter().map(|(name, end)| {
        Sample::new(vec![("weir_certificate", name.to_owned())], end.max(0).cast_unsigned())
    });
    Family::new(
        Gauge,
        "weir_tls_certificate_expiration_timestamp_seconds",
        "End of the validity of a certificate of a listener, in seconds since 1970.",
        samples,
    )
}

fn durations(stats: &Snapshot) -> Family {
    let histograms = (stats.requests.iter())
        .map(|(key, durations)| Histogram { labels: request_labels(key), ..histogram(durations) });
    Family {
        name: "http_server_request_duration_seconds",
        help: "From the end of the head of a request to the last byte of its response.",
        samples: Samples::Histogram(histograms.collect()),
    }
}

/// Cache lookups by result; a revalidation is counted as a miss, too.
fn cache_results(stats: &Snapshot) -> Vec<(&'static str, f64)> {
    let totals = &stats.totals;
    let (all_misses, revalidated) = (totals.cache_misses, totals.cache_revalidated);
    let misses = all_misses.saturating_sub(revalidated);
    let results = [totals.cache_hits, misses, revalidated, totals.cache_bypassed];
    counts(&["hit", "miss", "revalidated", "bypass"], &results)
}

/// Rejections of all consumers together: the number of consumers has no bound here.
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
        Sample::new(labels, requests)
    };
    Family::new(
        Counter,
        "weir_rejected_requests_total",
        "Requests that weir itself rejected with 401, 403, 429 or 503.",
        sums.into_iter().map(sample),
    )
}

/// Key sets and introspection, by the authentication method that uses them.
fn authorization_servers(stats: &Snapshot) -> [Family; 3] {
    let auth = |auth: &str| ("auth", auth.to_owned());
    let sample = move |name: &str, (result, count): (&'static str, u64)| {
        Sample::new(vec![auth(name), ("result", result.to_owned())], count)
    };
    let fetches = stats.key_sets.iter().flat_map(|set| {
        let counts = [("taken", set.fetched), ("failed", set.failed)];
        counts.map(|count| sample(&set.auth, count))
    });
    let keys = stats.key_sets.iter().map(|set| Sample::new(vec![auth(&set.auth)], set.keys));
    let introspections = stats.introspections.iter().flat_map(|server| {
        let counts = [
            ("active", server.active),
            ("inactive", server.inactive),
            ("failed", server.failed),
            ("crowded", server.crowded),
        ];
        counts.map(|count| sample(&server.auth, count))
    });
    [
        Family::new(Counter, "weir_jwks_fetches_total", "Fetches of key sets, by result.", fetches),
        Family::new(Gauge, "weir_jwks_keys", "Keys in use of fetched key sets.", keys),
        Family::new(
            Counter,
            "weir_introspections_total",
            "Introspections of tokens, by result.",
            introspections,
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

fn request_labels(key: &SeriesKey) -> Labels {
    let mut labels = match key.method {
        "" => vec![overflow()],
        method => vec![
            ("http_request_method", method.to_owned()),
            ("http_response_status_code", key.status.to_string()),
        ],
    };
    labels.extend([
        ("http_route", key.path.clone()),
        ("weir_api", key.api.clone()),
        ("weir_operation", key.operation.clone()),
    ]);
    labels
}

/// Label of the series that stands for all others once there are too many combinations, as in
/// OpenTelemetry (<https://opentelemetry.io/docs/specs/otel/metrics/sdk/#overflow-attribute>).
pub(super) fn overflow() -> (&'static str, String) {
    ("otel_metric_overflow", "true".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::text::{Format, render};
    use weir_server::snapshot::TargetSeries;
    use weir_telemetry::stats::{CallKey, TargetKey, Totals};

    fn stats() -> Snapshot {
        let mut buckets = [0; BUCKETS.len()];
        buckets[BUCKETS.len() - 1] = 2;
        Snapshot {
            totals: Totals { active: 3, ..Totals::default() },
            requests: [(
                SeriesKey {
                    api: "orders".to_owned(),
                    operation: "get-order".to_owned(),
                    path: "/orders/{id}".to_owned(),
                    method: "GET",
                    status: 200,
                },
                Distribution { buckets, count: 3, sum: 12.5, ..Distribution::default() },
            )]
            .into(),
            targets: vec![target(buckets)],
            ..Snapshot::default()
        }
    }

    fn target(buckets: [u64; BUCKETS.len()]) -> TargetSeries {
        let call = |status, error| {
            let durations = Distribution { buckets, count: 3, sum: 1.5, ..Distribution::default() };
            (CallKey { method: "GET", status, error }, durations)
        };
        TargetSeries {
            key: TargetKey {
                upstream: "stock".to_owned(),
                host: "stock.internal".to_owned(),
                port: 8080,
                name: String::new(),
            },
            open: 5,
            idle: 2,
            calls: [call(0, "connect"), call(200, ""), call(503, "")].into(),
            ..TargetSeries::default()
        }
    }

    #[test]
    fn upstreams_have_the_names_of_the_conventions() {
        let text = render(&gateway(&stats()), Format::Plain);
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
        let text = render(&gateway(&stats()), Format::Plain);
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
