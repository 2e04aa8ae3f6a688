//! Text result of a run.

use crate::output;
use crate::table::aligned;
use weir_lab::engine::SearchedLoad;
use weir_lab::figures::{LabelFigures, Times};
use weir_lab::results::{BarResult, Cell, FactorEffects, History, Host, Published, Summary};
use weir_lab::stats::Interval;

/// All tables: cases, labels, published figures, effects, verdict.
pub(super) fn text(summary: &Summary, host: &Host) -> String {
    let mut text = format!("\n{}", cases(summary));
    for part in [
        labels(summary),
        bars(summary),
        capacities(summary),
        effects(summary),
        published(summary, host),
    ] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    let several = summary.cells.len() > 1;
    let remarks = |cell: &Cell| {
        let fixed = cell.fixed.iter().flat_map(|fixed| fixed.remarks.clone());
        cell.remarks.iter().cloned().chain(fixed).collect::<Vec<_>>()
    };
    for cell in &summary.cells {
        for remark in remarks(cell) {
            let place = if several { format!("{}: ", cell.name) } else { String::new() };
            text.push_str(&format!("\nnote: {place}{remark}"));
        }
    }
    if summary.cells.iter().any(|cell| !remarks(cell).is_empty()) {
        text.push('\n');
    }
    text.push_str(&format!("\n{}\n", summary.verdict));
    if let Some(why) = &summary.interrupted {
        text.push_str(&format!("  {why}: partial results\n"));
    }
    for reason in &summary.reasons {
        text.push_str(&format!("  {reason}\n"));
    }
    text
}

/// Prints trends and steps over the last runs.
pub(super) fn print_history(history: Option<&History>) {
    let findings = history.map(History::findings).unwrap_or_default();
    for finding in findings {
        output::line(&format!("history: {finding}"));
    }
}

/// A column: its header, and its cell of a row.
type Column<'c, R> = (&'c str, &'c dyn Fn(&R) -> String);

/// A table without columns that are empty in every row.
fn table<R>(rows: &[R], columns: &[Column<'_, R>]) -> String {
    let used: Vec<&Column<'_, R>> =
        columns.iter().filter(|(_, cell)| rows.iter().any(|row| !cell(row).is_empty())).collect();
    let header: Vec<&str> = used.iter().map(|(header, _)| *header).collect();
    let filled = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let row = |row| used.iter().map(|(_, cell)| filled(cell(row))).collect();
    aligned(&header, &rows.iter().map(row).collect::<Vec<_>>())
}

/// A rate or milliseconds, with two decimals below a hundred.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn share(value: f64) -> String {
    format!("{:.2}%", 100.0 * value)
}

/// A response time; empty if it is not reported.
fn milliseconds(figures: &LabelFigures, of: fn(&Times) -> f64) -> String {
    figures.response_time(of).map(number).unwrap_or_default()
}

