//! A collector: takes what it is sent as OTLP has it, and shows it.

use crate::harness::{PATIENCE, Upstream, eventually};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::sync::{Arc, Mutex};

/// What it has been sent.
#[derive(Default)]
struct Got {
    bodies: Vec<Vec<u8>>,
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
}

/// A running one.
pub(crate) struct Collector {
    pub(crate) upstream: Upstream,
    got: Arc<Mutex<Got>>,
}

impl Collector {
    /// One that takes everything.
    pub(crate) fn start() -> Self {
        Self::responding(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned())
    }

    /// One that gives this answer to the request with this number, and takes what it answers with
    /// 200.
    pub(crate) fn responding(response: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let got = Arc::new(Mutex::new(Got::default()));
        let shared = Arc::clone(&got);
        let count = Mutex::new(0);
        let upstream = Upstream::start(move |_, peer| {
            while let Some(body) = peer.request() {
                let head = peer.last_head().to_ascii_lowercase();
                assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
                let number = {
                    let mut count = count.lock().expect("not poisoned");
                    *count += 1;
                    *count - 1
                };
                let response = response(number);
                if response.starts_with("HTTP/1.1 200") {
                    shared.lock().expect("not poisoned").take(&head, body);
                }
                peer.send(response);
            }
        });
        Self { upstream, got }
    }

    /// Waits until there are so many spans; gives all.
    pub(crate) fn spans(&self, count: usize) -> Vec<Span> {
        eventually(&format!("{count} spans"), || self.spans_so_far().len() >= count);
        let spans = self.spans_so_far();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }

    pub(crate) fn spans_so_far(&self) -> Vec<Span> {
        let got = self.got.lock().expect("not poisoned");
        let resources = got.traces.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|one| &one.scope_spans).flat_map(|one| one.spans.clone()).collect()
    }

    /// The resource of the first spans or metrics.
    pub(crate) fn resource(&self) -> Resource {
        let got = self.got.lock().expect("not poisoned");
        let spans = got.traces.iter().flat_map(|one| &one.resource_spans).map(|one| &one.resource);
        let metrics =
            got.metrics.iter().flat_map(|one| &one.resource_metrics).map(|one| &one.resource);
        spans.chain(metrics).next().expect("something came").clone().expect("a resource")
    }

    /// Waits for a report that has a metric that is as it should be.
    pub(crate) fn metric(&self, name: &str, fits: impl Fn(&Metric) -> bool) -> Metric {
        let start = std::time::Instant::now();
        loop {
            let metrics = self.last_report();
            if let Some(metric) = metrics.iter().find(|one| one.name == name && fits(one)) {
                return metric.clone();
            }
            assert!(start.elapsed() < PATIENCE, "no such {name} in {metrics:#?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Metrics of the last report.
    pub(crate) fn last_report(&self) -> Vec<Metric> {
        let got = self.got.lock().expect("not poisoned");
        let resources = got.metrics.last().into_iter().flat_map(|one| &one.resource_metrics);
        resources.flat_map(|one| &one.scope_metrics).flat_map(|one| one.metrics.clone()).collect()
    }

    /// Whether these bytes were in anything that it was sent.
    pub(crate) fn was_told(&self, text: &str) -> bool {
        let got = self.got.lock().expect("not poisoned");
        got.bodies.iter().any(|body| memchr::memmem::find(body, text.as_bytes()).is_some())
    }
}

impl Got {
    fn take(&mut self, head: &str, body: Vec<u8>) {
        assert!(head.contains("\r\nauthorization: bearer secret-of-the-collector\r\n"), "{head}");
        match head.split(' ').nth(1) {
            Some("/v1/traces") => {
                self.traces.push(ExportTraceServiceRequest::decode(&body[..]).expect("spans"));
            }
            Some("/v1/metrics") => {
                self.metrics.push(ExportMetricsServiceRequest::decode(&body[..]).expect("metrics"));
            }
            _ => panic!("{head}"),
        }
        self.bodies.push(body);
    }
}

/// An attribute as text, numbers too; empty if it is not there.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => format!("{number}"),
        Some(other) => panic!("{key} is {other:?}"),
        None => String::new(),
    }
}

/// An id in hexadecimal digits.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
