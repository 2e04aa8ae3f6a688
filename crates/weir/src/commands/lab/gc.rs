//! `weir lab gc`: how long a JVM paused.

use crate::exit::Exit;
use crate::output;
use anyhow::Context;
use std::fs;
use std::path::PathBuf;
use weir_lab::gc::Log;

/// Arguments of `weir lab gc`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads a unified log (java -Xlog:gc*:file=gc.log). GC throughput is the share of time \
    without\npauses, as published performance tables have it.\n\n\
    Examples:\n  weir lab gc gc.log\n  weir lab gc gc.log --from 300 --to 900 --json"
)]
pub(crate) struct Args {
    /// GC log
    log: PathBuf,
    /// Only pauses after this, seconds on the log's clock
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Only pauses up to this
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let bytes = fs::read(&args.log).with_context(|| args.log.display().to_string())?;
    let log = Log::parse(&String::from_utf8_lossy(&bytes));
    anyhow::ensure!(log.last > 0.0, "{}: no line of a unified GC log", args.log.display());
    let found = match (args.from, args.to) {
        (None, None) => log.whole(),
        (from, to) => log.between(from.unwrap_or(0.0), to.unwrap_or(log.last)),
    };
    if args.json {
        output::line(&serde_json::to_string(&found)?);
        return Ok(Exit::Success);
    }
    output::line(&format!("GC throughput  {:.3} %", found.throughput));
    output::line(&format!("pauses         {}", found.count));
    output::line(&format!("sum            {:.3} ms of {:.3} s", found.sum_ms, found.seconds));
    output::line(&format!("longest        {:.3} ms", found.longest_ms));
    Ok(Exit::Success)
}
