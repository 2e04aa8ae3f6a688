//! Metrics: what the page shows, as OTLP has it.

use super::collector::{Collector, attribute};
use super::{OK, before};
use crate::harness::{Server, Upstream};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric};
use std::collections::BTreeSet;

const EVERY: &str = "metrics: {every: 1s}";

fn points(metric: &Metric) -> Vec<HistogramDataPoint> {
    match &metric.data {
        Some(Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
            histogram.data_points.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// Names on the page that have a sample.
fn shown(weir: &Server) -> BTreeSet<String> {
    let text = weir.connect_admin().get("/metrics").text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    lines
        .map(name)
        .filter(|name| !name.ends_with("_bucket") && !name.ends_with("_sum"))
        .map(|name| match name.strip_suffix("_count") {
            Some(histogram) => histogram.to_owned(),
            None => name,
        })
        .collect()
}

#[test]
fn they_are_those_of_the_page() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let routes = "{get: \"/items/{id}\", proxy: one}";
    let weir = before(upstream.addr, collector.upstream.addr, EVERY, routes).start();
    let mut client = weir.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/items/7").status, 200);
    }
    let counted = |metric: &Metric| points(metric).iter().map(|one| one.count).sum::<u64>() == 3;
    let served = collector.metric("http.server.request.duration", counted);
    assert_eq!(served.unit, "s");
    let point = &points(&served)[0];
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.route", "/items/{id}"),
        ("weir.api", "all"),
    ] {
        assert_eq!(attribute(&point.attributes, key), value);
    }
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 3);
    assert!(point.explicit_bounds.is_sorted() && point.sum.is_some_and(|sum| sum > 0.0));
    assert!(point.start_time_unix_nano > 0 && point.start_time_unix_nano < point.time_unix_nano);
    assert!(point.exemplars.is_empty(), "nothing is traced");

    let asked = collector.metric("http.client.request.duration", counted);
    let point = &points(&asked)[0];
    assert_eq!(attribute(&point.attributes, "server.port"), upstream.addr.port().to_string());
    let active = collector.metric("http.server.active_requests", |_| true);
    assert!(matches!(&active.data, Some(Data::Sum(sum)) if !sum.is_monotonic));
    let connects = collector.metric("weir_upstream_connects_total", |_| true);
    assert!(matches!(&connects.data, Some(Data::Sum(sum)) if sum.is_monotonic));
    let workers = collector.metric("weir_workers", |_| true);
    assert!(matches!(&workers.data, Some(Data::Gauge(_))));

    // No family is on one of the two only.
    let told = collector.last_report();
    let page = |name: &str| match name {
        "http.server.request.duration" | "http.client.request.duration" => {
            format!("{}_seconds", name.replace('.', "_"))
        }
        name => name.replace('.', "_"),
    };
    let told: BTreeSet<String> = told.iter().map(|metric| page(&metric.name)).collect();
    assert_eq!(told, shown(&weir));
}

#[test]
fn an_upstream_cannot_make_any_number_of_series() {
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            let status = 399 + peer.requests();
            peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let collector = Collector::start();
    let routes = "{path: \"/*\", proxy: one}";
    let weir = before(upstream.addr, collector.upstream.addr, EVERY, routes).start();
    let mut client = weir.connect();
    for number in 0..100 {
        // Statuses that are tried again take more than one.
        let status = client.get("/x").status;
        assert!((400..600).contains(&status), "{number}: {status}");
    }
    for name in ["http_server_request_duration_seconds", "http_client_request_duration_seconds"] {
        let text = weir.connect_admin().get("/metrics").text();
        let series = text.lines().filter(|line| line.starts_with(&format!("{name}_count")));
        assert_eq!(series.count(), 65, "{name}");
        let all = weir.metric(&format!("{name}_count"), &[]);
        let others = weir.metric(&format!("{name}_count"), &["otel_metric_overflow=\"true\""]);
        assert_eq!(others, all - 64.0, "{name}");
    }
    let overflow = |metric: &Metric| {
        points(metric)
            .iter()
            .any(|point| attribute(&point.attributes, "otel.metric.overflow") == "true")
    };
    collector.metric("http.server.request.duration", overflow);
}
