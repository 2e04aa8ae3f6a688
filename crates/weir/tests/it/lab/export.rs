//! `weir lab run --otlp`, `--prometheus-remote-write`: metrics while the load runs.

use super::target::{Response, Target};
use crate::harness::{Prometheus, Upstream, files, nobody};
use crate::telemetry::collector::{Collector, attribute};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// What [`Collector`] demands.
const CREDENTIAL: &str = "Authorization=Bearer%20secret-of-the-collector";
const SECRET: &str = "secret-of-the-collector";

fn target() -> Target {
    Target::start(|_, path| match path {
        "/missing" => Response::Status(404, Duration::from_millis(2), "no".to_owned()),
        _ => Response::Text(Duration::from_millis(2), "well".to_owned()),
    })
}

fn run(dir: &Path, target: &Target, seconds: u32, args: &[&str]) -> Output {
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\n\
         requests: [{{name: one, get: /}}, {{name: two, get: /missing}}]\n\
         load: {{executor: constant-vus, vus: 2, duration: {seconds}s}}\n",
        target.addr
    );
    fs::write(dir.join("shop.yaml"), scenario).unwrap();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .current_dir(dir)
        .env("OTEL_EXPORTER_OTLP_HEADERS", CREDENTIAL)
        .args(["lab", "run", "shop.yaml", "--out", "out", "--export-interval", "1s"])
        .args(args)
        .output()
        .unwrap()
}

fn json(dir: &Path, name: &str) -> Value {
    let text = fs::read_to_string(dir.join("out").join(name)).expect(name);
    serde_json::from_str(&text).expect("JSON")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match &metric.data {
        Some(Data::Sum(sum)) => &sum.data_points,
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{other:?}"),
    }
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsDouble(
            value,
        )) => value,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn receivers_get_the_figures_of_the_results() {
    let (target, collector, dir) = (target(), Collector::start(), tempfile::tempdir().unwrap());
    let prometheus = Prometheus::start();
    let otlp = format!("http://{}", collector.upstream.addr);
    let remote_write = prometheus.as_ref().map(Prometheus::remote_write);
    let mut args = vec!["--otlp", &otlp];
    args.extend(remote_write.iter().flat_map(|url| ["--prometheus-remote-write", url]));
    let output = run(dir.path(), &target, 2, &args);
    let summary = json(dir.path(), "summary.json");
    let samples = |label: usize| summary["cells"][0]["labels"][label]["samples"].as_f64().unwrap();

    let metrics = collector.last_report();
    let of = |name: &str| metrics.iter().find(|one| one.name == name).expect(name);
    let duration = of("http.client.request.duration");
    let Some(Data::Histogram(histogram)) = &duration.data else { panic!("a histogram") };
    assert_eq!(duration.unit, "s");
    let [one, two] = &histogram.data_points[..] else { panic!("two requests") };
    assert_eq!(
        [one.count as f64, two.count as f64],
        [samples(1), samples(2)],
        "{}",
        stderr(&output)
    );
    assert_eq!(one.bucket_counts.iter().sum::<u64>(), one.count);
    assert!(one.sum.is_some_and(|sum| sum > 0.002 * one.count as f64));
    for (key, value) in [
        ("weir.request", "one"),
        ("http.request.method", "GET"),
        ("server.address", "127.0.0.1"),
        ("server.port", &target.addr.port().to_string()),
    ] {
        assert_eq!(attribute(&one.attributes, key), value);
    }
    let failed = points(of("weir_lab_requests_total"));
    let failed = failed.iter().find(|one| attribute(&one.attributes, "outcome") == "failed");
    let failed = failed.expect("a failed request");
    assert_eq!(attribute(&failed.attributes, "error.type"), "404");
    assert_eq!(attribute(&failed.attributes, "http.response.status_code"), "404");
    assert_eq!(number(failed), samples(2));
    assert_eq!(number(&points(of("weir_lab_users"))[0]), 0.0, "the load is over");
    assert!(
        points(of("weir_lab_response_quantile_seconds")).iter().all(|one| number(one) >= 0.002)
    );
    let id = json(dir.path(), "run.json")["id"].as_str().unwrap().to_owned();
    let resource = collector.resource().attributes;
    assert_eq!(attribute(&resource, "service.name"), "weir-lab");
    assert_eq!(attribute(&resource, "service.instance.id"), id);
    assert_eq!(attribute(&resource, "weir.lab.scenario"), "shop");

    if let Some(prometheus) = &prometheus {
        let own = format!("job=\"weir-lab\",instance=\"{id}\",weir_scenario=\"shop\"");
        let count = format!("sum(http_client_request_duration_seconds_count{{{own}}})");
        assert_eq!(prometheus.query(&count), Some(samples(0)), "{}", stderr(&output));
        let failed = "weir_lab_requests_total{error_type=\"404\",weir_request=\"two\"}";
        assert_eq!(prometheus.query(failed), Some(samples(2)));
        let buckets = "sum by (le) (http_client_request_duration_seconds_bucket)";
        let p99 = prometheus.query(&format!("histogram_quantile(0.99, {buckets})"));
        assert!(p99.is_some_and(|p99| p99 > 0.001), "{p99:?}");
        assert_eq!(prometheus.query("target_info{weir_lab_scenario=\"shop\"}"), Some(1.0));
        // Each interval is a sample of the series.
        let intervals = prometheus.query("count_over_time(weir_lab_users[5m])").expect("a series");
        assert!(intervals >= 2.0, "{intervals}");
    }
    let exports = summary["exports"].as_array().expect("exports");
    assert_eq!(exports.len(), 1 + usize::from(prometheus.is_some()));
    for export in exports {
        assert!(export["batches"].as_u64() >= Some(2), "{export}");
        assert_eq!((&export["accepted"], &export["dropped"]), (&export["batches"], &0.into()));
        let to = export["to"].as_str().unwrap();
        assert!(stderr(&output).contains(&format!("export to {to}: ")), "{}", stderr(&output));
    }
    for path in files(&dir.path().join("out")) {
        let bytes = fs::read(&path).unwrap();
        assert!(memchr::memmem::find(&bytes, SECRET.as_bytes()).is_none(), "{}", path.display());
    }
}

