//! `summary.md`: the result for the summary page of a continuous integration (GitHub, GitLab).

use super::{BarOutcome, Cell, Run, Summary, markdown};
use crate::engine::SearchedLoad;
use crate::figures::{LabelFigures, Times};
use std::io::{self, Write};

/// Most failures that are listed.
const MAX_FAILURES: usize = 20;
/// Rows of other tables: the summary page of GitHub has at most 1 MiB.
const MAX_ROWS: usize = 500;
/// Most remarks that are listed.
const MAX_REMARKS: usize = 50;

/// Writes the file.
///
/// # Errors
/// The output cannot be written.
pub fn write(mut out: impl Write, run: &Run, summary: &Summary) -> io::Result<()> {
    out.write_all(text(run, summary).as_bytes())
}

/// The result as Markdown.
#[must_use]
pub fn text(run: &Run, summary: &Summary) -> String {
    let mut text = format!("## {}: {}\n", escape(&summary.name), summary.verdict);
    text.push_str(&of_run(run));
    if let Some(why) = &summary.interrupted {
        text.push_str(&format!("\n{}: partial results\n", escape(why)));
    }
    list(&mut text, &summary.reasons);
    text.push_str(&cases(summary));
    text.push_str(&labels(summary));
    text.push_str(&thresholds(summary));
    text.push_str(&bars(summary));
    text.push_str(&capacities(summary));
    text.push_str(&failures(summary));
    text.push_str(&agents(summary));
    text.push_str(&remarks(summary));
    text.push_str(&exports(summary));
    if let Some(comparison) = &summary.comparison {
        let rows = comparison.cells.iter().map(|cell| {
            let ratio = cell.throughput.as_ref();
            let ratio = ratio.map(|ratio| {
                let (low, high) = (ratio.interval.low, ratio.interval.high);
                format!("{:.3} ({low:.3} to {high:.3})", ratio.value)
            });
            vec![
                escape(if cell.name.is_empty() { &summary.name } else { &cell.name }),
                cell.before.map(number).unwrap_or_default(),
                cell.after.map(number).unwrap_or_default(),
                ratio.unwrap_or_default(),
            ]
        });
        let head = ["case", "requests/s before", "after", "ratio (95 % interval)"];
        text.push_str(&table("Baseline", &head, rows));
    }
    if let Some(history) = &summary.history {
        text.push_str(&format!("\n### Last {} runs\n", history.runs.len()));
        let findings = history.findings();
        if findings.is_empty() {
            text.push_str("\nNo trend and no step.\n");
        }
        list(&mut text, &findings);
    }
    text
}

fn cases(summary: &Summary) -> String {
    let row = |cell: &Cell| {
        let total = cell.total().filter(|total| total.samples > 0);
        let of = |show: &dyn Fn(&LabelFigures) -> String| total.map(show).unwrap_or_default();
        vec![
            escape(summary.name_of(cell)),
            cell.verdict.to_string(),
            cell.throughput.map(|spread| number(spread.mean)).unwrap_or_default(),
            of(&|total| milliseconds(total, |times| times.p50)),
            of(&|total| milliseconds(total, |times| times.p95)),
            of(&|total| milliseconds(total, |times| times.p99)),
            of(&|total| total.samples.to_string()),
            of(&|total| total.failed().to_string()),
        ]
    };
    let head = ["case", "verdict", "requests/s", "p50 ms", "p95 ms", "p99 ms", "samples", "errors"];
    table("", &head, summary.cells.iter().map(row))
}

/// A response time; empty if it is not reported.
fn milliseconds(figures: &LabelFigures, of: fn(&Times) -> f64) -> String {
    figures.response_time(of).map(number).unwrap_or_default()
}

/// Labels of cases with several labels.
fn labels(summary: &Summary) -> String {
    let several = summary.cells.iter().filter(|cell| cell.labels.len() > 2);
    let rows = several.flat_map(|cell| {
        cell.labels.iter().skip(1).map(|label| {
            vec![
                escape(summary.name_of(cell)),
                escape(&label.label),
                number(label.throughput),
                milliseconds(label, |times| times.p50),
                milliseconds(label, |times| times.p95),
                milliseconds(label, |times| times.p99),
                label.samples.to_string(),
                label.failed().to_string(),
            ]
        })
    });
    let head = ["case", "request", "requests/s", "p50 ms", "p95 ms", "p99 ms", "samples", "errors"];
    table("Requests", &head, rows)
}

fn thresholds(summary: &Summary) -> String {
    let results = summary.cells.iter().flat_map(|cell| &cell.thresholds);
    let rows = results.map(|result| {
        let word = if result.met { "met" } else { "**missed**" };
        vec![
            escape(&result.cell),
            escape(&result.threshold),
            escape(&result.found),
            word.to_owned(),
        ]
    });
    table("Thresholds", &["case", "threshold", "found", ""], rows)
}

/// Comparisons of contenders.
fn bars(summary: &Summary) -> String {
    let rows = summary.bars.iter().map(|bar| {
        let word = match bar.outcome {
            BarOutcome::Missed => "**missed**".to_owned(),
            other => other.to_string(),
        };
        vec![escape(&bar.name()), escape(&bar.subject), escape(&bar.reference), bar.found(), word]
    });
    table("Bars", &["bar", "contender", "reference", "found (95 % interval)", ""], rows)
}