fn cases(summary: &Summary) -> String {
    // Short runs have no interval.
    let measured = || summary.cells.iter().filter(|cell| cell.throughput.is_some());
    let has_intervals = measured().all(|cell| cell.interval.is_some());
    let interval = |cell: &Cell| cell.interval.filter(|_| has_intervals);
    let of = |cell: &Cell, show: fn(&LabelFigures) -> String| {
        cell.total().filter(|total| total.samples > 0).map(show).unwrap_or_default()
    };
    table(
        &summary.cells,
        &[
            ("CASE", &|cell| summary.name_of(cell).to_owned()),
            ("VERDICT", &|cell| cell.verdict.to_string()),
            ("OFFERED/S", &|cell| cell.offered.map(number).unwrap_or_default()),
            ("REQUESTS/S", &|cell| cell.throughput.map(|s| number(s.mean)).unwrap_or_default()),
            ("95 % INTERVAL", &|cell| {
                let range =
                    |found: Interval| format!("{}..{}", number(found.low), number(found.high));
                interval(cell).map(range).unwrap_or_default()
            }),
            ("MEAN MS", &|cell| of(cell, |total| milliseconds(total, |times| times.mean))),
            ("P50", &|cell| of(cell, |total| milliseconds(total, |times| times.p50))),
            ("P95", &|cell| of(cell, |total| milliseconds(total, |times| times.p95))),
            ("P99", &|cell| of(cell, |total| milliseconds(total, |times| times.p99))),
            ("MAX", &|cell| of(cell, |total| milliseconds(total, |times| times.max))),
            ("ERRORS", &|cell| of(cell, |total| share(total.error_share()))),
            ("SERVER CPU µS", &|cell| {
                cell.server
                    .as_ref()
                    .map(|server| format!("{:.1}", server.cpu_us))
                    .unwrap_or_default()
            }),
            ("SERVER MIB", &|cell| {
                let memory = cell.server.as_ref().map(|server| server.memory);
                memory.filter(|bytes| *bytes > 0).map(mebibytes).unwrap_or_default()
            }),
            ("SERVER IDLE", &|cell| {
                let idle = cell.server.as_ref().and_then(|server| server.idle);
                idle.map(|idle| format!("{:.0}%", 100.0 * idle)).unwrap_or_default()
            }),
        ],
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Comparisons of contenders.
fn bars(summary: &Summary) -> String {
    let mut text = table(
        &summary.bars,
        &[
            ("BAR", &|bar| bar.title.clone()),
            ("LOAD", &|bar| bar.load.clone()),
            ("CONTENDER", &|bar| bar.subject.clone()),
            ("REFERENCE", &|bar| bar.reference.clone()),
            ("FOUND", &|bar| bar.value.map(|value| bar.show(value)).unwrap_or_default()),
            ("95 % INTERVAL", &|bar| range(bar, bar.interval)),
            ("ROUNDS", &|bar| range(bar, bar.range)),
            ("RESULT", &|bar| bar.outcome.to_string()),
        ],
    );
    for bar in &summary.bars {
        for note in &bar.notes {
            text.push_str(&format!("note: {}: {note}\n", bar.name()));
        }
    }
    text
}

fn range(bar: &BarResult, range: Option<Interval>) -> String {
    range
        .map(|found| format!("{}..{}", bar.show(found.low), bar.show(found.high)))
        .unwrap_or_default()
}

/// Labels of cases with several labels.
fn labels(summary: &Summary) -> String {
    let several = summary.cells.iter().filter(|cell| cell.labels.len() > 2);
    let rows: Vec<(&Cell, &LabelFigures)> = several
        .flat_map(|cell| cell.labels.iter().skip(1).map(move |label| (cell, label)))
        .collect();
    table(
        &rows,
        &[
            ("CASE", &|(cell, _)| cell.name.clone()),
            ("REQUEST", &|(_, figures)| figures.label.clone()),
            ("SAMPLES", &|(_, figures)| figures.samples.to_string()),
            ("REQUESTS/S", &|(_, figures)| number(figures.throughput)),
            ("MEAN MS", &|(_, figures)| milliseconds(figures, |times| times.mean)),
            ("P50", &|(_, figures)| milliseconds(figures, |times| times.p50)),
            ("P95", &|(_, figures)| milliseconds(figures, |times| times.p95)),
            ("P99", &|(_, figures)| milliseconds(figures, |times| times.p99)),
            ("MAX", &|(_, figures)| milliseconds(figures, |times| times.max)),
            ("ERRORS", &|(_, figures)| share(figures.error_share())),
        ],
    )
}

/// The highest loads that `find-max` and `steps` found.
fn capacities(summary: &Summary) -> String {
    let mut text = String::new();
    for cell in &summary.cells {
        let Some(found) = &cell.capacity else { continue };
        let load = match found.load {
            SearchedLoad::Rate(rate) => format!("{}/s", number(rate)),
            SearchedLoad::Users(users) => format!("{users} users"),
        };
        let is = if found.at_least { "met" } else { "is the highest load that meets" };
        text.push_str(&format!("{}: {load} {is} the SLO", summary.name_of(cell)));
        if let Some(Interval { low, high }) = found.interval {
            let of = if found.searches > 1 { "95 % interval" } else { "limit between" };
            text.push_str(&format!(", {of} {} to {}", number(low), number(high)));
        }
        if found.at_least {
            text.push_str(", the limit is higher");
        }
        let confirmed = if found.confirmed { "confirmed" } else { "not confirmed" };
        let steps = cell.load_steps.len();
        text.push_str(&format!("; {confirmed}, {steps} steps in {} search", found.searches));
        text.push_str(if found.searches == 1 { "\n" } else { "es\n" });
    }
    text
}

fn effects(summary: &Summary) -> String {
    let Some(found) = &summary.effects else { return String::new() };
    let FactorEffects { first, second, effects } = found;
    let rows = [
        (format!("{first} on"), effects.first),
        (format!("{second} on"), effects.second),
        (format!("{first} x {second}"), effects.interaction),
    ];
    let range = |Interval { low, high }| format!("{low:.3}..{high:.3}");
    table(
        &rows,
        &[
            ("EFFECT", &|(name, _)| name.clone()),
            ("ON THROUGHPUT", &|(_, ratio)| format!("{:+.1} %", 100.0 * (ratio.value - 1.0))),
            ("FACTOR", &|(_, ratio)| format!("{:.3}", ratio.value)),
            ("95 % INTERVAL", &|(_, ratio)| range(ratio.interval)),
        ],
    )
}

/// Published figures, measured figures and the hardware.
fn published(summary: &Summary, host: &Host) -> String {
    let cells = summary.cells.iter();
    let rows: Vec<(&Cell, &Published)> =
        cells.flat_map(|cell| cell.published.iter().map(move |figure| (cell, figure))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let sources = summary.sources();
    let source = |figure: &Published| sources.iter().position(|source| *source == figure.source);
    let factor = |cell: &Cell, figure: &Published| {
        let measured = figure.measured(summary, cell).filter(|_| figure.value > 0.0)?;
        Some(format!("{:.2}x", measured / figure.value))
    };
    let mut text = table(
        &rows,
        &[
            ("CASE", &|(cell, _)| cell.name.clone()),
            ("FIGURE", &|(_, figure)| figure.name()),
            ("PUBLISHED", &|(_, figure)| {
                format!("{} [{}]", figure.show(figure.value), source(figure).unwrap_or(0) + 1)
            }),
            ("MEASURED", &|(cell, figure)| {
                figure.measured(summary, cell).map(|found| figure.show(found)).unwrap_or_default()
            }),
            ("FACTOR", &|(cell, figure)| factor(cell, figure).unwrap_or_default()),
        ],
    );
    for (at, source) in sources.iter().enumerate() {
        text.push_str(&format!("[{}] {source}\n", at + 1));
    }
    let memory = host.memory as f64 / (1u64 << 30) as f64;
    text.push_str(&format!(
        "Here, generator and server share {} cores ({}) and {memory:.1} GiB. Because the hardware \
         differs, compare\ncases of the same machine, not machines.\n",
        host.cores,
        if host.processor.is_empty() { "unknown processor" } else { &host.processor },
    ));
    text
}
