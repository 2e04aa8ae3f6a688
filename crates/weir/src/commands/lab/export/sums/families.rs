//! Sums as families of metrics, with the names of OpenTelemetry's conventions where there are any
//! (<https://opentelemetry.io/docs/specs/semconv/http/http-metrics/#http-client>).

use super::{BOUNDS, Buckets, Case, LabelSums, Sums};
use weir_admin::metrics::{Family, Histogram, Kind, Labels, Sample, Samples};
use weir_lab::program::Label;
use weir_lab::sample::ErrorKind;

/// Percentiles of the times since the last batch; 1 is the maximum.
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

/// A family of numbers of cases.
type OfCases = (Kind, &'static str, fn(&Case) -> f64, &'static str);

const OF_CASES: [OfCases; 5] = [
    (Kind::Gauge, "weir_lab_users", |case| case.users as f64, "Active users."),
    (
        Kind::Gauge,
        "weir_lab_requests_in_flight",
        |case| case.in_flight as f64,
        "Requests without a complete response.",
    ),
    (
        Kind::Counter,
        "weir_lab_iterations_offered_total",
        |case| case.offered as f64,
        "Iterations that the schedules of open models offered.",
    ),
    (
        Kind::Counter,
        "weir_lab_iterations_dropped_total",
        |case| case.dropped as f64,
        "Iterations of open models that found no user.",
    ),
    (
        Kind::Counter,
        "weir_lab_generator_cpu_seconds_total",
        |case| case.generator_cpu as f64 / 1e9,
        "CPU time of the generator.",
    ),
];

/// A label of a case with its sums and metric labels.
struct Row<'s> {
    labels: Labels,
    sums: &'s LabelSums,
    is_transaction: bool,
}

impl Sums {
    /// All families of the cases that changed since the last call, and of the loaded case.
    pub(in super::super) fn families(&mut self) -> Vec<Family> {
        let changed: Vec<&Case> = self.cases.iter().filter(|case| case.is_new).collect();
        let rows: Vec<Row<'_>> = changed.iter().flat_map(|case| rows(case)).collect();
        let mut families = of_requests(&rows);
        families.extend(OF_CASES.iter().map(|(kind, name, value, help)| {
            let sample = |case: &&Case| Sample { labels: case_labels(case), value: value(case) };
            Family::new(*kind, name, help, changed.iter().map(sample))
        }));
        let lags =
            changed.iter().filter_map(|case| Some((case_labels(case), case.send_lag.as_ref()?)));
        families.push(histograms(
            "weir_lab_send_lag_seconds",
            "Time by which requests of open models were sent late.",
            lags,
        ));
        for case in &mut self.cases {
            case.is_new = false;
            case.sums.iter_mut().flatten().for_each(|sums| sums.window.reset());
        }
        families
    }
}

fn case_labels(case: &Case) -> Labels {
    let name = (!case.name.is_empty()).then(|| ("weir_case", case.name.clone()));
    name.into_iter().collect()
}

fn rows(case: &Case) -> Vec<Row<'_>> {
    let names = case.labels.names();
    let used = (0..).map(Label).zip(&case.sums);
    let used = used.filter_map(|(label, sums)| Some((label, sums.as_deref()?)));
    used.map(|(label, sums)| {
        let mut labels = case_labels(case);
        let name = names.get(label.0 as usize).cloned().unwrap_or_default();
        labels.push(("weir_request", name));
        if let Some(target) = case.targets.get(&label) {
            labels.push(("http_request_method", target.method.clone()));
            if let Some((host, port)) = &target.server {
                labels.push(("server_address", host.clone()));
                labels.push(("server_port", port.to_string()));
            }
        }
        Row { labels, sums, is_transaction: case.transactions.contains(&label) }
    })
    .collect()
}