/// The highest loads that `find-max` and `steps` found.
fn capacities(summary: &Summary) -> String {
    let rows = summary.cells.iter().filter_map(|cell| {
        let found = cell.capacity.as_ref()?;
        let load = match found.load {
            SearchedLoad::Rate(rate) => format!("{}/s", number(rate)),
            SearchedLoad::Users(users) => format!("{users} users"),
        };
        let least = if found.at_least { "at least " } else { "" };
        let interval =
            found.interval.map(|range| format!("{} to {}", number(range.low), number(range.high)));
        Some(vec![
            escape(summary.name_of(cell)),
            format!("{least}{load}"),
            interval.unwrap_or_default(),
            if found.confirmed { "confirmed" } else { "not confirmed" }.to_owned(),
        ])
    });
    table("Capacity", &["case", "highest load that met the objective", "interval", ""], rows)
}

/// Remarks on the figures of cases.
fn remarks(summary: &Summary) -> String {
    let several = summary.cells.len() > 1;
    let all = summary.cells.iter().flat_map(|cell| {
        let place = if several { format!("{}: ", summary.name_of(cell)) } else { String::new() };
        cell.remarks.iter().map(move |remark| format!("{place}{remark}"))
    });
    let lines: Vec<String> = all.take(MAX_REMARKS).collect();
    let mut text = String::new();
    if !lines.is_empty() {
        text.push_str("\n### Remarks\n");
    }
    list(&mut text, &lines);
    text
}

/// What was measured, when and by what.
fn of_run(run: &Run) -> String {
    let parts = [&run.target, &run.started, &run.version].map(|part| escape(part));
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!("\n{}\n", parts.join(" · ")) }
}

fn failures(summary: &Summary) -> String {
    let failures = summary.cells.iter().flat_map(|cell| &cell.failures).take(MAX_FAILURES);
    let rows = failures.map(|failure| {
        vec![
            escape(&failure.label),
            escape(&failure.kind),
            failure.count.to_string(),
            escape(&failure.message),
        ]
    });
    table("Failures", &["request", "kind", "count", "message"], rows)
}

fn agents(summary: &Summary) -> String {
    let agents = summary.cells.iter().flat_map(|cell| cell.agents.iter().map(move |a| (cell, a)));
    let rows = agents.map(|(cell, agent)| {
        vec![
            escape(summary.name_of(cell)),
            escape(&agent.agent),
            agent.loops.to_string(),
            number(agent.throughput),
            format!("{:.0} %", 100.0 * agent.busiest),
            format!("{:.3}", agent.drift),
        ]
    });
    let head = ["case", "agent", "threads", "requests/s", "busiest thread", "clock drift ms"];
    table("Agents", &head, rows)
}

fn exports(summary: &Summary) -> String {
    let rows = summary.exports.iter().map(|one| {
        vec![
            escape(&one.to),
            one.accepted.to_string(),
            one.rejected.to_string(),
            one.dropped.to_string(),
            escape(one.problem.as_deref().unwrap_or_default()),
        ]
    });
    table("Export", &["receiver", "batches accepted", "rejected", "dropped", "last problem"], rows)
}

/// A table with a heading; nothing without rows.
fn table(heading: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut rows: Vec<Vec<String>> = rows.collect();
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    if rows.is_empty() {
        return String::new();
    }
    let heading = if heading.is_empty() { String::new() } else { format!("\n### {heading}\n") };
    let more = match left_out {
        0 => String::new(),
        _ => format!("\n{left_out} more rows are in the report.\n"),
    };
    format!("{heading}\n{}\n{more}", markdown::table(head, &rows))
}

fn list(text: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        text.push('\n');
    }
    lines.iter().for_each(|line| text.push_str(&format!("- {}\n", escape(line))));
}

/// With two decimals below a hundred.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Text on one line without Markdown or HTML: names and messages come from plans and servers.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Capacity;
    use crate::results::{BarResult, CellHistory, Published};
    use crate::results::{Failure, FigureHistory, History};

    #[test]
    fn the_summary_has_the_verdict_the_cases_and_the_history() {
        let labels = ["TOTAL", "a|b", "c"].map(|label| LabelFigures {
            label: label.to_owned(),
            samples: 26,
            ..LabelFigures::default()
        });
        let failure = Failure { message: "<b>\n*x*".to_owned(), ..Failure::default() };
        let figure = FigureHistory {
            name: "requests/s".to_owned(),
            values: vec![1.0; 10],
            change: -0.09,
            has_trend: true,
            ..FigureHistory::default()
        };
        let cell = Cell {
            labels: labels.into(),
            failures: vec![failure],
            published: Vec::<Published>::new(),
            reasons: vec!["too slow".to_owned()],
            capacity: Some(Capacity {
                load: SearchedLoad::Users(12),
                interval: None,
                searches: 1,
                confirmed: true,
                at_least: true,
            }),
            remarks: vec!["only two rounds".to_owned()],
            ..Cell::default()
        };
        let mut summary =
            Summary { name: "shop".to_owned(), cells: vec![cell], ..Summary::default() };
        summary.history = Some(History {
            runs: vec![String::new(); 10],
            cells: vec![CellHistory { name: String::new(), figures: vec![figure] }],
        });
        summary.bars = vec![BarResult { outcome: BarOutcome::Missed, ..BarResult::default() }];
        summary.conclude();
        let run = Run { target: "http://a".to_owned(), ..Run::default() };
        let text = text(&run, &summary);
        let start = "## shop: FAIL\n\nhttp://a\n\n- too slow\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("### Bars\n") && text.contains("**missed**"), "{text}");
        assert!(text.contains("at least 12 users") && text.contains("- only two rounds"), "{text}");
        assert!(text.contains("a\\|b "), "{text}");
        assert!(text.contains("&lt;b&gt; \\*x\\*"), "{text}");
        assert!(text.contains("requests/s falls steadily: -9.0 % over the last 10 runs"), "{text}");
        assert!(text.contains("| 26 ") && !text.contains("26.0"), "{text}");
    }
}
