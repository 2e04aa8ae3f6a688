//! `weir lab run`: a scenario, a suite or a JMeter plan.

mod outcome;
mod plan;
mod scenario;

use super::load::Loops;
use super::plan_file::{PlanArgs, is_plan};
use crate::exit::Exit;
use anyhow::{Context, ensure};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use std::path::{Path, PathBuf};
use weir_lab::results::{Host, Run};
use weir_lab::runner::now_text;
use weir_lab::scenario::Level;

/// Seed of random numbers: runs are reproducible.
const SEED: u64 = 0x5EED;

/// Arguments of `weir lab run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Results and report.html are written to a folder. Without --target, the server \
        of the scenario is\nstarted; suites start this weir. Ctrl-C ends the load and prints the \
        partial result.\n\n\
    A plan (.jmx) runs as in JMeter 5.6; unsupported elements are reported with their line. \
    Relative paths\nrefer to the folder of the scenario or plan.\n\n\
    Exit codes:\n  0  PASS, QUICK\n  1  FAIL: a threshold is not met\n  2  error in the scenario \
    or plan\n  \
    3  INVALID: the measurement is not valid, or was interrupted\n  4  UNSTABLE: no steady \
    state\n  5  REGRESSION: slower than the baseline\n\n\
    Examples:\n  weir lab run toro\n  weir lab run mware --target https://gateway:8243 --quick\n  \
    weir lab run scenario.yaml --out results/today --baseline results/yesterday\n  \
    weir lab run scenario.yaml --set load.0.duration=10s --json\n  \
    weir lab run plan.jmx -Jusers=100 -Jduration=60 --jtl results.jtl"
)]
pub(crate) struct Args {
    /// Scenario file, JMeter plan (.jmx) or name of a suite (see `weir lab suites`)
    #[arg(value_name = "FILE|SUITE")]
    what: PathBuf,
    /// Base URL of a running server; without it, the Lab starts a server
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Short rounds of a reduced matrix, as a functional check: not for publication
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Full matrix and durations
    #[arg(long)]
    full: bool,
    /// Maximum requests per second, overriding the scenario
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    most: Option<f64>,
    /// End after this time, with a partial result
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    within: Option<std::time::Duration>,
    /// End at the end of standard input, when the parent process has gone or cancels
    #[arg(long, hide = true)]
    attended: bool,
    /// Set a value of the scenario, as YAML; may be repeated (`--set load.0.vus=50`)
    #[arg(long, value_name = "PATH=VALUE", value_parser = crate::source::parse_set)]
    set: Vec<(String, String)>,
    /// Results folder [default: lab-results/NAME-TIME]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of the baseline run
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanArgs,
    /// Write a JTL file (JMeter) with a row for each sample of a plan
    #[arg(short = 'l', long, value_name = "FILE")]
    jtl: Option<PathBuf>,
    #[command(flatten)]
    loops: Loops,
    /// Print one JSON line per second, and the result as the last line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn level(&self) -> Level {
        match (self.quick, self.full) {
            (true, _) => Level::Quick,
            (_, true) => Level::Full,
            _ => Level::Usual,
        }
    }

    /// The results folder, which must be new.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let folder = self.out.clone().unwrap_or_else(|| usual_folder(&self.what));
        ensure!(
            !folder.join("run.json").exists(),
            "{} already has results; select another folder with --out",
            folder.display()
        );
        Ok(folder)
    }

    /// The content of `run.json` for a scenario or plan.
    fn described(&self, file: &Path, name: String) -> anyhow::Result<Run> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        Ok(Run {
            lab: 1,
            name,
            started: now_text(),
            command: ["weir".to_owned()].into_iter().chain(self.command()).collect(),
            version: VERSION.to_owned(),
            scenario_sha256: HEXLOWER.encode(digest.as_ref()),
            scenario: text.into(),
            quick: self.level() == Level::Quick,
            host: Host::here(),
            ..Run::default()
        })
    }

    /// The arguments without secrets: properties of a plan may be secrets.
    fn command(&self) -> Vec<String> {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        for (name, value) in self.plan.properties() {
            let lower = name.to_ascii_lowercase();
            let words = ["pass", "secret", "token", "key", "auth"];
            if words.iter().any(|word| lower.contains(word)) {
                let whole = format!("{name}={value}");
                for argument in arguments.iter_mut().filter(|one| one.ends_with(&whole)) {
                    argument.truncate(argument.len() - value.len());
                    argument.push_str("***");
                }
            }
        }
        arguments
    }
}

/// This weir.
const VERSION: &str = concat!("weir ", env!("CARGO_PKG_VERSION"));

/// `lab-results/toro-20260101-120000`.
fn usual_folder(what: &Path) -> PathBuf {
    let name = what.file_stem().unwrap_or(what.as_os_str()).to_string_lossy();
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    Path::new("lab-results").join(format!("{name}-{now}"))
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if is_plan(&args.what) {
        let others = args.target.is_some() || args.level() != Level::Usual || !args.set.is_empty();
        let capped = args.most.is_some() || args.within.is_some() || args.attended;
        ensure!(
            !others && !capped,
            "--target, --quick, --full, --set, --most and --within are for scenarios; a plan has \
             properties (-J)"
        );
        return plan::run(args);
    }
    ensure!(
        args.plan.is_empty() && args.jtl.is_none(),
        "-J, --lenient and --jtl are for JMeter plans; a scenario has --set"
    );
    scenario::run(args)
}
