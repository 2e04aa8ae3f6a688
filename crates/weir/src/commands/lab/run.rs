//! `weir lab run`: a scenario, a suite or a JMeter plan.

mod outcome;
mod plan;
mod scenario;

use super::agents::AgentsArgs;
use super::export::ExportArgs;
use super::load::Loops;
use super::plan_file::{PlanArgs, is_plan};
use crate::exit::Exit;
use anyhow::{Context, ensure};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weir_lab::redaction;
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
    Exit codes:\n  0  PASS, QUICK\n  1  FAIL: a threshold or a bar is not met, or a condition of \
    `stop` is\n  2  error: in the scenario or plan, or the run was not possible\n  \
    3  INVALID: the measurement is not valid, or was interrupted\n  4  UNSTABLE: no steady \
    state\n  5  REGRESSION: slower than the baseline\n\n\
    Examples:\n  weir lab run toro\n  weir lab run mware --target https://gateway:8243 --quick\n  \
    weir lab run scenario.yaml --out results/today --baseline results/yesterday\n  \
    weir lab run scenario.yaml --set load.0.duration=10s --json\n  \
    weir lab run plan.jmx -Jusers=100 -Jduration=60 --jtl results.jtl\n  \
    weir lab run scenario.yaml --agents a:7070,b:7070 --secret-file lab-key"
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
    /// Folder with earlier runs, of which the last ones of the same scenario are compared [default: the
    /// folder beside the results]
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
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
    #[command(flatten)]
    agents: AgentsArgs,
    #[command(flatten)]
    export: ExportArgs,
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

    /// The results folder, which must be new. The usual one is created.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let Some(folder) = &self.out else {
            let name = self.what.file_stem().unwrap_or(self.what.as_os_str()).to_string_lossy();
            let all = Path::new("lab-results");
            return usual_folder(all, &name, &jiff::Timestamp::now()).context("lab-results");
        };
        ensure!(
            !folder.join("run.json").exists(),
            "{} already has results; select another folder with --out",
            folder.display()
        );
        Ok(folder.clone())
    }

    /// Folder of earlier runs.
    fn history(&self, folder: &Path) -> PathBuf {
        let beside = || match folder.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        self.history.clone().unwrap_or_else(beside)
    }

    /// The content of `run.json` for a scenario or plan.
    fn described(&self, file: &Path, name: String) -> anyhow::Result<Run> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        // Plans have passwords in elements of many kinds.
        let scenario = match is_plan(file) {
            true => serde_json::Value::Null,
            false => redaction::scenario(&text).into(),
        };
        Ok(Run {
            lab: 1,
            id: run_id(&name),
            name,
            started: now_text(),
            command: ["weir".to_owned()].into_iter().chain(self.command()).collect(),
            version: VERSION.to_owned(),
            scenario_sha256: HEXLOWER.encode(digest.as_ref()),
            scenario,
            quick: self.level() == Level::Quick,
            host: Host::here(),
            ..Run::default()
        })
    }

    /// The arguments without secrets: properties of a plan may be secrets.
    fn command(&self) -> Vec<String> {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        for (name, value) in self.plan.all_properties() {
            if redaction::is_secret(name) {
                let whole = format!("{name}={value}");
                for argument in arguments.iter_mut().filter(|one| one.ends_with(&whole)) {
                    argument.truncate(argument.len() - value.len());
                    argument.push_str(redaction::REDACTED);
                }
            }
        }
        for (path, value) in &self.set {
            let is_secret = path.split('.').any(redaction::is_secret);
            let shown =
                if is_secret { redaction::REDACTED.to_owned() } else { redaction::body(value) };
            let whole = format!("{path}={value}");
            for argument in arguments.iter_mut().filter(|one| one.ends_with(&whole)) {
                argument.truncate(argument.len() - value.len());
                argument.push_str(&shown);
            }
        }
        arguments.iter_mut().for_each(|argument| self.export.redact(argument));
        arguments
    }
}

/// This weir.
const VERSION: &str = concat!("weir ", env!("CARGO_PKG_VERSION"));

/// Identifies a run in exported metrics: `toro-20260101-120000-3f9a`.
fn run_id(name: &str) -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    format!("{name}-{now}-{:04x}", fastrand::u16(..))
}

/// Creates `toro-20260101-120000` in the folder of all results, or the same with `-2`, `-3` and so on: runs
/// may start in the same second.
fn usual_folder(all: &Path, name: &str, now: &jiff::Timestamp) -> io::Result<PathBuf> {
    fs::create_dir_all(all)?;
    let first = format!("{name}-{}", now.strftime("%Y%m%d-%H%M%S"));
    for number in 1_u32.. {
        let folder = match number {
            1 => all.join(&first),
            _ => all.join(format!("{first}-{number}")),
        };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
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
        "-J, -D, --lenient, --jmeter and --jtl are for JMeter plans; a scenario has --set"
    );
    scenario::run(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_same_second_have_folders_of_their_own() {
        let results = tempfile::tempdir().unwrap();
        let all = results.path().join("lab-results");
        let create = || usual_folder(&all, "toro", &jiff::Timestamp::UNIX_EPOCH).unwrap();
        for name in ["toro-19700101-000000", "toro-19700101-000000-2", "toro-19700101-000000-3"] {
            assert_eq!(create(), all.join(name));
            assert!(all.join(name).is_dir());
        }
        fs::write(results.path().join("file"), "").unwrap();
        let inside = results.path().join("file");
        assert!(usual_folder(&inside, "toro", &jiff::Timestamp::UNIX_EPOCH).is_err());
    }
}
