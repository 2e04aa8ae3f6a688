//! `weir lab merge`: merges histogram logs of several generators.

use crate::exit::Exit;
use crate::output;
use anyhow::Context;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use weir_lab::results::hlog;

/// Arguments of `weir lab merge`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Intervals with the same tag and start second are added, so that percentiles are \
        exact. Logs are\naligned by their start times.\n\n\
    Example:\n  weir lab merge one/hist.hlog two/hist.hlog --out both.hlog"
)]
pub(crate) struct Args {
    /// Histogram logs
    #[arg(required = true, num_args = 2.., value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Output log
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut logs = Vec::new();
    let mut starts = Vec::new();
    for path in &args.logs {
        let read = || format!("{}", path.display());
        let bytes = fs::read(path).with_context(read)?;
        starts.push(hlog::start(&bytes));
        logs.push(hlog::read(&bytes).with_context(read)?);
    }
    let start = align(&mut logs, &starts);
    let merged = hlog::merge(&logs);
    let file = fs::File::create_new(&args.out).with_context(|| args.out.display().to_string())?;
    let mut file = BufWriter::new(file);
    hlog::head(&mut file, start)?;
    for interval in &merged {
        hlog::line(&mut file, interval)?;
    }
    file.flush()?;
    let samples: u64 = merged.iter().map(|interval| interval.histogram.len()).sum();
    output::line(&format!("{}: {} intervals, {samples} samples", args.out.display(), merged.len()));
    Ok(Exit::Success)
}

/// Aligns all logs to the earliest start, which is returned.
fn align(logs: &mut [Vec<hlog::Interval>], starts: &[Option<SystemTime>]) -> SystemTime {
    let first = starts.iter().flatten().min().copied().unwrap_or(SystemTime::UNIX_EPOCH);
    for (log, start) in logs.iter_mut().zip(starts) {
        let later =
            start.and_then(|start| start.duration_since(first).ok()).unwrap_or(Duration::ZERO);
        for interval in log {
            interval.start += later;
        }
    }
    first
}
