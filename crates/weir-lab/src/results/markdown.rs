//! Tables of runs in Markdown: bars, figures of all cases, machine.

use super::{BarOutcome, BarResult, Cell, Run, Summary};
use crate::stats::median;
use std::collections::BTreeMap;

/// Addresses of the charts of a page.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// Chart of all scenarios.
    pub overview: Option<String>,
    /// Charts by the name of the run.
    pub runs: BTreeMap<String, String>,
}

/// The tables of runs: how many bars are met, and a section for each run.
#[must_use]
pub fn tables(runs: &[(&Run, &Summary)]) -> String {
    let sections: Vec<String> =
        runs.iter().map(|(run, summary)| section(run, summary, None)).collect();
    let counted = counts(&sections.concat());
    counted.into_iter().chain(sections).collect::<Vec<_>>().join("\n\n")
}

/// A run: its bars with their chart, the reasons of missed ones, figures of all cases, and the machine.
pub(super) fn section(run: &Run, summary: &Summary, chart: Option<&String>) -> String {
    let mut parts = vec![format!("## {}", run.name)];
    parts.extend(chart.map(|chart| format!("![Ratios of {}]({chart})", run.name)));
    if !summary.bars.is_empty() {
        let head = ["case", "load", "found", "reference", "median (95 % interval)", "bar", ""];
        let rows: Vec<_> = summary.bars.iter().map(|bar| escaped(bar_row(bar))).collect();
        parts.push(table(&head, &rows));
    }
    let missed = summary.bars.iter().filter(|bar| bar.outcome == BarOutcome::Missed).map(missed);
    let missed: Vec<String> = missed.collect();
    if !missed.is_empty() {
        parts.push(format!("Missed bars:\n\n{}", missed.join("\n")));
    }
    let head = [
        "case",
        "verdict",
        "requests/s",
        "CPU per request",
        "p50",
        "p99",
        "memory",
        "server idle",
        "generator CPU per request",
    ];
    let figures: Vec<_> = summary.cells.iter().map(|cell| escaped(figure_row(cell))).collect();
    parts.push(table(&head, &figures));
    parts.push(machine(run));
    parts.join("\n\n")
}

/// How many bars of sections are met; `None` without bars.
pub(super) fn counts(sections: &str) -> Option<String> {
    let outcomes: Vec<&str> = sections.lines().filter_map(last_cell).collect();
    let count = |outcome| outcomes.iter().filter(|cell| **cell == outcome_cell(outcome)).count();
    let outcomes = [BarOutcome::Met, BarOutcome::Missed, BarOutcome::Inconclusive].map(count);
    let [met, missed, inconclusive] = outcomes;
    let text = format!("{met} bars met, {missed} missed, {inconclusive} inconclusive.");
    (outcomes != [0; 3]).then_some(text)
}

/// The last cell of a row of a table.
fn last_cell(line: &str) -> Option<&str> {
    let (_, cell) = line.strip_prefix('|')?.strip_suffix('|')?.rsplit_once('|')?;
    Some(cell.trim())
}

/// A missed bar with its reason.
fn missed(bar: &BarResult) -> String {
    let load = if bar.load.is_empty() { String::new() } else { format!(", {}", bar.load) };
    let reason = bar.reason.as_deref().unwrap_or("The reason has not been examined.");
    format!("- **{}**{load}: {}, bar `{}`. {reason}", bar.title, bar.found(), bar.bar)
}

/// Cells without the delimiter of columns.
fn escaped(row: Vec<String>) -> Vec<String> {
    row.into_iter().map(|cell| cell.replace('|', "\\|")).collect()
}

fn bar_row(bar: &BarResult) -> Vec<String> {
    vec![
        bar.title.clone(),
        bar.load.clone(),
        bar.subject.clone(),
        bar.reference.clone(),
        bar.found(),
        bar.bar.clone(),
        outcome_cell(bar.outcome).to_owned(),
    ]
}

fn outcome_cell(outcome: BarOutcome) -> &'static str {
    match outcome {
        BarOutcome::Met => "✓",
        BarOutcome::Missed => "✗ missed",
        BarOutcome::Inconclusive => "inconclusive",
    }
}

