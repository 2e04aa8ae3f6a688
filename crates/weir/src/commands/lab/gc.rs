//! `weir lab gc`: garbage collection pauses of a JVM.

use crate::exit::Exit;
use crate::output;
use anyhow::Context;
use std::path::PathBuf;
use std::time::Duration;
use weir_lab::observe::{GcLog, Pause, gc_throughput};

/// Arguments of `weir lab gc`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads a unified log (java -Xlog:gc*:file=gc.log). GC throughput is the share of \
        time without\npauses, as in published performance tables.\n\n\
    Examples:\n  weir lab gc gc.log\n  weir lab gc gc.log --from 300 --to 900 --json"
)]
pub(crate) struct Args {
    /// GC log
    log: PathBuf,
    /// Start of the interval, seconds of the JVM's uptime
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// End of the interval
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let place = || args.log.display().to_string();
    let mut log = GcLog::from_start(&args.log).with_context(place)?;
    let pauses = log.read().with_context(place)?;
    let uptime = log.uptime().with_context(|| {
        format!("{}: no line of a unified GC log with the uptime", args.log.display())
    })?;
    let end = uptime.as_secs_f64();
    let (from, to) = (args.from.unwrap_or(0.0), args.to.unwrap_or(end));
    anyhow::ensure!(
        0.0 <= from && from < to && to <= end,
        "the interval from {from} to {to} s is not within the log, which ends at {end:.3} s"
    );
    let inside = |pause: &&Pause| {
        pause.at.is_none_or(|at| from < at.as_secs_f64() && at.as_secs_f64() <= to)
    };
    let pauses: Vec<Pause> = pauses.iter().filter(inside).copied().collect();
    let milliseconds = |pause: &Pause| pause.length.as_secs_f64() * 1e3;
    let throughput = gc_throughput(&pauses, Duration::from_secs_f64(to - from));
    let sum: f64 = pauses.iter().map(milliseconds).sum();
    let longest = pauses.iter().map(milliseconds).fold(0.0, f64::max);
    if args.json {
        let found = serde_json::json!({"throughput": throughput, "count": pauses.len(),
            "sum_ms": sum, "longest_ms": longest, "seconds": to - from});
        output::line(&found.to_string());
        return Ok(Exit::Success);
    }
    output::line(&format!("GC throughput  {throughput:.3} %"));
    output::line(&format!("pauses         {}", pauses.len()));
    output::line(&format!("sum            {sum:.3} ms of {:.3} s", to - from));
    output::line(&format!("longest        {longest:.3} ms"));
    Ok(Exit::Success)
}
