//! The Prometheus text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>), and what OpenMetrics has in
//! common with it.

use super::{Family, Histogram, Sample, Samples, openmetrics};

/// Content-Type of a rendered page.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Format of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    OpenMetrics,
}

/// Renders families in their order. Each name must occur in one family only.
pub(super) fn render(families: &[Family], format: Format) -> String {
    let mut out = String::with_capacity(16 * 1024);
    for family in families {
        out.push_str(&match format {
            Format::Plain => header(family),
            Format::OpenMetrics => openmetrics::header(family, families),
        });
        match &family.samples {
            Samples::Counter(samples) | Samples::Gauge(samples) => {
                for Sample { labels, value } in samples {
                    sample(&mut out, family.name, "", labels.iter().map(pair), *value);
                    out.push('\n');
                }
            }
            Samples::Histogram(histograms) => {
                histograms.iter().for_each(|one| histogram(&mut out, family.name, one, format));
            }
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn header(family: &Family) -> String {
    let kind = match &family.samples {
        Samples::Counter(_) => "counter",
        Samples::Gauge(_) => "gauge",
        Samples::Histogram(_) => "histogram",
    };
    let name = family.name;
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
}

fn histogram(out: &mut String, name: &str, histogram: &Histogram, format: Format) {
    let labels = || histogram.labels.iter().map(pair);
    let bounds = histogram.buckets.iter().copied().chain([(f64::INFINITY, histogram.count)]);
    for (index, (bound, count)) in bounds.enumerate() {
        let bound = match format {
            // `1.0`, not `1`: a number has one representation.
            Format::OpenMetrics if bound.is_finite() => format!("{bound:?}"),
            _ => number(bound),
        };
        sample(out, name, "_bucket", labels().chain([("le", bound.as_str())]), count as f64);
        let exemplar = histogram.exemplars.iter().find(|(bucket, _)| *bucket == index);
        if let (Format::OpenMetrics, Some((_, exemplar))) = (format, exemplar) {
            out.push_str(&openmetrics::exemplar(exemplar));
        }
        out.push('\n');
    }
    for (suffix, value) in [("_sum", histogram.sum), ("_count", histogram.count as f64)] {
        sample(out, name, suffix, labels(), value);
        out.push('\n');
    }
}

fn pair<'a>((name, value): &'a (&'static str, String)) -> (&'a str, &'a str) {
    (name, value)
}

/// A line without its end, which is the same in both formats.
fn sample<'a>(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let mut separator = '{';
    for (label, text) in labels {
        out.push(separator);
        separator = ',';
        out.push_str(label);
        out.push_str("=\"");
        escape(out, text);
        out.push('"');
    }
    if separator == ',' {
        out.push('}');
    }
    out.push(' ');
    out.push_str(&number(value));
}

/// Escapes backslash, quotation mark and line feed; no other character is special in a label value.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let labels = vec![("a", "x\"y\\z\nw".to_owned()), ("b", "ü".to_owned())];
        let samples = Samples::Counter(vec![Sample::new(labels, 3)]);
        assert_eq!(
            render(&[Family { name: "n_total", help: "Help\nme.", samples }], Format::Plain),
            "# HELP n_total Help\\nme.\n# TYPE n_total counter\n\
             n_total{a=\"x\\\"y\\\\z\\nw\",b=\"ü\"} 3\n"
        );
    }

    #[test]
    fn a_histogram_ends_with_infinity() {
        let samples = Samples::Histogram(vec![Histogram {
            labels: vec![("a", "b".to_owned())],
            buckets: vec![(0.005, 1), (1.0, 3)],
            count: 4,
            sum: 2.5,
            exemplars: Vec::new(),
        }]);
        assert_eq!(
            render(&[Family { name: "d_seconds", help: "D.", samples }], Format::Plain),
            "# HELP d_seconds D.\n# TYPE d_seconds histogram\n\
             d_seconds_bucket{a=\"b\",le=\"0.005\"} 1\n\
             d_seconds_bucket{a=\"b\",le=\"1\"} 3\n\
             d_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n\
             d_seconds_sum{a=\"b\"} 2.5\n\
             d_seconds_count{a=\"b\"} 4\n"
        );
    }

    #[test]
    fn numbers_are_valid_for_prometheus() {
        assert_eq!(number(f64::INFINITY), "+Inf");
        assert_eq!(number(f64::NAN), "NaN");
        assert_eq!(number(1e21), "1000000000000000000000");
    }
}
