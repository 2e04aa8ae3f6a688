//! `weir lab hit`: load on one URL.

mod args;

pub(crate) use args::Args;

use super::progress::Progress;
use super::result::{Report, SERVER};
use super::{rows, signals};
use crate::descriptors;
use crate::exit::Exit;
use anyhow::Context;
use weir_lab::engine::{self, Control, Event, Options};
use weir_lab::observe::{Observer, listening_on};
use weir_lab::record::Clock;
use weir_lab::results::{ServerRow, Total};

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (program, origin) = args.program()?;
    descriptors::raise_limit();
    let control = Control::default();
    signals::stop(&control).context("cannot listen for signals")?;
    let mut observer = Observer::new();
    // On this machine the server can be watched: whether it or the generator was at its limit.
    if super::is_local(&origin.host) {
        observer.add_processes(SERVER, &listening_on(origin.port));
    }
    observer.sample(0.0);
    let mut rows: Vec<ServerRow> = Vec::new();
    let mut progress = Progress::new(args.json);
    let mut total = Total::new(program.labels.len(), args.rate.is_some());
    let clock = Clock::start();
    let writer = args.jtl.as_deref().map(|path| rows::file(path, &program, clock)).transpose()?;
    let options = Options {
        loops: args.threads.unwrap_or(0),
        sinks: writer.clone().map(|writer| Box::new(move || writer.sink()) as _),
        clock,
        ..Options::default()
    };
    let names = program.labels.clone();
    let summary = engine::run(program, &options, &control, &mut |event| {
        if let Event::Second(second) = event {
            total.add(second);
            rows.extend(observer.sample(second.second as f64 + 1.0));
        }
        progress.show(event);
    })?;
    progress.end();
    total.end_round(0);
    if let (Some(writer), Some(path)) = (&writer, &args.jtl) {
        writer.finish().with_context(|| path.display().to_string())?;
    }
    let report =
        Report::new(args.rate.map(|rate| (rate, args.quantum)), &summary, &total, &names, &rows);
    report.print(args.json);
    Ok(Exit::Lab(report.exit_code()))
}
