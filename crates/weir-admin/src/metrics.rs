//! Metrics as data, and their rendering in the Prometheus and OpenMetrics formats.
//!
//! There is no registry: modules return families of metrics, and a page is rendered from them.

mod gateway;
mod openmetrics;
mod pools;
mod process;
mod text;
mod upstreams;

pub use gateway::gateway;
pub use pools::pools;
pub use process::process;
use text::{Format, render};
pub use weir_telemetry::stats::Exemplar;

use axum::http::{HeaderMap, header};

/// A page in the format that the scraper prefers, and its Content-Type.
pub fn page(families: &[Family], headers: &HeaderMap) -> (&'static str, String) {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (content_type, format) = match openmetrics::is_preferred(accept) {
        true => (openmetrics::CONTENT_TYPE, Format::OpenMetrics),
        false => (text::CONTENT_TYPE, Format::Plain),
    };
    (content_type, render(families, format))
}

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name, in the characters Prometheus allows, with its unit, and `_total` for counters.
    pub name: &'static str,
    /// Meaning, in one line.
    pub help: &'static str,
    /// The values.
    pub samples: Samples,
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// Counters: values that only grow.
    Counter(Vec<Sample>),
    /// Gauges: values that rise and fall.
    Gauge(Vec<Sample>),
    /// Histograms.
    Histogram(Vec<Histogram>),
}

/// Kind of a number.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// One family of a table: kind, name, number, help.
pub type Row<T> = (Kind, &'static str, fn(&T) -> f64, &'static str);

/// One family of a table with a further label: kind, name, label, numbers by its values, help.
pub type LabelledRow<T> =
    (Kind, &'static str, &'static str, fn(&T) -> Vec<(&'static str, f64)>, &'static str);

/// Labels of a series. The number of their values is bounded: never a path, a client or a token.
pub type Labels = Vec<(&'static str, String)>;

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Labels.
    pub labels: Labels,
    /// Value.
    pub value: f64,
}

/// A histogram with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Labels.
    pub labels: Labels,
    /// Upper bounds, ascending, and the cumulative number of observations up to each. The bound of
    /// infinity is not included.
    pub buckets: Vec<(f64, u64)>,
    /// Number of observations.
    pub count: u64,
    /// Sum of the observations.
    pub sum: f64,
    /// Traced observations, at most one a bucket, by the number of the bucket; that of infinity
    /// follows the last.
    pub exemplars: Vec<(usize, Exemplar)>,
}

impl Family {
    /// A family with these numbers.
    pub fn new(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = Sample>,
    ) -> Self {
        let samples = samples.into_iter().collect();
        let samples = match kind {
            Kind::Counter => Samples::Counter(samples),
            Kind::Gauge => Samples::Gauge(samples),
        };
        Self { name, help, samples }
    }

    /// Counters of one family, distinguished by one label.
    pub fn counters(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        counts: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Self {
        let sample =
            |(value, count): (&str, _)| Sample::new(vec![(label, value.to_owned())], count);
        Self::new(Kind::Counter, name, help, counts.into_iter().map(sample))
    }

    /// A family with one number without labels.
    pub fn single(kind: Kind, name: &'static str, help: &'static str, value: f64) -> Self {
        Self::new(kind, name, help, [Sample { labels: Vec::new(), value }])
    }

    /// The families of a table, each with one number without labels.
    pub fn table<T>(rows: &[Row<T>], source: &T) -> impl Iterator<Item = Self> {
        Self::table_of(rows, std::slice::from_ref(source), |_| Vec::new())
    }

    /// The families of a table, each with a number of every item.
    pub fn table_of<T>(
        rows: &[Row<T>],
        items: &[T],
        labels: fn(&T) -> Labels,
    ) -> impl Iterator<Item = Self> {
        rows.iter().map(move |&(kind, name, value, help)| {
            let samples =
                items.iter().map(|item| Sample { labels: labels(item), value: value(item) });
            Self::new(kind, name, help, samples)
        })
    }

    /// The families of a table, each with the numbers of every item by a further label.
    pub fn labelled<T>(
        rows: &[LabelledRow<T>],
        items: &[T],
        labels: fn(&T) -> Labels,
    ) -> impl Iterator<Item = Self> {
        rows.iter().map(move |&(kind, name, label, numbers, help)| {
            let samples = items.iter().flat_map(|item| {
                numbers(item).into_iter().map(move |(of, value)| {
                    let mut labels = labels(item);
                    labels.push((label, of.to_owned()));
                    Sample { labels, value }
                })
            });
            Self::new(kind, name, help, samples)
        })
    }
}

/// Counts by the values of a label.
pub fn counts(values: &[&'static str], counts: &[u64]) -> Vec<(&'static str, f64)> {
    values.iter().copied().zip(counts.iter().map(|count| *count as f64)).collect()
}

impl Sample {
    /// A count with labels.
    pub fn new(labels: Labels, count: u64) -> Self {
        Self { labels, value: count as f64 }
    }
}
