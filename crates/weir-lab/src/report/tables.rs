//! The tables of a report.

use super::html::{bytes, number, table, time};
use crate::figures::LabelFigures;
use crate::results::{
    Cell, CellComparison, Comparison, FactorEffects, Failure, Host, Run, Summary,
};
use crate::stats::{Interval, Ratio, Spread};
use crate::threshold::ThresholdResult;
use crate::verdict::Verdict;
use maud::{Markup, Render, html};

/// A verdict as a badge with text and colour.
pub(super) fn badge(verdict: Verdict) -> Markup {
    let word = verdict.word();
    html! { span class={ "badge " (word.to_lowercase()) } { (word) } }
}

/// `text`, or a dash.
fn or_dash(text: Option<String>) -> Markup {
    text.as_deref().unwrap_or("–").render()
}

fn interval(found: Option<Interval>) -> Markup {
    or_dash(found.map(|i| format!("{} – {}", number(i.low), number(i.high))))
}

fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { format!("{} %", number(100.0 * share)) }
}

fn probability(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// The table of cases.
pub(super) fn cases(summary: &Summary) -> Markup {
    let published = summary.cells.iter().any(|cell| !cell.published.is_empty());
    let offered = summary.cells.iter().any(|cell| cell.offered.is_some());
    let mut heads = vec!["Case", "Verdict"];
    if offered {
        heads.push("#Offered/s");
    }
    // Short runs have no interval.
    let intervals = summary.cells.iter().any(|cell| cell.interval.is_some());
    heads.push("#Requests/s");
    if intervals {
        heads.push("#95 % interval");
    }
    heads.extend(["#Smallest", "#Largest", "#Mean", "#p50", "#p95"]);
    heads.extend(["#p99", "#Max", "#Errors"]);
    if published {
        heads.push("Published");
    }
    let rows = summary.cells.iter().map(|cell| {
        let mut row = vec![cell.name.render(), badge(cell.verdict)];
        if offered {
            row.push(or_dash(cell.offered.map(number)));
        }
        row.extend(figures(cell, intervals));
        if published {
            row.push(published_figures(summary, cell));
        }
        row
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

fn figures(cell: &Cell, intervals: bool) -> Vec<Markup> {
    let rate =
        |of: fn(&Spread) -> f64| or_dash(cell.throughput.as_ref().map(|spread| number(of(spread))));
    let mut row = vec![rate(|s| s.mean)];
    if intervals {
        row.push(interval(cell.interval));
    }
    row.extend([rate(|s| s.min), rate(|s| s.max)]);
    match cell.total().filter(|total| total.samples > 0) {
        Some(total) => {
            let times = &total.response;
            let times = [times.mean, times.p50, times.p95, times.p99, times.max];
            row.extend(times.map(|ms| time(ms).render()));
            row.push(percent(total.error_share()).render());
        }
        None => row.extend(std::iter::repeat_n(or_dash(None), 6)),
    }
    row
}

fn published_figures(summary: &Summary, cell: &Cell) -> Markup {
    html! {
        @for (at, figure) in cell.published.iter().enumerate() {
            @if at > 0 { br; }
            span title=(figure.source) { (figure.name()) " " (figure.show(figure.value)) }
            @if let Some(measured) = figure.measured(summary, cell) {
                " " small { "(measured: " (figure.show(measured)) ")" }
            }
        }
    }
}

/// Effects of two factors.
pub(super) fn effects(found: &FactorEffects) -> Markup {
    let row = |name: String, ratio: &Ratio| {
        let change = 100.0 * (ratio.value - 1.0);
        [
            name,
            format!("{:.3}", ratio.value),
            format!("{:.3} – {:.3}", ratio.interval.low, ratio.interval.high),
            format!("{change:+.1} %"),
            probability(ratio.p),
        ]
        .map(|text| text.render())
        .to_vec()
    };
    let (first, second) = (&found.first, &found.second);
    let rows = [
        row(format!("{first} on"), &found.effects.first),
        row(format!("{second} on"), &found.effects.second),
        row(format!("{first} × {second} (interaction)"), &found.effects.interaction),
    ];
    table(&["Effect", "#Factor on throughput", "#95 % interval", "#Change", "#p"], &rows)
}

/// Labels of a case.
pub(super) fn labels(cell: &Cell) -> Markup {
    let heads = [
        "Label",
        "#Samples",
        "#Failed",
        "#Requests/s",
        "#Mean",
        "#p50",
        "#p90",
        "#p95",
        "#p99",
        "#p99.9",
        "#Max",
        "#Service p50",
        "#Service p99",
        "#First byte",
        "#Received",
        "#Sent",
        "#Body on the wire",
        "#Body decoded",
    ];
    let row = |figures: &LabelFigures| {
        let (times, service) = (&figures.response, &figures.service);
        let mut row = vec![
            figures.label.clone(),
            number(figures.samples as f64),
            number(figures.failed() as f64),
            number(figures.throughput),
        ];
        let all = [times.mean, times.p50, times.p90, times.p95, times.p99, times.p99_9, times.max];
        row.extend(all.map(time));
        row.extend([service.p50, service.p99, figures.latency].map(time));
        let sizes = [figures.received, figures.sent, figures.body, figures.decoded];
        row.extend(sizes.map(|count| bytes(count as f64)));
        row.iter().map(Render::render).collect()
    };
    table(&heads, &cell.labels.iter().map(row).collect::<Vec<_>>())
}

/// Failures of a case by kind, and its first failed samples; `None` without any.
pub(super) fn failures(cell: &Cell) -> Option<Markup> {
    let total = cell.total().filter(|total| total.failed() > 0);
    if total.is_none() && cell.failures.is_empty() {
        return None;
    }
    let kinds = |total: &LabelFigures| {
        let kinds = total.errors.iter().filter(|(_, count)| **count > 0);
        let share = |count: u64| percent(count as f64 / total.samples.max(1) as f64);
        let row = |(kind, count): (&String, &u64)| {
            vec![kind.render(), number(*count as f64).render(), share(*count).render()]
        };
        table(&["Failure", "#Samples", "#Share"], &kinds.map(row).collect::<Vec<_>>())
    };
    let sample = |failure: &Failure| {
        let status = Some(failure.status).filter(|status| *status > 0);
        vec![
            failure.kind.render(),
            failure.label.render(),
            html! { (format_args!("{:.3} s", failure.at)) },
            or_dash(status.map(|status| status.to_string())),
            failure.message.render(),
            html! { code { (failure.url) } },
            html! { code { (failure.body) } },
        ]
    };
    let heads = ["First samples", "Label", "#At", "#Status", "Error", "URL", "Body"];
    Some(html! {
        @if let Some(total) = total { (kinds(total)) }
        @if !cell.failures.is_empty() {
            (table(&heads, &cell.failures.iter().map(sample).collect::<Vec<_>>()))
        }
    })
}

/// Largest number of cases with a row for each threshold.
const MAX_CASES_WITH_ROWS: usize = 8;

/// Thresholds of all cases. For many cases only missed thresholds, and the number of cases that met
/// each threshold.
pub(super) fn thresholds(summary: &Summary) -> Option<Markup> {
    let all: Vec<&ThresholdResult> =
        summary.cells.iter().flat_map(|cell| &cell.thresholds).collect();
    let row = |result: &ThresholdResult| {
        let verdict = badge(if result.met { Verdict::Pass } else { Verdict::Fail });
        let threshold = html! { code { (result.threshold) } };
        vec![threshold, result.cell.render(), verdict, result.found.render()]
    };
    let mut rows = Vec::new();
    if summary.cells.len() <= MAX_CASES_WITH_ROWS {
        rows.extend(all.iter().map(|result| row(result)));
    } else {
        let mut listed: Vec<&str> = Vec::new();
        for one in &all {
            if listed.contains(&one.threshold.as_str()) {
                continue;
            }
            listed.push(&one.threshold);
            let same = || all.iter().filter(|result| result.threshold == one.threshold);
            rows.extend(same().filter(|result| !result.met).map(|result| row(result)));
            let met = same().filter(|result| result.met).count();
            if met > 0 {
                let mut sum = row(one);
                sum[1] = html! { (met) " of " (same().count()) " cases" };
                (sum[2], sum[3]) = (badge(Verdict::Pass), Markup::default());
                rows.push(sum);
            }
        }
    }
    (!rows.is_empty()).then(|| table(&["Threshold", "Case", "Verdict", "#Measured"], &rows))
}

/// A comparison with another run.
pub(super) fn comparison(found: &Comparison) -> Markup {
    let ratio =
        |ratio: Option<&Ratio>| {
            or_dash(ratio.map(|r| {
                format!("{:.3} ({:.3} – {:.3})", r.value, r.interval.low, r.interval.high)
            }))
        };
    let row = |cell: &CellComparison| {
        let p99 = cell.times.iter().find(|time| time.name == "p99");
        let judgement = cell.judgement.word();
        vec![
            cell.name.render(),
            html! { span class={ "judgement " (judgement) } { (judgement) } },
            number(cell.before).render(),
            number(cell.after).render(),
            ratio(cell.throughput.as_ref()),
            or_dash(cell.ranks.map(|ranks| probability(ranks.p))),
            or_dash(p99.map(|p| format!("{} → {}", time(p.before), time(p.after)))),
            ratio(p99.and_then(|time| time.ratio.as_ref())),
            html! { (percent(cell.errors[0])) " → " (percent(cell.errors[1])) },
        ]
    };
    let heads = [
        "Case",
        "Judgement",
        "#Before",
        "#After",
        "#Ratio (95 % interval)",
        "#Mann-Whitney p",
        "#p99",
        "#Ratio of p99",
        "#Errors",
    ];
    let lists = [
        ("Only before", &found.only_before),
        ("Only after", &found.only_after),
        ("Other differences", &found.differences),
    ];
    html! {
        p {
            "Before: " code { (found.before) } ". After: " code { (found.after) } ". A case is worse if "
            "its throughput fell by more than " (percent(found.margin)) " and the interval of the "
            "ratio excludes 1. A case is the same if the whole interval lies within this margin."
        }
        (table(&heads, &found.cells.iter().map(row).collect::<Vec<_>>()))
        @for (title, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
            p { (title) ":" }
            (list(items))
        }
    }
}

/// Items as a list; empty without items.
pub(super) fn list(items: &[String]) -> Markup {
    html! { @if !items.is_empty() { ul { @for item in items { li { (item) } } } } }
}

/// Validity of every case: generator, lag, server.
pub(super) fn validity(summary: &Summary) -> Markup {
    let rows = summary.cells.iter().map(|cell| {
        let lag = cell.open.as_ref();
        let server = cell.server.as_ref();
        let busiest = server.and_then(|server| server.busiest).map(percent);
        let samples = cell.total().map_or(0, |total| total.samples);
        vec![
            cell.name.render(),
            number(samples as f64).render(),
            html! { (number(cell.window)) " s" },
            html! { (number(cell.generator.cpu_us)) " µs" },
            percent(cell.generator.busiest).render(),
            or_dash(lag.map(|open| time(open.send_lag.p99))),
            or_dash(lag.map(|open| number(open.dropped as f64))),
            or_dash(server.map(|s| format!("{} µs", number(s.cpu_us)))),
            or_dash(busiest),
            or_dash(server.map(|s| bytes(s.memory as f64))),
        ]
    });
    let heads = [
        "Case",
        "#Requests",
        "#Window",
        "#Generator CPU per request",
        "#Busiest generator loop",
        "#Send lag p99",
        "#Dropped",
        "#Server CPU per request",
        "#Busiest server thread",
        "#Server memory",
    ];
    table(&heads, &rows.collect::<Vec<_>>())
}

/// Target, server, generator and host of a run.
pub(super) fn environment(run: &Run) -> Markup {
    let Host { name, kernel, processor, cores, memory } = &run.host;
    let rows = [
        ("Target", run.target.clone()),
        ("Server", run.server.clone()),
        ("Generator", run.version.clone()),
        ("Host", name.clone()),
        ("System", kernel.clone()),
        ("Processor", format!("{processor}, {cores} cores")),
        ("Memory", bytes(*memory as f64)),
        ("Started", run.started.clone()),
        ("Ended", run.ended.clone()),
        ("Scenario, SHA-256", run.scenario_sha256.clone()),
    ];
    let rows = rows.iter().filter(|(_, value)| !value.is_empty());
    let rows: Vec<Vec<Markup>> =
        rows.map(|(name, value)| vec![name.render(), value.render()]).collect();
    table(&["Property", "Value"], &rows)
}
