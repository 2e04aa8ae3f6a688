//! Metrics as data, and the Prometheus text format.
//!
//! There is no registry: whoever has numbers gives families, and a page is rendered from them.

mod gateway;
mod openmetrics;
mod pools;
mod process;
mod text;
mod upstreams;

pub use gateway::gateway;
pub use pools::pools;
pub use process::process;
pub use text::render;
pub use weir_gateway::stats::Exemplar;

use axum::http::{HeaderMap, header};

/// A page in the format that a scraper prefers, and its Content-Type.
pub fn page(families: &[Family], asked: &HeaderMap) -> (&'static str, String) {
    let asked = asked.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if openmetrics::is_preferred(asked) {
        (openmetrics::CONTENT_TYPE, openmetrics::render(families))
    } else {
        (text::CONTENT_TYPE, render(families))
    }
}

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name, in the characters Prometheus allows, with its unit and `_total` where it belongs.
    pub name: &'static str,
    /// What it counts, in one line.
    pub help: &'static str,
    /// The numbers.
    pub samples: Samples,
}

/// Numbers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// Numbers that only grow.
    Counter(Vec<Sample>),
    /// Numbers that come and go.
    Gauge(Vec<Sample>),
    /// Distributions.
    Histogram(Vec<Histogram>),
}

/// Names and values that tell samples of one family apart. Values are bounded in number: never a
/// path, a client or a token.
pub type Labels = Vec<(&'static str, String)>;

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: f64,
}

/// One distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Its labels.
    pub labels: Labels,
    /// Upper bounds, ascending, and how many observations were not above each (cumulative). The
    /// bound of infinity is not among them.
    pub buckets: Vec<(f64, u64)>,
    /// How many observations there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Traced ones that stand for others: one a bucket at most, by its number; that of infinity is
    /// behind the last.
    pub exemplars: Vec<(usize, Exemplar)>,
}

impl Family {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, samples: Samples::Counter(vec![Sample::new(Vec::new(), value as f64)]) }
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, samples: Samples::Gauge(vec![Sample::new(Vec::new(), value)]) }
    }
}

impl Sample {
    /// A number with labels.
    pub fn new(labels: Labels, value: f64) -> Self {
        Self { labels, value }
    }
}