fn of_requests(rows: &[Row<'_>]) -> Vec<Family> {
    let of = |is_transaction: bool| {
        let rows = rows.iter().filter(move |row| row.is_transaction == is_transaction);
        rows.map(|row| (row.labels.clone(), row.sums))
    };
    let service = |(labels, sums): (Labels, _)| {
        let sums: &LabelSums = sums;
        (labels, &sums.service)
    };
    vec![
        histograms(
            "http_client_request_duration_seconds",
            "Durations of completed requests, also of failed ones.",
            of(false).map(service),
        ),
        histograms(
            "weir_lab_transaction_duration_seconds",
            "Durations of transactions, which consist of requests.",
            of(true).map(service),
        ),
        histograms(
            "weir_lab_response_duration_seconds",
            "Durations of requests of open models since they were due.",
            of(false).filter_map(|(labels, sums)| Some((labels, sums.response.as_ref()?))),
        ),
        Family::new(
            Kind::Gauge,
            "weir_lab_response_quantile_seconds",
            "Percentiles of response times since the last batch, exact to 0.1 %; 1 is the maximum.",
            rows.iter().flat_map(quantiles),
        ),
        Family::new(
            Kind::Counter,
            "weir_lab_requests_total",
            "Completed requests by outcome.",
            rows.iter().filter(|row| !row.is_transaction).flat_map(outcomes),
        ),
        Family::new(
            Kind::Counter,
            "weir_lab_io_bytes_total",
            "Bytes of requests and responses.",
            of(false).flat_map(|(labels, sums)| {
                let sample = |(direction, value): (&str, u64)| {
                    with(&labels, [("network_io_direction", direction.to_owned())], value)
                };
                [("transmit", sums.sent), ("receive", sums.received)].map(sample)
            }),
        ),
        Family::new(
            Kind::Counter,
            "weir_lab_connections_total",
            "Opened connections.",
            of(false).map(|(labels, sums)| Sample { labels, value: sums.connects as f64 }),
        ),
    ]
}

fn quantiles(row: &Row<'_>) -> Vec<Sample> {
    let window = &row.sums.window;
    if window.is_empty() {
        return Vec::new();
    }
    let sample = |quantile: &f64| {
        let mut labels = row.labels.clone();
        labels.push(("quantile", quantile.to_string()));
        Sample { labels, value: window.value_at_quantile(*quantile) as f64 / 1e9 }
    };
    QUANTILES.iter().map(sample).collect()
}

fn outcomes(row: &Row<'_>) -> Vec<Sample> {
    let sums = row.sums;
    let outcome = |name: &str| ("outcome", name.to_owned());
    let mut samples = vec![with(&row.labels, [outcome("ok")], sums.ok)];
    if sums.expected > 0 {
        samples.push(with(&row.labels, [outcome("expected")], sums.expected));
    }
    for ((kind, status), count) in sums.failed.iter().filter(|(_, count)| **count > 0) {
        let mut labels = vec![outcome("failed"), ("error_type", error_type(*kind, *status))];
        if *status > 0 {
            labels.push(("http_response_status_code", status.to_string()));
        }
        samples.push(with(&row.labels, labels, *count));
    }
    samples
}

/// The status if it is the error, as in the conventions, otherwise the kind.
fn error_type(kind: ErrorKind, status: u16) -> String {
    match kind.name() {
        name if name.starts_with("http_") && status > 0 => status.to_string(),
        name => name.to_owned(),
    }
}

fn with(
    labels: &Labels,
    more: impl IntoIterator<Item = (&'static str, String)>,
    value: u64,
) -> Sample {
    let labels = labels.iter().cloned().chain(more).collect();
    Sample { labels, value: value as f64 }
}

fn histograms<'b>(
    name: &'static str,
    help: &'static str,
    of: impl Iterator<Item = (Labels, &'b Buckets)>,
) -> Family {
    let histogram = |(labels, buckets): (Labels, &Buckets)| {
        let mut below = 0;
        let upto = BOUNDS.iter().zip(buckets.counts).map(|(bound, count)| {
            below += count;
            (*bound, below)
        });
        let cumulative = upto.collect();
        let (count, sum) = (buckets.count(), buckets.sum);
        Histogram { labels, buckets: cumulative, count, sum, exemplars: Vec::new() }
    };
    Family { name, help, samples: Samples::Histogram(of.map(histogram).collect()) }
}
