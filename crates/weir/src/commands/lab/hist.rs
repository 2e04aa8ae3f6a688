//! `weir lab hist`: percentiles of a histogram log.

use crate::exit::Exit;
use crate::output;
use crate::table::table;
use anyhow::Context;
use std::fs;
use std::path::PathBuf;
use weir_lab::figures::Times;
use weir_lab::results::hlog;

/// Arguments of `weir lab hist`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Times are in milliseconds, for all intervals of a tag, including warm-up.\n\n\
    Examples:\n  weir lab hist results/hist.hlog\n  weir lab hist results/hist.hlog --tag response --json"
)]
pub(crate) struct Args {
    /// Histogram log
    log: PathBuf,
    /// Only tags that contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    tag: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let place = || args.log.display().to_string();
    let log = fs::read(&args.log).with_context(place)?;
    let sums = hlog::by_tag(&hlog::read(&log).with_context(place)?);
    let mut rows = Vec::new();
    for (tag, histogram) in sums.iter().filter(|(tag, _)| tag.contains(&args.tag)) {
        let times = Times::from_histogram(histogram);
        if args.json {
            let mut line = serde_json::to_value(&times)?;
            line["tag"] = tag.as_str().into();
            line["samples"] = histogram.len().into();
            output::line(&line.to_string());
        } else {
            let Times { mean, p50, p90, p95, p99, p99_9, max, .. } = times;
            let shown = [mean, p50, p90, p95, p99, p99_9, max].map(|ms| format!("{ms:.3}"));
            let [mean, p50, p90, p95, p99, p99_9, max] = shown;
            let samples = histogram.len().to_string();
            rows.push([tag.clone(), samples, mean, p50, p90, p95, p99, p99_9, max]);
        }
    }
    if !args.json {
        let header = ["TAG", "SAMPLES", "MEAN", "P50", "P90", "P95", "P99", "P99.9", "MAX"];
        output::text(&table(header, &rows));
    }
    Ok(Exit::Success)
}
