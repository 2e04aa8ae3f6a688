//! `weir lab compare`: two runs, case by case.

use crate::exit::Exit;
use crate::output;
use crate::table::table;
use std::path::PathBuf;
use weir_lab::compare;
use weir_lab::results::{CellComparison, Comparison, StoredRun};

/// Arguments of `weir lab compare`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A case is worse if its throughput fell by more than the margin and the 95 % \
        confidence interval of the\nratio excludes 1; the same if the interval lies within the \
        margin; better if the throughput rose by more than the margin and the interval excludes \
        1; otherwise unclear.\n\n\
    Exit codes:\n  0  no case is worse\n  2  a folder is unreadable\n  5  REGRESSION: a case is \
    worse\n\n\
    Examples:\n  weir lab compare results/before results/after\n  \
    weir lab compare baseline/ results/ --margin 2 --json"
)]
pub(crate) struct Args {
    /// Folder of the baseline run
    before: PathBuf,
    /// Folder of the run to compare
    after: PathBuf,
    /// Regression margin in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    margin: f64,
    /// Print the comparison as one JSON object
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').trim().parse::<f64>().ok();
    value
        .filter(|value| (0.1..=50.0).contains(value))
        .ok_or_else(|| format!("'{text}' is not a percentage from 0.1 to 50"))
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (before, after) = (StoredRun::read(&args.before)?, StoredRun::read(&args.after)?);
    let comparison = compare::runs(&before, &after, args.margin / 100.0);
    if args.json {
        output::line(&serde_json::to_string(&comparison)?);
    } else {
        print(&comparison);
    }
    Ok(Exit::Lab(comparison.verdict().exit_code()))
}

fn print(comparison: &Comparison) {
    let rows: Vec<[String; 7]> = comparison.cells.iter().map(row).collect();
    let header = [
        "CASE",
        "JUDGEMENT",
        "BEFORE/S",
        "AFTER/S",
        "RATIO",
        "95 % INTERVAL",
        "P99 BEFORE → AFTER",
    ];
    output::text(&table(header, &rows));
    let lists = [
        ("only before", &comparison.only_before),
        ("only after", &comparison.only_after),
        ("differs", &comparison.differences),
    ];
    for (word, items) in lists {
        for item in items {
            output::line(&format!("{word}: {item}"));
        }
    }
    output::line(&format!("verdict: {}", comparison.verdict()));
    for reason in comparison.reasons() {
        output::line(&format!("  {reason}"));
    }
}

fn row(cell: &CellComparison) -> [String; 7] {
    let none = || "-".to_owned();
    [
        cell.name.clone(),
        cell.judgement.word().to_owned(),
        cell.before.map_or_else(none, |rate| format!("{rate:.1}")),
        cell.after.map_or_else(none, |rate| format!("{rate:.1}")),
        cell.throughput.map_or_else(none, |ratio| format!("{:.3}", ratio.value)),
        cell.throughput.map_or_else(none, |ratio| {
            format!("{:.3} to {:.3}", ratio.interval.low, ratio.interval.high)
        }),
        cell.p99()
            .and_then(|p99| p99.before.zip(p99.after))
            .map_or_else(none, |(before, after)| format!("{before:.2} → {after:.2} ms")),
    ]
}
