//! `weir lab run`: a scenario, a suite or a JMeter plan.

mod outcome;
mod plan;
mod scenario;

use crate::exit::Exit;
use anyhow::ensure;
use std::path::PathBuf;
use weir_lab::scenario::Level;

/// Arguments of `weir lab run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A scenario or a suite leaves a folder behind with everything about the run, report.html \
    in it. Without\n--target a server is started as the scenario says; suites start this weir. Ctrl-C ends \
    the load and gives the\nresult so far.\n\n\
    A plan (.jmx) that runs does what JMeter 5.6 does with it; what the Lab does not have is said with \
    element\nand line. Files that a scenario or plan names are looked for beside it.\n\n\
    Exit codes:\n  0  PASS, QUICK\n  1  FAIL: a threshold is broken\n  2  the scenario or plan has errors\n  \
    3  INVALID: what was measured cannot be believed, or was interrupted\n  4  UNSTABLE: the server never \
    became steady\n  5  REGRESSION: slower than the baseline\n\n\
    Examples:\n  weir lab run toro\n  weir lab run mware --target https://gateway:8243 --quick\n  \
    weir lab run scenario.yaml --out results/today --baseline results/yesterday\n  \
    weir lab run scenario.yaml --set load.0.duration=10s --json\n  \
    weir lab run plan.jmx -Jusers=100 -Jduration=60 --jtl results.jtl"
)]
pub(crate) struct Args {
    /// A scenario file, a plan (.jmx), or the name of a suite (see `weir lab suites`)
    #[arg(value_name = "FILE|SUITE")]
    what: PathBuf,
    /// Base URL of a server that is there already; the Lab starts none then
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Short rounds of a reduced matrix, to see that things work: never a headline
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The whole, as long as it takes
    #[arg(long)]
    full: bool,
    /// Set a value of the scenario, as YAML; may be repeated (`--set load.0.vus=50`)
    #[arg(long, value_name = "PATH=VALUE", value_parser = crate::source::parse_set)]
    set: Vec<(String, String)>,
    /// Folder for the results [default: lab-results/NAME-TIME]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of a run to compare with
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,
    /// Property of a plan, `name=value`; may be repeated
    #[arg(short = 'J', value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Skip what the Lab does not have of a plan, and say so
    #[arg(long)]
    lenient: bool,
    /// Write a row for each sample of a plan into this file, as JMeter does
    #[arg(short = 'l', long, value_name = "FILE")]
    jtl: Option<PathBuf>,
    /// Threads [default: half of the cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print a line a second and the result as the last line, as JSON
    #[arg(long)]
    json: bool,
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write name=value".to_owned()),
    }
}

impl Args {
    fn level(&self) -> Level {
        match (self.quick, self.full) {
            (true, _) => Level::Quick,
            (_, true) => Level::Full,
            _ => Level::Usual,
        }
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.what.extension().is_some_and(|extension| extension == "jmx") {
        let others = args.target.is_some()
            || args.level() != Level::Usual
            || !args.set.is_empty()
            || args.out.is_some()
            || args.baseline.is_some();
        ensure!(
            !others,
            "--target, --quick, --full, --set, --out and --baseline are for scenarios; a plan has \
             properties (-J)"
        );
        return plan::run(args);
    }
    ensure!(
        args.properties.is_empty() && !args.lenient && args.jtl.is_none(),
        "-J, --lenient and --jtl are for JMeter plans; a scenario has --set"
    );
    scenario::run(args)
}