#[test]
fn a_dead_and_a_silent_receiver_cost_batches_and_nothing_else() {
    let (target, dir) = (target(), tempfile::tempdir().unwrap());
    let (dead, silent) = (nobody(), Upstream::start(|_, peer| peer.hang()));
    let (otlp, write) = (format!("http://{dead}"), format!("http://{}/write", silent.addr));
    let args = ["--otlp", &otlp, "--prometheus-remote-write", &write];
    let output = run(dir.path(), &target, 1, &args);
    let summary = json(dir.path(), "summary.json");
    assert!(summary["cells"][0]["labels"][0]["samples"].as_u64() > Some(50), "{summary}");
    for (at, problem) in [(0, "refused"), (1, "not accepted within 3 s after the load")] {
        let export = &summary["exports"][at];
        assert_eq!((&export["accepted"], &export["dropped"]), (&0.into(), &export["batches"]));
        assert!(export["problem"].as_str().unwrap().contains(problem), "{export}");
        assert!(stderr(&output).contains(problem), "{}", stderr(&output));
    }
    let report = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    let markdown = fs::read_to_string(dir.path().join("out/summary.md")).unwrap();
    assert!(report.contains(&otlp) && markdown.contains("### Export"), "they name the receivers");
}

#[test]
fn busy_receivers_get_the_batch_again_and_refusing_ones_do_not() {
    const BUSY: &str = "HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (target, dir) = (target(), tempfile::tempdir().unwrap());
    let busy = Collector::responding(|number| if number == 0 { BUSY } else { TAKEN }.to_owned());
    let refusing = Upstream::responding("HTTP/1.1 400 No\r\nContent-Length: 5\r\n\r\nno x\n");
    let otlp = format!("http://{}/", busy.upstream.addr);
    let write = format!("http://{}/write?token=sesame", refusing.addr);
    let output =
        run(dir.path(), &target, 1, &["--otlp", &otlp, "--prometheus-remote-write", &write]);
    let summary = json(dir.path(), "summary.json");
    let of = |at: usize, key: &str| summary["exports"][at][key].clone();
    assert_eq!((of(0, "accepted"), of(0, "dropped")), (of(0, "batches"), 0.into()), "{summary}");
    assert_eq!(of(0, "problem"), "status 429");
    assert_eq!(
        (of(1, "rejected"), of(1, "problem")),
        (of(1, "batches"), "status 400: no x".into())
    );
    assert_eq!(refusing.heads().len() as u64, of(1, "batches").as_u64().unwrap());
    let head = refusing.heads()[0].to_ascii_lowercase();
    for field in ["content-encoding: snappy", "x-prometheus-remote-write-version: 0.1.0"] {
        assert!(head.contains(field), "{head}");
    }
    assert!(!head.contains(SECRET), "each receiver has its own credentials");
    // A secret of the URL is in no message and no file.
    let text = stderr(&output);
    assert!(
        text.contains("/write?token=***: 0 of ") && text.contains("(status 400: no x)"),
        "{text}"
    );
    assert!(json(dir.path(), "run.json")["command"].to_string().contains("/write?token=***"));
    for path in files(&dir.path().join("out")) {
        assert!(!String::from_utf8_lossy(&fs::read(path).unwrap()).contains("sesame"));
    }
}

#[test]
fn wrong_receivers_are_errors_before_the_load() {
    let (target, dir) = (target(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("headers"), "Authorization: Bearer sesame\n").unwrap();
    fs::write(dir.path().join("wrong"), "sesame\n").unwrap();
    let write = "--prometheus-remote-write";
    for (args, problem) in [
        (
            &["--otlp", "http://me:sesame@127.0.0.1"][..],
            "--otlp: user and password in a URL would be recorded",
        ),
        (&["--otlp", "127.0.0.1:4318"], "--otlp: write a URL with http:// or https://"),
        (
            &[write, "http://192.0.2.1/w", "--prometheus-headers", "headers"],
            "authorization would be sent in plain text",
        ),
        (
            &[write, "http://127.0.0.1/w", "--prometheus-headers", "wrong"],
            "wrong: line 1: write `Name: value`",
        ),
        (&[write, "https://127.0.0.1/w", "--export-ca", "nowhere"], "nowhere"),
    ] {
        let output = run(dir.path(), &target, 1, args);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(problem), "{problem}: {text}");
        assert!(!text.contains("sesame"), "{text}");
    }
    assert_eq!(target.requests(), 0);
    assert!(!dir.path().join("out").exists());
}
