//! OpenMetrics 1.0
//! (<https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>): for
//! scrapers that request it, since only this format has exemplars.

use super::{Exemplar, Family, Samples};

/// Content-Type of a rendered page.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Its media type alone.
const MEDIA: &str = "application/openmetrics-text";
/// Media type of the older format.
const PLAIN: &str = "text/plain";

/// Whether a scraper with these `Accept` fields prefers OpenMetrics to plain text. A scraper that
/// accepts anything gets plain text.
pub(super) fn is_preferred<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
    let (mut open, mut plain) = (0.0, 0.0);
    for range in accept.flat_map(|field| field.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality: f64 = quality.map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if media.eq_ignore_ascii_case(MEDIA) {
            open = quality.max(open);
        } else if media.eq_ignore_ascii_case(PLAIN) {
            plain = quality.max(plain);
        }
    }
    open > 0.0 && open >= plain
}

/// The first lines of a family. Each name must occur in one family only.
pub(super) fn header(family: &Family, all: &[Family]) -> String {
    let is_free = |stem: &&str| all.iter().all(|other| other.name != *stem);
    // The name of a counter's family lacks `_total`. Where another family has that name, only
    // `unknown` keeps the name of the plain text format.
    let stem = family.name.strip_suffix("_total").filter(is_free);
    let (name, kind) = match (&family.samples, stem) {
        (Samples::Counter(_), Some(stem)) => (stem, "counter"),
        (Samples::Counter(_), None) => (family.name, "unknown"),
        (Samples::Gauge(_), _) => (family.name, "gauge"),
        (Samples::Histogram(_), _) => (family.name, "histogram"),
    };
    let help = family.help.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("# TYPE {name} {kind}\n# HELP {name} {help}\n")
}

/// An exemplar, at the end of the line of its bucket.
pub(super) fn exemplar(Exemplar { span, seconds, at }: &Exemplar) -> String {
    let (trace, span, at) = (span.trace, span.span, at.as_secs_f64());
    format!(" # {{trace_id=\"{trace:032x}\",span_id=\"{span:016x}\"}} {seconds} {at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::text::{Format, render};
    use crate::metrics::{Histogram, Kind};
    use std::time::Duration;
    use weir_telemetry::trace_context::SpanContext;

    #[test]
    fn the_preferred_format_is_selected() {
        let preferred = |accept: &str| is_preferred([accept].into_iter());
        assert!(preferred("application/openmetrics-text"));
        // As Prometheus requests.
        assert!(preferred(
            "application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
        ));
        assert!(!preferred("text/plain, application/openmetrics-text;q=0.5"));
        assert!(!preferred("application/openmetrics-text;q=0"));
        assert!(!preferred("*/*") && !preferred("") && !is_preferred(std::iter::empty()));
    }

    #[test]
    fn a_page_conforms_to_the_standard() {
        let span = SpanContext { trace: 0xab, span: 0xcd };
        let exemplar =
            Exemplar { span, seconds: 0.25, at: Duration::from_millis(1_700_000_000_500) };
        let histogram = Histogram {
            labels: vec![("a", "b".to_owned())],
            buckets: vec![(0.005, 1), (1.0, 3)],
            count: 4,
            sum: 2.5,
            exemplars: vec![(1, exemplar)],
        };
        let families = [
            Family {
                name: "d_seconds",
                help: "A \"d\".",
                samples: Samples::Histogram(vec![histogram]),
            },
            Family::single(Kind::Counter, "n_total", "N.", 3.0),
            Family::single(Kind::Gauge, "w_seconds", "W.", 1.5),
            Family::single(Kind::Counter, "w_seconds_total", "All W.", 2.0),
        ];
        assert_eq!(
            render(&families, Format::OpenMetrics),
            "# TYPE d_seconds histogram\n# HELP d_seconds A \\\"d\\\".\n\
             d_seconds_bucket{a=\"b\",le=\"0.005\"} 1\n\
             d_seconds_bucket{a=\"b\",le=\"1.0\"} 3 # {trace_id=\"000000000000000000000000000000ab\",\
             span_id=\"00000000000000cd\"} 0.25 1700000000.500\n\
             d_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n\
             d_seconds_sum{a=\"b\"} 2.5\n\
             d_seconds_count{a=\"b\"} 4\n\
             # TYPE n counter\n# HELP n N.\nn_total 3\n\
             # TYPE w_seconds gauge\n# HELP w_seconds W.\nw_seconds 1.5\n\
             # TYPE w_seconds_total unknown\n# HELP w_seconds_total All W.\nw_seconds_total 2\n\
             # EOF\n"
        );
    }
}
