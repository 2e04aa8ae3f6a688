//! A scenario file or a suite.

use super::{Args, SEED, VERSION, outcome};
use crate::commands::lab::export;
use crate::commands::lab::progress::Progress;
use crate::commands::lab::signals;
use crate::exit::Exit;
use crate::{descriptors, findings, output};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use weir_lab::agents::Source;
use weir_lab::bounded_file;
use weir_lab::engine::Control;
use weir_lab::history;
use weir_lab::measure::with_max_rate;
use weir_lab::results::{History, Host, Run, Summary};
use weir_lab::runner::{self, Options, Step};
use weir_lab::scenario::{self, Level, Overrides, Server, Start};
use weir_lab::suite::Suite;

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let destinations = args.export.destinations()?;
    let (file, unpacked) = file(args)?;
    let over =
        Overrides { level: args.level(), target: args.target.clone(), sets: args.set.clone() };
    let (loaded, files) = bounded_file::recorded(|| scenario::load(&file, &over));
    let (scenario, found) = match loaded {
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
    if let Some(why) = scenario.needs_single_generator().filter(|_| args.agents.is_used()) {
        bail!("{why}");
    }
    let programs = scenario.cells.iter().map(|cell| &cell.program);
    let agents = args.agents.connect(&file, &files, source(args), programs)?;
    descriptors::raise_limit();
    let control = control(args)?;
    let options = Options {
        weir: std::env::current_exe().context("the path of this program is unknown")?,
        folder: unpacked.map_or_else(|| args.folder(), Ok)?,
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
        agents,
    };
    let mut export = args.export.start(destinations, &options.run, args.agents.addresses())?;
    let mut progress = Progress::new(args.json);
    let (summary, folder) = runner::run(&scenario, &options, &control, &mut |step| match step {
        Step::Activity(what) => progress.doing(what),
        Step::Round { case, name, program } => {
            progress.round(name);
            progress.program(program);
            if let Some(export) = &mut export {
                export.program(case, program);
            }
        }
        Step::Load(event) => {
            progress.show(event);
            if let Some(export) = &mut export {
                export.event(event, &mut progress);
            }
        }
    })?;
    progress.end();
    export::finish(export, &folder)?;
    let history = history::add(&folder, &args.history(&folder))?;
    if args.json {
        let mut line = summary.line();
        line["folder"] = folder.display().to_string().into();
        output::line(&line.to_string());
    } else {
        print(&summary, &options.run.host, history.as_ref(), &folder);
    }
    Ok(Exit::Lab(summary.verdict.exit_code()))
}

/// What ends the run early: signals, a time, the parent process.
fn control(args: &Args) -> anyhow::Result<Control> {
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    if let Some(time) = args.within {
        signals::within(&control, time).context("cannot start a thread")?;
    }
    if args.attended {
        signals::attended(&control).context("cannot start a thread")?;
    }
    Ok(control)
}

/// Prints the result as text.
fn print(summary: &Summary, host: &Host, history: Option<&History>, folder: &Path) {
    output::text(&outcome::text(summary, host));
    outcome::print_history(history);
    output::line(&format!("\n{}", folder.join("report.html").display()));
}

/// How agents read the scenario.
fn source(args: &Args) -> Source {
    let level = match args.level() {
        Level::Quick => "quick",
        Level::Usual => "usual",
        Level::Full => "full",
    };
    Source::Scenario {
        level: level.to_owned(),
        target: args.target.clone(),
        sets: args.set.clone(),
        max_rate: args.most,
    }
}

/// The scenario file. A suite is unpacked with its files into the results folder, which is returned, too.
fn file(args: &Args) -> anyhow::Result<(PathBuf, Option<PathBuf>)> {
    let what = &args.what;
    if what.exists() {
        return Ok((what.clone(), None));
    }
    let Some(suite) = what.to_str().and_then(Suite::named) else {
        let names: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name).collect();
        let names = names.join(", ");
        anyhow::bail!("{}: neither a file nor a suite; suites: {names}", what.display());
    };
    let results = args.folder()?;
    let folder = results.join("suite");
    let file = suite.unpack(&folder).with_context(|| folder.display().to_string())?;
    Ok((file, Some(results)))
}
