//! The tables of a report.

use super::html::{Column, bytes, count, number, table, time};
use crate::figures::{LabelFigures, Times};
use crate::results::{
    Cell, CellComparison, Comparison, FactorEffects, Failure, Host, Open, Run, Server, Summary,
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

/// The name of a case; a run may have only one, without a name.
fn case_name(name: &str) -> &str {
    if name.is_empty() { "all" } else { name }
}

/// The table of cases.
pub(super) fn cases(summary: &Summary) -> Markup {
    let any = |of: fn(&Cell) -> bool| summary.cells.iter().any(of);
    let published = |cell: &Cell| published_figures(summary, cell);
    let columns: [(bool, Column<'_, Cell>); 15] = [
        (true, ("Case", &|cell| case_name(&cell.name).render())),
        (true, ("Verdict", &|cell| badge(cell.verdict))),
        (
            any(|cell| cell.offered.is_some()),
            ("#Offered/s", &|cell| or_dash(cell.offered.map(number))),
        ),
        (any(|cell| cell.capacity.is_some()), ("#Highest load (95 % interval)", &capacity)),
        (true, ("#Requests/s", &|cell| rate(cell, |spread| spread.mean))),
        // Short runs have no interval.
        (any(|cell| cell.interval.is_some()), ("#95 % interval", &|cell| interval(cell.interval))),
        (true, ("#Smallest", &|cell| rate(cell, |spread| spread.min))),
        (true, ("#Largest", &|cell| rate(cell, |spread| spread.max))),
        (true, ("#Mean", &|cell| response_time(cell.total(), |times| times.mean))),
        (true, ("#p50", &|cell| response_time(cell.total(), |times| times.p50))),
        (true, ("#p95", &|cell| response_time(cell.total(), |times| times.p95))),
        (true, ("#p99", &|cell| response_time(cell.total(), |times| times.p99))),
        (true, ("#Max", &|cell| response_time(cell.total(), |times| times.max))),
        (true, ("#Errors", &|cell| of_samples(cell, |total| percent(total.error_share())))),
        (any(|cell| !cell.published.is_empty()), ("Published", &published)),
    ];
    let shown = columns.into_iter().filter_map(|(shown, column)| shown.then_some(column));
    table(&summary.cells, &shown.collect::<Vec<_>>())
}

/// The highest load of a search.
fn capacity(cell: &Cell) -> Markup {
    or_dash(cell.capacity.as_ref().map(|found| {
        let prefix = if found.at_least { "≥ " } else { "" };
        let range = |range: Interval| format!(" ({} to {})", number(range.low), number(range.high));
        format!("{prefix}{}{}", found.load, found.interval.map(range).unwrap_or_default())
    }))
}

fn rate(cell: &Cell, of: fn(&Spread) -> f64) -> Markup {
    or_dash(cell.throughput.as_ref().map(|spread| number(of(spread))))
}

/// A figure of a case with samples.
fn of_samples(cell: &Cell, show: fn(&LabelFigures) -> String) -> Markup {
    or_dash(cell.total().filter(|total| total.samples > 0).map(show))
}

/// A response time of a case or a label.
fn response_time(figures: Option<&LabelFigures>, of: fn(&Times) -> f64) -> Markup {
    or_dash(figures.and_then(|figures| figures.response_time(of)).map(time))
}

fn published_figures(summary: &Summary, cell: &Cell) -> Markup {
    html! {
        @for figure in &cell.published {
            div.figure-of-others {
            span title=(figure.source) { (figure.name()) " " (figure.show(figure.value)) }
            @if let Some(measured) = figure.measured(summary, cell) {
                " " small { "(measured: " (figure.show(measured)) ")" }
            }
            }
        }
    }
}

/// Effects of two factors.
pub(super) fn effects(found: &FactorEffects) -> Markup {
    let FactorEffects { first, second, effects } = found;
    let rows = [
        (format!("{first} on"), effects.first),
        (format!("{second} on"), effects.second),
        (format!("{first} × {second} (interaction)"), effects.interaction),
    ];
    let range = |Interval { low, high }| format!("{low:.3} – {high:.3}");
    table(
        &rows,
        &[
            ("Effect", &|(name, _)| name.render()),
            ("#Factor on throughput", &|(_, ratio)| format!("{:.3}", ratio.value).render()),
            ("#95 % interval", &|(_, ratio)| range(ratio.interval).render()),
            ("#Change", &|(_, r)| format!("{:+.1} %", 100.0 * (r.value - 1.0)).render()),
            ("#p", &|(_, ratio)| probability(ratio.p).render()),
        ],
    )
}

/// Labels of a case.
pub(super) fn labels(cell: &Cell) -> Markup {
    table(
        &cell.labels,
        &[
            ("Label", &|figures| figures.label.render()),
            ("#Samples", &|figures| count(figures.samples).render()),
            ("#Failed", &|figures| count(figures.failed()).render()),
            ("#Requests/s", &|figures| number(figures.throughput).render()),
            ("#Mean", &|figures| response_time(Some(figures), |times| times.mean)),
            ("#p50", &|figures| response_time(Some(figures), |times| times.p50)),
            ("#p90", &|figures| response_time(Some(figures), |times| times.p90)),
            ("#p95", &|figures| response_time(Some(figures), |times| times.p95)),
            ("#p99", &|figures| response_time(Some(figures), |times| times.p99)),
            ("#p99.9", &|figures| response_time(Some(figures), |times| times.p99_9)),
            ("#Max", &|figures| response_time(Some(figures), |times| times.max)),
            ("#Service p50", &|figures| or_dash(figures.reported(figures.service.p50).map(time))),
            ("#Service p99", &|figures| or_dash(figures.reported(figures.service.p99).map(time))),
            ("#First byte", &|figures| or_dash(figures.reported(figures.latency).map(time))),
            ("#Received", &|figures| bytes(figures.received as f64).render()),
            ("#Sent", &|figures| bytes(figures.sent as f64).render()),
            ("#Body on the wire", &|figures| bytes(figures.body as f64).render()),
            ("#Body decoded", &|figures| bytes(figures.decoded as f64).render()),
        ],
    )
}

/// Failures of a case: their messages, most frequent first, with an example each. `None` without any.
pub(super) fn failures(cell: &Cell) -> Option<Markup> {
    let total = cell.total().filter(|total| total.failed() > 0);
    if total.is_none() && cell.failures.is_empty() {
        return None;
    }
    let samples = total.map_or(0, |total| total.samples);
    let mut groups: Vec<&Failure> = cell.failures.iter().collect();
    groups.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    let ungrouped = total
        .map_or(0, LabelFigures::failed)
        .saturating_sub(groups.iter().map(|failure| failure.count).sum());
    Some(html! {
        @for failure in groups { (self::failure(failure, samples)) }
        @if ungrouped > 0 && !cell.failures.is_empty() {
            p { (count(ungrouped)) " more failures have other messages." }
        }
    })
}

/// Failed samples with the same message.
fn failure(failure: &Failure, samples: u64) -> Markup {
    let share = failure.count as f64 / samples.max(1) as f64;
    let (first, last) = (format!("{:.1}", failure.first), format!("{:.1}", failure.last));
    html! {
        details.failure {
            summary {
                strong { (count(failure.count)) } " × " code { (failure.kind) } " "
                @if !failure.message.is_empty() { (failure.message) " " }
                span.note {
                    "in " (failure.label)
                    @if samples > 0 { " · " (percent(share)) " of all samples" }
                    @if first == last { " · at " (first) " s" }
                    @else { " · from " (first) " s to " (last) " s" }
                }
            }
            @if !failure.url.is_empty() { p { code { (failure.url) } } }
            div.exchange {
                (message("Request", &failure.request, "Nothing was sent."))
                (message("Response", &failure.response, match failure.status {
                    0 => "No response arrived.",
                    _ => "The response was not kept.",
                }))
            }
        }
    }
}

fn message(title: &str, text: &str, missing: &str) -> Markup {
    html! {
        div {
            h4 { (title) }
            @if text.is_empty() { p.note { (missing) } }
            @else { pre { code { (text) } } }
        }
    }
}

/// A threshold, its case, whether it is met, and the measured value.
type ThresholdRow<'r> = (&'r str, String, bool, &'r str);

fn threshold_row(result: &ThresholdResult) -> ThresholdRow<'_> {
    (&result.threshold, result.cell.clone(), result.met, &result.found)
}

/// Largest number of cases with a row for each threshold.
const MAX_CASES_WITH_ROWS: usize = 8;

/// Thresholds of all cases. For many cases only missed thresholds, and the number of cases that met
/// each threshold.
pub(super) fn thresholds(summary: &Summary) -> Option<Markup> {
    let all: Vec<&ThresholdResult> =
        summary.cells.iter().flat_map(|cell| &cell.thresholds).collect();
    let mut rows: Vec<ThresholdRow<'_>> = Vec::new();
    if summary.cells.len() <= MAX_CASES_WITH_ROWS {
        rows.extend(all.iter().map(|result| threshold_row(result)));
    } else {
        let mut listed: Vec<&str> = Vec::new();
        for one in &all {
            if listed.contains(&one.threshold.as_str()) {
                continue;
            }
            listed.push(&one.threshold);
            let same = || all.iter().copied().filter(|result| result.threshold == one.threshold);
            rows.extend(same().filter(|result| !result.met).map(threshold_row));
            let met = same().filter(|result| result.met).count();
            if met > 0 {
                rows.push((&one.threshold, format!("{met} of {} cases", same().count()), true, ""));
            }
        }
    }
    let verdict = |met: bool| badge(if met { Verdict::Pass } else { Verdict::Fail });
    let columns: [Column<'_, ThresholdRow<'_>>; 4] = [
        ("Threshold", &|(threshold, ..)| html! { code { (threshold) } }),
        ("Case", &|(_, case, ..)| case.render()),
        ("Verdict", &|(_, _, met, _)| verdict(*met)),
        ("#Measured", &|(.., found)| found.render()),
    ];
    (!rows.is_empty()).then(|| table(&rows, &columns))
}

/// A comparison with another run.
pub(super) fn comparison(found: &Comparison) -> Markup {
    let ratio =
        |ratio: Option<Ratio>| {
            or_dash(ratio.map(|r| {
                format!("{:.3} ({:.3} – {:.3})", r.value, r.interval.low, r.interval.high)
            }))
        };
    let p99 = |cell: &CellComparison| {
        let p99 = cell.p99().and_then(|p99| p99.before.zip(p99.after));
        or_dash(p99.map(|(before, after)| format!("{} → {}", time(before), time(after))))
    };
    let columns: [Column<'_, CellComparison>; 9] = [
        ("Case", &|cell| case_name(&cell.name).render()),
        ("Judgement", &|cell| {
            let judgement = cell.judgement.word();
            html! { span class={ "judgement " (judgement) } { (judgement) } }
        }),
        ("#Before", &|cell| or_dash(cell.before.map(number))),
        ("#After", &|cell| or_dash(cell.after.map(number))),
        ("#Ratio (95 % interval)", &|cell| ratio(cell.throughput)),
        ("#Mann-Whitney p", &|cell| or_dash(cell.ranks.map(|ranks| probability(ranks.p)))),
        ("#p99", &p99),
        ("#Ratio of p99", &|cell| ratio(cell.p99().and_then(|p99| p99.ratio))),
        ("#Errors", &|cell| cell.errors.map(percent).join(" → ").render()),
    ];
    let lists = [
        ("Only before", &found.only_before),
        ("Only after", &found.only_after),
        ("Other differences", &found.differences),
    ];
    html! {
        p {
            "Before: " code { (found.before) } ". After: " code { (found.after) } ". A case is worse if "
            "its throughput fell by more than " (format_args!("{} %", 100.0 * found.margin)) " and the interval of the "
            "ratio excludes 1. A case is the same if the whole interval lies within this margin."
        }
        (table(&found.cells, &columns))
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
    let samples = |cell: &Cell| cell.total().map_or(0, |total| total.samples);
    let of_open = |cell: &Cell, show: fn(&Open) -> String| or_dash(cell.open.as_ref().map(show));
    let of_server = |cell: &Cell, show: fn(&Server) -> Option<String>| {
        or_dash(cell.server.as_ref().and_then(show))
    };
    table(
        &summary.cells,
        &[
            ("Case", &|cell| case_name(&cell.name).render()),
            ("#Requests", &|cell| count(samples(cell)).render()),
            ("#Window", &|cell| html! { (number(cell.window)) " s" }),
            ("#Generator CPU per request", &|cell| {
                html! { (number(cell.generator.cpu_us)) " µs" }
            }),
            ("#Busiest generator loop", &|cell| percent(cell.generator.busiest).render()),
            ("#Send lag p99", &|cell| of_open(cell, |open| time(open.send_lag.p99))),
            ("#Dropped", &|cell| of_open(cell, |open| count(open.dropped))),
            ("#Server CPU per request", &|cell| {
                of_server(cell, |server| Some(format!("{} µs", number(server.cpu_us))))
            }),
            ("#Busiest server thread", &|cell| of_server(cell, |s| s.busiest.map(percent))),
            ("#Server memory", &|cell| {
                of_server(cell, |s| (s.memory > 0).then(|| bytes(s.memory as f64)))
            }),
        ],
    )
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
    let rows: Vec<_> = rows.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    table(&rows, &[("Property", &|row| row.0.render()), ("Value", &|row| row.1.render())])
}
