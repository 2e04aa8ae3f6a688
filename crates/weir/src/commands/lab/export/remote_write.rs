//! Prometheus remote write 1.0 (<https://prometheus.io/docs/specs/prw/remote_write_spec/>).

use super::Identity;
use super::queue::Batch;
use prost::Message;
use weir_admin::metrics::{Family, Histogram, Samples};

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<MetricMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[derive(Clone, PartialEq, Message)]
struct MetricMetadata {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    metric_family_name: String,
    #[prost(string, tag = "4")]
    help: String,
}

const KIND_COUNTER: i32 = 1;
const KIND_GAUGE: i32 = 2;
const KIND_HISTOGRAM: i32 = 3;

/// A compressed request with the metrics of a batch.
pub(super) fn encode(batch: &Batch, identity: &Identity) -> Vec<u8> {
    compress(&request(batch, identity).encode_to_vec())
}

/// The block format of Snappy; a length without content, which receivers reject, of more than 4 GiB.
fn compress(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap_or_default()
}

fn request(batch: &Batch, identity: &Identity) -> WriteRequest {
    let timestamp = i64::try_from(batch.span.until.as_millis()).unwrap_or(i64::MAX);
    let mut writer = Writer { identity, timestamp, timeseries: Vec::new() };
    writer.target_info();
    let used: Vec<&Family> = batch.families.iter().filter(|family| !is_empty(family)).collect();
    used.iter().for_each(|family| writer.family(family));
    let metadata = used.iter().map(|family| metadata(family)).collect();
    WriteRequest { timeseries: writer.timeseries, metadata }
}

fn is_empty(family: &Family) -> bool {
    match &family.samples {
        Samples::Counter(samples) | Samples::Gauge(samples) => samples.is_empty(),
        Samples::Histogram(histograms) => histograms.is_empty(),
    }
}

fn metadata(family: &Family) -> MetricMetadata {
    let kind = match family.samples {
        Samples::Counter(_) => KIND_COUNTER,
        Samples::Gauge(_) => KIND_GAUGE,
        Samples::Histogram(_) => KIND_HISTOGRAM,
    };
    MetricMetadata {
        kind,
        metric_family_name: family.name.to_owned(),
        help: family.help.to_owned(),
    }
}

/// Writes series with the labels of the run.
struct Writer<'i> {
    identity: &'i Identity,
    timestamp: i64,
    timeseries: Vec<TimeSeries>,
}

impl Writer<'_> {
    fn target_info(&mut self) {
        let info = self.identity.target_info();
        let labels: Vec<_> =
            info.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        self.series("target_info", &labels, 1.0);
    }

    fn family(&mut self, family: &Family) {
        match &family.samples {
            Samples::Counter(samples) | Samples::Gauge(samples) => {
                for sample in samples {
                    self.series(family.name, &as_texts(&sample.labels), sample.value);
                }
            }
            Samples::Histogram(histograms) => {
                histograms.iter().for_each(|one| self.histogram(family.name, one));
            }
        }
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram) {
        let labels = as_texts(&histogram.labels);
        let all = (f64::INFINITY, histogram.count);
        for (bound, count) in histogram.buckets.iter().copied().chain([all]) {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            let with: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.series(&format!("{name}_bucket"), &with, count as f64);
        }
        self.series(&format!("{name}_sum"), &labels, histogram.sum);
        self.series(&format!("{name}_count"), &labels, histogram.count as f64);
    }

    /// A series with a sample. Labels are sorted by name, and none is empty.
    fn series(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = self.identity.labels.iter().map(|(key, value)| (*key, value.as_str()));
        let all = own.chain(labels.iter().copied()).chain([("__name__", name)]);
        let used = all.filter(|(_, value)| !value.is_empty());
        let label =
            |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
        let mut labels: Vec<Label> = used.map(label).collect();
        labels.sort();
        let samples = vec![Sample { value, timestamp: self.timestamp }];
        self.timeseries.push(TimeSeries { labels, samples });
    }
}

fn as_texts<'l>(labels: &'l [(&'static str, String)]) -> Vec<(&'l str, &'l str)> {
    labels.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::points::Span;
    use std::time::Duration;
    use weir_admin::metrics;

    #[test]
    fn series_have_sorted_labels_of_the_run() {
        let histogram = Histogram {
            labels: vec![("weir_request", "one".to_owned()), ("weir_case", String::new())],
            buckets: vec![(0.5, 2), (1.0, 3)],
            count: 4,
            sum: 5.5,
            exemplars: Vec::new(),
        };
        let families = vec![
            Family { name: "d_seconds", help: "x", samples: Samples::Histogram(vec![histogram]) },
            Family::new(metrics::Kind::Gauge, "empty", "x", []),
        ];
        let span = Span { since: Duration::ZERO, until: Duration::from_millis(1_234) };
        let identity = Identity {
            attributes: vec![("weir.lab.scenario".to_owned(), "shop".to_owned())],
            labels: vec![("job", "weir-lab".to_owned()), ("instance", "r".to_owned())],
            run: "r".to_owned(),
        };
        let bytes = encode(&Batch { families, span }, &identity);
        let bytes = snap::raw::Decoder::new().decompress_vec(&bytes).expect("Snappy");
        let found = WriteRequest::decode(&bytes[..]).expect("protobuf");
        let text = |series: &TimeSeries| {
            let labels =
                series.labels.iter().map(|label| format!("{}={}", label.name, label.value));
            let labels: Vec<String> = labels.collect();
            assert_eq!(series.samples[0].timestamp, 1_234);
            format!("{} {}", labels.join(","), series.samples[0].value)
        };
        let found_series: Vec<String> = found.timeseries.iter().map(text).collect();
        let own = "instance=r,job=weir-lab";
        assert_eq!(
            found_series,
            [
                format!("__name__=target_info,{own},weir_lab_scenario=shop 1"),
                format!("__name__=d_seconds_bucket,{own},le=0.5,weir_request=one 2"),
                format!("__name__=d_seconds_bucket,{own},le=1,weir_request=one 3"),
                format!("__name__=d_seconds_bucket,{own},le=+Inf,weir_request=one 4"),
                format!("__name__=d_seconds_sum,{own},weir_request=one 5.5"),
                format!("__name__=d_seconds_count,{own},weir_request=one 4"),
            ]
        );
        assert_eq!((found.metadata.len(), found.metadata[0].kind), (1, KIND_HISTOGRAM));
    }
}