fn figure_row(cell: &Cell) -> Vec<String> {
    let milliseconds = |of: fn(&crate::figures::Times) -> f64| {
        let time = cell.total().and_then(|total| total.response_time(of));
        time.map(|time| format!("{time:.2} ms")).unwrap_or_default()
    };
    let server = cell.server.as_ref();
    let spread = |of: fn(&super::Resources) -> Option<f64>| {
        let found: Vec<f64> =
            cell.recorded.iter().filter_map(|round| of(round.resources.as_ref()?)).collect();
        let low = found.iter().copied().reduce(f64::min)?;
        let high = found.iter().copied().reduce(f64::max)?;
        Some(format!("{:.2} µs ({low:.2} to {high:.2})", median(&found)))
    };
    vec![
        cell.name.clone(),
        cell.verdict.to_string(),
        cell.throughput.map(|found| format!("{:.0}", found.mean)).unwrap_or_default(),
        spread(|resources| resources.cpu_us).unwrap_or_default(),
        milliseconds(|times| times.p50),
        milliseconds(|times| times.p99),
        server
            .filter(|server| server.memory > 0)
            .map(|server| format!("{:.1} MiB", server.memory as f64 / f64::from(1 << 20)))
            .unwrap_or_default(),
        server
            .and_then(|server| server.idle)
            .map(|idle| format!("{:.0} %", 100.0 * idle))
            .unwrap_or_default(),
        spread(|resources| Some(resources.generator_cpu_us)).unwrap_or_default(),
    ]
}

/// Machine, version and time of a run.
fn machine(run: &Run) -> String {
    let quick = if run.quick { "; quick, not for comparison" } else { "" };
    let host = &run.host;
    format!(
        "{}, {}, {} cores ({}), {}{quick}",
        run.started, run.version, host.cores, host.processor, host.kernel
    )
}

/// A table whose columns are as wide as their cells, which are escaped.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<&[String]> =
        std::iter::once(head.as_slice()).chain(rows.iter().map(Vec::as_slice)).collect();
    let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| {
            let space = width.saturating_sub(cell.chars().count());
            format!(" {cell}{} ", " ".repeat(space))
        });
        format!("|{}|", padded.collect::<Vec<_>>().join("|"))
    };
    let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|");
    let mut lines = vec![line(all[0]), format!("|{rule}|")];
    lines.extend(all[1..].iter().map(|row| line(row)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Resources, RoundFigures};
    use crate::stats::{Interval, spread};

    #[test]
    fn bars_and_figures_are_tables() {
        let run = Run { name: "get".to_owned(), ..Run::default() };
        let bar = BarResult {
            bar: "cpu of weir <= 0.8 x nginx".to_owned(),
            title: "GET | small".to_owned(),
            load: "load=fixed".to_owned(),
            outcome: BarOutcome::Missed,
            subject: "9.00 µs".to_owned(),
            reference: "10.00 µs".to_owned(),
            value: Some(0.9),
            interval: Some(Interval { low: 0.89, high: 0.91 }),
            reason: Some("The kernel.".to_owned()),
            ..BarResult::default()
        };
        let resources = Resources { cpu_us: Some(9.0), ..Resources::default() };
        let round = RoundFigures { resources: Some(resources), ..RoundFigures::default() };
        let cell = Cell {
            name: "contender=weir".to_owned(),
            throughput: spread(&[1000.0]),
            recorded: vec![round],
            ..Cell::default()
        };
        let summary = Summary { bars: vec![bar], cells: vec![cell], ..Summary::default() };
        let text = section(&run, &summary, Some(&"performance/get.svg".to_owned()));
        assert!(text.contains("## get\n\n![Ratios of get](performance/get.svg)\n\n|"), "{text}");
        assert!(
            text.contains(
                "- **GET | small**, load=fixed: 0.900 (0.890 to 0.910), bar `cpu of weir"
            ) && text.contains("nginx`. The kernel.\n"),
            "{text}"
        );
        let printed = tables(&[(&run, &summary)]);
        assert!(
            printed.starts_with("0 bars met, 1 missed, 0 inconclusive.\n\n## get"),
            "{printed}"
        );
        assert!(
            text.contains("GET \\| small") && text.contains("0.900 (0.890 to 0.910)"),
            "{text}"
        );
        assert!(text.contains("✗ missed") && text.contains("9.00 µs (9.00 to 9.00)"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        let widths: Vec<usize> = rows[..3].iter().map(|row| row.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }
}
