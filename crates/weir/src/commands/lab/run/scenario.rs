//! A scenario file or a suite.

use super::{Args, SEED, VERSION, outcome};
use crate::commands::lab::progress::Progress;
use crate::commands::lab::signals;
use crate::exit::Exit;
use crate::{descriptors, findings, output};
use anyhow::Context;
use std::path::{Path, PathBuf};
use weir_lab::engine::Control;
use weir_lab::measure::with_max_rate;
use weir_lab::results::Run;
use weir_lab::runner::{self, Options, Step};
use weir_lab::scenario::{self, Level, Overrides, Server, Start};
use weir_lab::suite::Suite;

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = args.folder()?;
    let file = file(&args.what, &folder)?;
    let over =
        Overrides { level: args.level(), target: args.target.clone(), sets: args.set.clone() };
    let (scenario, found) = match scenario::load(&file, &over) {
        Ok((scenario, found)) => (Some(scenario), found),
        Err(found) => (None, found),
    };
    findings::print(&found);
    let Some(mut scenario) = scenario else { return Ok(Exit::Findings) };
    if let Some(most) = args.most {
        for cell in &mut scenario.cells {
            cell.program = with_max_rate(&cell.program, most);
        }
    }
    descriptors::raise_limit();
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    if let Some(time) = args.within {
        signals::within(&control, time).context("cannot start a thread")?;
    }
    if args.attended {
        signals::attended(&control).context("cannot start a thread")?;
    }
    let options = Options {
        weir: std::env::current_exe().context("the path of this program is unknown")?,
        folder,
        run: Run {
            target: scenario.target.base.clone(),
            server: match &scenario.server {
                Some(Server { start: Start::Weir(_), .. }) => VERSION.to_owned(),
                Some(Server { start: Start::Command(command), .. }) => command.join(" "),
                None => String::new(),
            },
            ..args.described(&file, scenario.name.clone())?
        },
        quick: args.level() == Level::Quick,
        baseline: args.baseline.clone(),
        loops: args.loops.number(),
        io: args.loops.io,
        seed: SEED,
    };
    let mut progress = Progress::new(args.json);
    let (summary, folder) = runner::run(&scenario, &options, &control, &mut |step| match step {
        Step::Activity(what) => progress.doing(what),
        Step::Round(name) => progress.round(name),
        Step::Load(event) => progress.show(event),
    })?;
    progress.end();
    if args.json {
        let mut line = summary.line();
        line["folder"] = folder.display().to_string().into();
        output::line(&line.to_string());
    } else {
        output::text(&outcome::text(&summary, &options.run.host));
        output::line(&format!("\n{}", folder.join("report.html").display()));
    }
    Ok(Exit::Lab(summary.verdict.exit_code()))
}

/// The scenario file. A suite is unpacked with its files into the results folder.
fn file(what: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    if what.exists() {
        return Ok(what.to_owned());
    }
    let Some(suite) = what.to_str().and_then(Suite::named) else {
        let names: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name).collect();
        let names = names.join(", ");
        anyhow::bail!("{}: neither a file nor a suite; suites: {names}", what.display());
    };
    let folder = folder.join("suite");
    suite.unpack(&folder).with_context(|| folder.display().to_string())
}
