//! Text result of a run.

use crate::table::aligned;
use weir_lab::figures::LabelFigures;
use weir_lab::results::{Cell, Host, Summary};
use weir_lab::stats::Ratio;

/// All tables: cases, labels, published figures, effects, verdict.
pub(super) fn text(summary: &Summary, host: &Host) -> String {
    let mut text = format!("\n{}", cases(summary));
    for part in [labels(summary), rate_steps(summary), effects(summary), published(summary, host)] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    let several = summary.cells.len() > 1;
    for cell in &summary.cells {
        for remark in &cell.remarks {
            let place = if several { format!("{}: ", cell.name) } else { String::new() };
            text.push_str(&format!("\nnote: {place}{remark}"));
        }
    }
    if summary.cells.iter().any(|cell| !cell.remarks.is_empty()) {
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

/// A table without columns that are empty in every row.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let used: Vec<usize> = (0..columns.len()).filter(used).collect();
    let columns: Vec<&str> = used.iter().map(|&column| columns[column]).collect();
    let filled = |text: &String| if text.is_empty() { "-".to_owned() } else { text.clone() };
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| used.iter().map(|&column| filled(&row[column])).collect()).collect();
    aligned(&columns, &rows)
}

/// A rate or milliseconds, with two decimals below a hundred.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn share(value: f64) -> String {
    format!("{:.2}%", 100.0 * value)
}

/// Response times in milliseconds, and the error rate.
fn times(figures: &LabelFigures) -> [String; 6] {
    let times = &figures.response;
    let [mean, p50, p95, p99, max] =
        [times.mean, times.p50, times.p95, times.p99, times.max].map(number);
    [mean, p50, p95, p99, max, share(figures.error_share())]
}

fn cases(summary: &Summary) -> String {
    // Short runs have no interval.
    let measured = || summary.cells.iter().filter(|cell| cell.throughput.is_some());
    let has_intervals = measured().all(|cell| cell.interval.is_some());
    let row = |cell: &Cell| {
        let name = if cell.name.is_empty() { summary.name.clone() } else { cell.name.clone() };
        let mut row = vec![name, cell.verdict.to_string()];
        row.push(cell.offered.map_or_else(String::new, number));
        row.push(cell.throughput.map_or_else(String::new, |spread| number(spread.mean)));
        let interval = cell
            .interval
            .filter(|_| has_intervals)
            .map(|found| format!("{}..{}", number(found.low), number(found.high)));
        row.push(interval.unwrap_or_default());
        match cell.total().filter(|total| total.samples > 0) {
            Some(total) => row.extend(times(total)),
            None => row.extend(std::iter::repeat_n(String::new(), 6)),
        }
        row.push(
            cell.server.as_ref().map_or_else(String::new, |server| format!("{:.1}", server.cpu_us)),
        );
        row
    };
    let columns = [
        "CASE",
        "VERDICT",
        "OFFERED/S",
        "REQUESTS/S",
        "95 % INTERVAL",
        "MEAN MS",
        "P50",
        "P95",
        "P99",
        "MAX",
        "ERRORS",
        "SERVER CPU µS",
    ];
    table(&columns, &summary.cells.iter().map(row).collect::<Vec<_>>())
}

/// Labels of cases with several labels.
fn labels(summary: &Summary) -> String {
    let mut rows = Vec::new();
    for cell in summary.cells.iter().filter(|cell| cell.labels.len() > 2) {
        for figures in cell.labels.iter().skip(1) {
            let mut row = vec![cell.name.clone(), figures.label.clone()];
            row.extend([figures.samples.to_string(), number(figures.throughput)]);
            row.extend(times(figures));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        "CASE",
        "REQUEST",
        "SAMPLES",
        "REQUESTS/S",
        "MEAN MS",
        "P50",
        "P95",
        "P99",
        "MAX",
        "ERRORS",
    ];
    table(&columns, &rows)
}

/// The highest rates that `find-max` found.
fn rate_steps(summary: &Summary) -> String {
    let mut text = String::new();
    for cell in summary.cells.iter().filter(|cell| !cell.rate_steps.is_empty()) {
        let best = cell.rate_steps.iter().rfind(|step| step.met);
        let tested = cell.rate_steps.len();
        if let Some(best) = best {
            text.push_str(&format!(
                "{}: {}/s is the highest rate that meets the SLO; {tested} rates were tested\n",
                if cell.name.is_empty() { &summary.name } else { &cell.name },
                number(best.rate),
            ));
        }
    }
    text
}

fn effects(summary: &Summary) -> String {
    let Some(found) = &summary.effects else { return String::new() };
    let row = |name: String, ratio: &Ratio| {
        vec![
            name,
            format!("{:+.1} %", 100.0 * (ratio.value - 1.0)),
            format!("{:.3}", ratio.value),
            format!("{:.3}..{:.3}", ratio.interval.low, ratio.interval.high),
        ]
    };
    let (first, second) = (&found.first, &found.second);
    let rows = [
        row(format!("{first} on"), &found.effects.first),
        row(format!("{second} on"), &found.effects.second),
        row(format!("{first} x {second}"), &found.effects.interaction),
    ];
    table(&["EFFECT", "ON THROUGHPUT", "FACTOR", "95 % INTERVAL"], &rows)
}

/// Published figures, measured figures and the hardware.
fn published(summary: &Summary, host: &Host) -> String {
    let mut rows = Vec::new();
    let mut sources: Vec<&str> = Vec::new();
    for cell in &summary.cells {
        for figure in &cell.published {
            let at = sources.iter().position(|source| *source == figure.source);
            let at = at.unwrap_or_else(|| {
                sources.push(&figure.source);
                sources.len() - 1
            });
            let measured = figure.measured(summary, cell);
            let times = measured.filter(|_| figure.value > 0.0).map(|found| found / figure.value);
            rows.push(vec![
                cell.name.clone(),
                figure.name(),
                format!("{} [{}]", figure.show(figure.value), at + 1),
                measured.map(|found| figure.show(found)).unwrap_or_default(),
                times.map(|times| format!("{times:.2}x")).unwrap_or_default(),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = table(&["CASE", "FIGURE", "PUBLISHED", "MEASURED", "FACTOR"], &rows);
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
