//! Charts of bars as SVG files, for a page such as `docs/performance.md`.

use super::drawing::{self, Ratio};
use crate::results::BarResult;
use maud::{Markup, PreEscaped, html};

/// Readable on light and dark pages.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#57606a}.tick{font-size:10px}\
    .ratio-met{fill:#1f77b4}.ratio-missed{fill:#b0643c}.ratio-open{fill:#9aa5b1}.grid{stroke:#9aa5b1;opacity:.3}\
    .one{stroke:#9aa5b1}.ratio-interval{stroke:#57606a;stroke-width:2}.bound{stroke:#d1242f;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#b1bac4}.ratio-interval{stroke:#e6edf3}}";
const WIDTH: f64 = 900.0;

/// Ratios of a scenario's bars with their intervals and bounds; `None` with fewer than two.
#[must_use]
pub fn bar_chart(name: &str, bars: &[BarResult]) -> Option<String> {
    file(&format!("Ratios of {name}"), rows(bars))
}

/// The same as a part of a report.
pub(super) fn inline(bars: &[BarResult]) -> Option<Markup> {
    let (parts, height) = parts(rows(bars))?;
    Some(html! {
        svg.chart viewBox=(format_args!("0 0 {WIDTH} {height}")) role="img"
            aria-label="Ratios with their intervals and bounds" {
            @for part in parts { (part) }
        }
    })
}

fn rows<'b>(bars: &'b [BarResult]) -> Vec<Ratio<'b>> {
    let row = |bar: &'b BarResult| {
        let BarResult { title, load, .. } = bar;
        let of = if load.is_empty() { title.clone() } else { format!("{title}, {load}") };
        Ratio::of(of, bar)
    };
    bars.iter().filter_map(row).collect()
}

/// Ratios of the bars with a label in the chart of all scenarios, under the first load of each.
#[must_use]
pub fn overview_chart<'b>(bars: impl IntoIterator<Item = &'b BarResult>) -> Option<String> {
    let mut rows: Vec<Ratio<'_>> = Vec::new();
    for bar in bars {
        let Some(label) = &bar.overview else { continue };
        if !rows.iter().any(|row| row.name == *label) {
            rows.extend(Ratio::of(label.clone(), bar));
        }
    }
    file("Ratios of all scenarios", rows)
}

/// Drawings of ratios, those where less is better first, and their height; `None` with fewer than two.
fn parts(rows: Vec<Ratio<'_>>) -> Option<(Vec<Markup>, f64)> {
    if rows.len() < 2 {
        return None;
    }
    let (more, less): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.bar.at_least);
    let mut parts: Vec<Markup> = Vec::new();
    let mut y = 0.0;
    for (rows, axis) in [(less, "ratio, less is better"), (more, "ratio, more is better")] {
        if !rows.is_empty() {
            parts.push(drawing::ratios(&rows, y, axis));
            y += drawing::height(rows.len());
        }
    }
    Some((parts, y))
}

fn file(name: &str, rows: Vec<Ratio<'_>>) -> Option<String> {
    let (parts, height) = parts(rows)?;
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format_args!("0 0 {WIDTH} {height}"))
            role="img" aria-label=(name) {
            style { (PreEscaped(STYLE)) }
            @for part in parts { (part) }
        }
    };
    Some(svg.into_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::BarOutcome;
    use crate::stats::Interval;

    fn bar(title: &str, at_least: bool) -> BarResult {
        BarResult {
            title: title.to_owned(),
            load: "load=fixed".to_owned(),
            outcome: BarOutcome::Missed,
            value: Some(0.9),
            interval: Some(Interval { low: 0.85, high: 0.95 }),
            factor: Some(0.8),
            at_least,
            ..BarResult::default()
        }
    }

    #[test]
    fn ratios_are_drawn_with_interval_and_bound() {
        let difference = BarResult { factor: None, ..bar("a difference", false) };
        let bars = [bar("GET <small>", false), bar("rate", true), difference];
        let svg = bar_chart("get & more", &bars).expect("two ratios");
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
        assert!(svg.contains("GET &lt;small&gt;, load=fixed") && svg.contains("get &amp; more"));
        assert!(svg.contains("less is better") && svg.contains("more is better"), "{svg}");
        assert!(!svg.contains("a difference"), "{svg}");
        assert_eq!(svg.matches("class=\"ratio-missed\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"bound\"").count(), 2, "{svg}");
        assert_eq!(bar_chart("one", &bars[..1]), None);
        // The file is well-formed.
        assert_eq!(crate::markup::check_xml(&svg), Ok(()));
    }

    #[test]
    fn the_overview_has_the_first_load_of_each_label() {
        let labelled = |label: &str, value| BarResult {
            overview: Some(label.to_owned()),
            value: Some(value),
            ..bar("x", false)
        };
        let bars =
            [labelled("GET", 0.7), labelled("GET", 0.8), labelled("POST", 0.6), bar("y", false)];
        let svg = overview_chart(&bars).expect("two labels");
        assert!(
            svg.contains(">0.70<") && svg.contains(">0.60<") && !svg.contains(">0.80<"),
            "{svg}"
        );
    }
}
