//! Exemplars: traced requests that stand for others, by OTLP and on the page for who asks for
//! OpenMetrics.

use super::collector::{Collector, hex};
use super::{OK, PARENT, before};
use crate::harness::{Client, Upstream};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use std::collections::HashSet;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[test]
fn traced_requests_stand_for_others() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let more = "traces: {share: 0%}, metrics: {every: 1s}";
    let routes = "{path: \"/*\", proxy: one}";
    let weir = before(upstream.addr, collector.upstream.addr, more, routes).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/untraced").status, 200);
    assert!(!openmetrics(&mut weir.connect_admin()).contains("trace_id"));
    assert_eq!(client.request("GET", "/x", &[("traceparent", PARENT)], "").status, 200);
    let spans = collector.spans(2);
    let ids: Vec<String> = spans.iter().map(|span| hex(&span.span_id)).collect();

    let page = openmetrics(&mut weir.connect_admin());
    let found: Vec<&str> = page.lines().filter(|line| line.contains(" # {")).collect();
    assert_eq!(found.len(), 2, "one of the server's, one of the client's: {found:?}");
    for line in found {
        let of = if line.starts_with("http_server") { 0 } else { 1 };
        assert!(line.contains(&format!("trace_id=\"{TRACE}\",span_id=\"{}\"", ids[of])), "{line}");
    }
    for name in ["http.server.request.duration", "http.client.request.duration"] {
        let with = collector.metric(name, |metric| match &metric.data {
            Some(Data::Histogram(all)) => all.data_points.iter().any(|p| !p.exemplars.is_empty()),
            _ => false,
        });
        let Some(Data::Histogram(all)) = with.data else { panic!("a histogram") };
        let mut exemplars = all.data_points.iter().flat_map(|point| &point.exemplars);
        let one = exemplars.next().expect("one");
        assert!(hex(&one.trace_id) == TRACE && ids.contains(&hex(&one.span_id)), "{one:?}");
        assert!(one.time_unix_nano > 0 && exemplars.next().is_none());
    }
    // Who does not ask for it gets what it always was.
    let plain = weir.connect_admin().get("/metrics");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!plain.text().contains("trace_id") && !plain.text().contains("# EOF"));
}

fn openmetrics(client: &mut Client) -> String {
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let response = client.request("GET", "/metrics", &[("accept", accept)], "");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!((response.status, response.header("content-type")), (200, Some(kind)));
    let text = response.text();
    check(&text);
    text
}

/// The rules of OpenMetrics 1.0 that a page can break: how families are told, which names samples
/// have, that nothing comes twice, and how it ends.
fn check(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("the end is told");
    assert!(!body.contains("# EOF"));
    let (mut families, mut series) = (HashSet::new(), HashSet::new());
    let (mut family, mut kind) = ("", "");
    for line in body.lines() {
        if let Some(told) = line.strip_prefix("# TYPE ") {
            (family, kind) = told.split_once(' ').expect("a name and a type");
            assert!(families.insert(family), "{family} is there twice");
            assert!(["counter", "gauge", "histogram", "unknown"].contains(&kind), "{line}");
            assert!(kind != "counter" || !family.ends_with("_total"), "{line}");
            continue;
        }
        if let Some(told) = line.strip_prefix("# HELP ") {
            assert!(told.starts_with(&format!("{family} ")), "{line} in {family}");
            continue;
        }
        assert!(!line.starts_with('#') && !line.trim().is_empty(), "{line:?}");
        let (sample, exemplar) = match line.split_once(" # ") {
            Some((sample, exemplar)) => (sample, Some(exemplar)),
            None => (line, None),
        };
        let (name, value) = sample.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name), "{name} is there twice");
        let metric = name.split('{').next().unwrap_or_default();
        let suffix = metric.strip_prefix(family).expect("a sample of its family");
        let fits: &[&str] = match kind {
            "counter" => &["_total", "_created"],
            "histogram" => &["_bucket", "_sum", "_count", "_created"],
            _ => &[""],
        };
        assert!(fits.contains(&suffix), "{line} in a {kind}");
        if let Some(exemplar) = exemplar {
            assert!(suffix == "_bucket" || suffix == "_total", "{line}");
            let (labels, rest) = exemplar.split_once("} ").expect("labels and a value");
            assert!(labels.starts_with('{') && labels.len() <= 128, "{line}");
            assert!(rest.split(' ').all(|number| number.parse::<f64>().is_ok()), "{line}");
        }
    }
    // Everything that is shown has told its type.
    let clashing = families.iter().filter(|name| {
        ["_total", "_created", "_bucket", "_sum", "_count"].iter().any(|suffix| {
            let with = format!("{name}{suffix}");
            families.contains(with.as_str()) && !text.contains(&format!("# TYPE {with} unknown"))
        })
    });
    assert_eq!(clashing.count(), 0);
}
