//! A JMeter plan.

use super::Args;
use crate::commands::lab::progress::Progress;
use crate::commands::lab::result::{Report, SERVER};
use crate::commands::lab::{is_local, rows, signals};
use crate::exit::Exit;
use crate::{descriptors, output};
use anyhow::Context;
use weir_lab::engine::{self, Control, Event, Options};
use weir_lab::jmx::{self, JmxError, Plan};
use weir_lab::observe::{Observer, listening_on};
use weir_lab::program::{Program, Step, Url};
use weir_lab::record::Clock;
use weir_lab::results::{Total, jmeter};
use weir_lab::tables::{self, AGGREGATE};

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = jmx::Options { properties: args.properties.clone(), lenient: args.lenient };
    let plan = match jmx::load(&args.what, &options) {
        Ok(plan) => plan,
        Err(JmxError::Problems(problems)) => {
            for problem in &problems {
                output::note(&format!("{}: {problem}", args.what.display()));
            }
            return Ok(Exit::Findings);
        }
        Err(error) => return Err(error.into()),
    };
    for skipped in &plan.skipped {
        output::note(&format!("{}: skipped: {skipped}", args.what.display()));
    }
    let report = load(args, plan)?;
    Ok(Exit::Lab(report.exit_code()))
}

/// Puts the plan's load on its servers.
fn load(args: &Args, plan: Plan) -> anyhow::Result<Report> {
    let program = plan.program;
    descriptors::raise_limit();
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    let clock = Clock::start();
    let writer = args.jtl.as_deref().map(|path| rows::file(path, &program, clock)).transpose()?;
    let sinks = writer.clone();
    let options = Options {
        loops: args.threads.unwrap_or(0),
        sinks: sinks.map(|writer| Box::new(move || writer.sink()) as _),
        clock,
        ..Options::default()
    };
    let names = program.labels.clone();
    let mut observer = Observer::new();
    for port in local_ports(&program) {
        observer.add_processes(SERVER, &listening_on(port));
    }
    observer.sample(0.0);
    let mut seen = Vec::new();
    let mut total = Total::new(names.len(), false);
    let mut progress = Progress::new(args.json);
    let summary = engine::run(program, &options, &control, &mut |event| {
        if let Event::Second(second) = event {
            total.add(second);
            seen.extend(observer.sample(second.second as f64 + 1.0));
        }
        progress.show(event);
    })?;
    progress.end();
    total.end_round(0);
    if let (Some(writer), Some(path)) = (&writer, &args.jtl) {
        writer.finish().with_context(|| path.display().to_string())?;
    }
    if !args.json {
        let columns: Vec<String> = AGGREGATE.iter().map(|&name| name.to_owned()).collect();
        let lines = jmeter::rows(&total.figures(&names), total.window(), tables::Report::Aggregate);
        output::text(&format!("\n{}", tables::aligned(&columns, &lines)));
    }
    let report = Report::new(None, &summary, &total, &names, &seen);
    report.print(args.json);
    Ok(report)
}

/// Ports of this machine that the program's requests go to: the servers there can be watched.
fn local_ports(program: &Program) -> Vec<u16> {
    fn visit(steps: &[Step], ports: &mut Vec<u16>) {
        for step in steps {
            match step {
                Step::Request(request) => {
                    if let Url::Parts { origin, .. } = &request.url
                        && is_local(&origin.host)
                        && !ports.contains(&origin.port)
                    {
                        ports.push(origin.port);
                    }
                }
                Step::Loop { steps, .. } | Step::Once(steps) | Step::Transaction { steps, .. } => {
                    visit(steps, ports);
                }
                _ => {}
            }
        }
    }
    let mut ports = Vec::new();
    program.groups.iter().for_each(|group| visit(&group.steps, &mut ports));
    ports
}
