//! The tables of a report.

use super::html::{bytes, escape, number, table, time};
use crate::figures::LabelFigures;
use crate::results::{Cell, CellComparison, Comparison, FactorEffects, Host, Run, Summary};
use crate::stats::{Interval, Ratio};
use crate::threshold::Kept;
use crate::verdict::Verdict;

/// A verdict as a badge; its colour is never the only sign.
pub(super) fn badge(verdict: Verdict) -> String {
    let word = verdict.word();
    format!("<span class=\"badge {}\">{word}</span>", word.to_lowercase())
}

fn interval(found: Option<Interval>) -> String {
    found.map_or_else(|| "–".to_owned(), |i| format!("{} – {}", number(i.low), number(i.high)))
}

fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { format!("{} %", number(100.0 * share)) }
}

fn probability(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// The table of cases.
pub(super) fn cases(summary: &Summary) -> String {
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
        let mut row = vec![escape(&cell.name), badge(cell.verdict)];
        if offered {
            row.push(cell.offered.map_or_else(|| "–".to_owned(), number));
        }
        row.extend(figures(cell, intervals));
        if published {
            row.push(published_figures(summary, cell));
        }
        row
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

fn figures(cell: &Cell, intervals: bool) -> Vec<String> {
    let rate = |of: fn(&crate::stats::Spread) -> f64| {
        cell.throughput.as_ref().map_or_else(|| "–".to_owned(), |spread| number(of(spread)))
    };
    let mut row = vec![rate(|s| s.mean)];
    if intervals {
        row.push(interval(cell.interval));
    }
    row.extend([rate(|s| s.min), rate(|s| s.max)]);
    match cell.total().filter(|total| total.samples > 0) {
        Some(total) => {
            let times = &total.response;
            row.extend([times.mean, times.p50, times.p95, times.p99, times.max].map(time));
            row.push(percent(total.error_share()));
        }
        None => row.extend(std::iter::repeat_n("–".to_owned(), 6)),
    }
    row
}

fn published_figures(summary: &Summary, cell: &Cell) -> String {
    let show = |figure: &crate::results::Published| {
        let measured = figure.measured(summary, cell).map_or_else(String::new, |measured| {
            format!(" <small>(measured: {})</small>", escape(&figure.show(measured)))
        });
        let (source, what) = (escape(&figure.source), escape(&figure.name()));
        let value = escape(&figure.show(figure.value));
        format!("<span title=\"{source}\">{what} {value}</span>{measured}")
    };
    cell.published.iter().map(show).collect::<Vec<_>>().join("<br>")
}

/// Effects of two factors.
pub(super) fn effects(found: &FactorEffects) -> String {
    let row = |name: String, ratio: &Ratio| {
        let change = 100.0 * (ratio.value - 1.0);
        vec![
            escape(&name),
            format!("{:.3}", ratio.value),
            format!("{:.3} – {:.3}", ratio.interval.low, ratio.interval.high),
            format!("{change:+.1} %"),
            probability(ratio.p),
        ]
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
pub(super) fn labels(cell: &Cell) -> String {
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
            escape(&figures.label),
            number(figures.samples as f64),
            number(figures.failed() as f64),
            number(figures.throughput),
        ];
        let all = [times.mean, times.p50, times.p90, times.p95, times.p99, times.p99_9, times.max];
        row.extend(all.map(time));
        row.extend([service.p50, service.p99, figures.latency].map(time));
        let sizes = [figures.received, figures.sent, figures.body, figures.decoded];
        row.extend(sizes.map(|count| bytes(count as f64)));
        row
    };
    table(&heads, &cell.labels.iter().map(row).collect::<Vec<_>>())
}

/// Failures of a case by kind, and its first failed samples.
pub(super) fn failures(cell: &Cell) -> String {
    let mut out = String::new();
    if let Some(total) = cell.total().filter(|total| total.failed() > 0) {
        let kinds = total.errors.iter().filter(|(_, count)| **count > 0);
        let share = |count: u64| percent(count as f64 / total.samples.max(1) as f64);
        let rows =
            kinds.map(|(kind, count)| vec![escape(kind), number(*count as f64), share(*count)]);
        out.push_str(&table(&["Failure", "#Samples", "#Share"], &rows.collect::<Vec<_>>()));
    }
    if !cell.failures.is_empty() {
        let rows = cell.failures.iter().map(|failure| {
            let status =
                if failure.status == 0 { "–".to_owned() } else { failure.status.to_string() };
            vec![
                escape(&failure.kind),
                escape(&failure.label),
                format!("{:.3} s", failure.at),
                status,
                escape(&failure.message),
                format!("<code>{}</code>", escape(&failure.url)),
                format!("<code>{}</code>", escape(&failure.body)),
            ]
        });
        let heads = ["First samples", "Label", "#At", "#Status", "What", "URL", "Body"];
        out.push_str(&table(&heads, &rows.collect::<Vec<_>>()));
    }
    out
}

/// Cases of which each threshold has a row of its own.
const EACH: usize = 8;

/// Thresholds of all cases; of many cases those that broke one, and how many kept it.
pub(super) fn thresholds(summary: &Summary) -> String {
    let all: Vec<&Kept> = summary.cells.iter().flat_map(|cell| &cell.thresholds).collect();
    let row = |kept: &Kept| {
        let verdict = badge(if kept.kept { Verdict::Pass } else { Verdict::Fail });
        let threshold = format!("<code>{}</code>", escape(&kept.threshold));
        vec![threshold, escape(&kept.cell), verdict, escape(&kept.found)]
    };
    let mut rows = Vec::new();
    if summary.cells.len() <= EACH {
        rows.extend(all.iter().map(|kept| row(kept)));
    } else {
        let mut seen: Vec<&str> = Vec::new();
        for one in &all {
            if seen.contains(&one.threshold.as_str()) {
                continue;
            }
            seen.push(&one.threshold);
            let same = || all.iter().filter(|kept| kept.threshold == one.threshold);
            rows.extend(same().filter(|kept| !kept.kept).map(|kept| row(kept)));
            let kept = same().filter(|kept| kept.kept).count();
            if kept > 0 {
                let mut sum = row(one);
                sum[1] = format!("{kept} of {} cases", same().count());
                (sum[2], sum[3]) = (badge(Verdict::Pass), String::new());
                rows.push(sum);
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    table(&["Threshold", "Case", "Verdict", "#Found"], &rows)
}

/// A comparison with another run.
pub(super) fn comparison(found: &Comparison) -> String {
    let ratio = |ratio: Option<&Ratio>| match ratio {
        Some(r) => format!("{:.3} ({:.3} – {:.3})", r.value, r.interval.low, r.interval.high),
        None => "–".to_owned(),
    };
    let row = |cell: &CellComparison| {
        let p99 = cell.times.iter().find(|time| time.name == "p99");
        vec![
            escape(&cell.name),
            format!("<span class=\"judgement {0}\">{0}</span>", cell.judgement.word()),
            number(cell.before),
            number(cell.after),
            ratio(cell.throughput.as_ref()),
            cell.ranks.map_or_else(|| "–".to_owned(), |ranks| probability(ranks.p)),
            p99.map_or_else(
                || "–".to_owned(),
                |p| format!("{} → {}", time(p.before), time(p.after)),
            ),
            ratio(p99.and_then(|time| time.ratio.as_ref())),
            format!("{} → {}", percent(cell.errors[0]), percent(cell.errors[1])),
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
    let mut out = format!(
        "<p>Before: <code>{}</code>. After: <code>{}</code>. A case is worse if it lost more than {} \
         and the interval of the ratio excludes 1, the same if the whole interval lies within that.</p>",
        escape(&found.before),
        escape(&found.after),
        percent(found.margin)
    );
    out.push_str(&table(&heads, &found.cells.iter().map(row).collect::<Vec<_>>()));
    let lists = [
        ("Only before", &found.only_before),
        ("Only after", &found.only_after),
        ("What else differs", &found.differences),
    ];
    for (title, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
        out.push_str(&format!("<p>{title}:</p>{}", list(items)));
    }
    out
}

/// Items as a list.
pub(super) fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul>{items}</ul>")
}

/// Validity of every case: generator, lag, server.
pub(super) fn validity(summary: &Summary) -> String {
    let rows = summary.cells.iter().map(|cell| {
        let lag = cell.open.as_ref();
        let server = cell.server.as_ref();
        let busiest = server.and_then(|server| server.busiest).map(percent);
        let samples = cell.total().map_or(0, |total| total.samples);
        vec![
            escape(&cell.name),
            number(samples as f64),
            format!("{} s", number(cell.window)),
            format!("{} µs", number(cell.generator.cpu_us)),
            percent(cell.generator.busiest),
            lag.map_or_else(|| "–".to_owned(), |open| time(open.send_lag.p99)),
            lag.map_or_else(|| "–".to_owned(), |open| number(open.dropped as f64)),
            server.map_or_else(|| "–".to_owned(), |s| format!("{} µs", number(s.cpu_us))),
            busiest.unwrap_or_else(|| "–".to_owned()),
            server.map_or_else(|| "–".to_owned(), |s| bytes(s.memory as f64)),
        ]
    });
    let heads = [
        "Case",
        "#Requests",
        "#Window",
        "#Generator CPU a request",
        "#Its busiest loop",
        "#Send lag p99",
        "#Dropped",
        "#Server CPU a request",
        "#Its busiest thread",
        "#Its memory",
    ];
    table(&heads, &rows.collect::<Vec<_>>())
}

/// What was run, and where.
pub(super) fn environment(run: &Run) -> String {
    let Host { name, kernel, processor, cores, memory } = &run.host;
    let row = |what: &str, value: &str| vec![what.to_owned(), escape(value)];
    let rows = [
        row("Target", &run.target),
        row("Server", &run.server),
        row("Generator", &run.version),
        row("Host", name),
        row("System", kernel),
        row("Processor", &format!("{processor}, {cores} cores")),
        row("Memory", &bytes(*memory as f64)),
        row("Started", &run.started),
        row("Ended", &run.ended),
        row("Scenario, SHA-256", &run.scenario_sha256),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().filter(|row| !row[1].is_empty()).collect();
    table(&["Circumstance", "Value"], &rows)
}
