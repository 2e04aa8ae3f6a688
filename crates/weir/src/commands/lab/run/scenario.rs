//! A scenario file or a suite.

use super::{Args, outcome};
use crate::commands::lab::progress::Progress;
use crate::commands::lab::signals;
use crate::exit::Exit;
use crate::{descriptors, findings, output};
use anyhow::{Context, ensure};
use aws_lc_rs::digest;
use std::path::{Path, PathBuf};
use weir_lab::engine::Control;
use weir_lab::results::{Host, Run};
use weir_lab::runner::{self, Options, Step, now_text};
use weir_lab::scenario::{self, Level, Over, Scenario, Server, Start};
use weir_lab::suite::Suite;

/// Largest loss against a baseline that is none.
const MARGIN: f64 = 0.05;
/// Decides what is random, so that a run can be repeated.
const SEED: u64 = 0x5EED;

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => usual_folder(&args.what),
    };
    ensure!(
        !folder.join("run.json").exists(),
        "{} has results already; name another folder with --out",
        folder.display()
    );
    let file = file(&args.what, &folder)?;
    let over = Over { level: args.level(), target: args.target.clone(), sets: args.set.clone() };
    let scenario = match scenario::load(&file, &over) {
        Ok((scenario, found)) => {
            findings::print(&found);
            scenario
        }
        Err(found) => {
            findings::print(&found);
            return Ok(Exit::Findings);
        }
    };
    descriptors::raise_limit();
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    let options = Options {
        weir: std::env::current_exe().context("where this program is cannot be found out")?,
        folder,
        run: described(&scenario, &file, args.level())?,
        quick: args.level() == Level::Quick,
        baseline: args.baseline.clone().map(|path| (path, MARGIN)),
        loops: args.threads.unwrap_or(0),
        seed: SEED,
    };
    let mut progress = Progress::new(args.json);
    let (summary, folder) = runner::run(&scenario, &options, &control, &mut |step| match step {
        Step::Doing(what) => progress.doing(what),
        Step::Round(name) => progress.round(name),
        Step::Load(event) => progress.show(event),
    })?;
    progress.end();
    if args.json {
        let mut line = summary.line();
        line["folder"] = folder.map(|path| path.display().to_string()).into();
        output::line(&line.to_string());
    } else {
        output::text(&outcome::text(&summary, &options.run.host));
        if let Some(folder) = folder {
            output::line(&format!("\n{}", folder.join("report.html").display()));
        }
    }
    Ok(Exit::Lab(summary.verdict.exit_code()))
}

/// `lab-results/toro-20260101-120000`.
fn usual_folder(what: &Path) -> PathBuf {
    let name = what.file_stem().unwrap_or(what.as_os_str()).to_string_lossy();
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    Path::new("lab-results").join(format!("{name}-{now}"))
}

/// The scenario's file: a suite's is unpacked among the results, with what it needs.
fn file(what: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    if what.exists() {
        return Ok(what.to_owned());
    }
    let Some(suite) = what.to_str().and_then(Suite::named) else {
        let names: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name).collect();
        let names = names.join(", ");
        anyhow::bail!("{}: no such file, and no suite; suites are {names}", what.display());
    };
    let folder = folder.join("suite");
    suite.unpack(&folder).with_context(|| folder.display().to_string())
}

/// What `run.json` says.
fn described(scenario: &Scenario, file: &Path, level: Level) -> anyhow::Result<Run> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let hexadecimal = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let version = concat!("weir ", env!("CARGO_PKG_VERSION"));
    Ok(Run {
        lab: 1,
        name: scenario.name.clone(),
        started: now_text(),
        command: ["weir".to_owned()].into_iter().chain(std::env::args().skip(1)).collect(),
        version: version.to_owned(),
        scenario_sha256: hexadecimal,
        scenario: text.into(),
        target: scenario.target.base.clone(),
        server: match &scenario.server {
            Some(Server { start: Start::Weir(_), .. }) => version.to_owned(),
            Some(Server { start: Start::Command(command), .. }) => command.join(" "),
            None => String::new(),
        },
        quick: level == Level::Quick,
        host: Host::here(),
        ..Run::default()
    })
}
