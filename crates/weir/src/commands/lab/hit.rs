//! `weir lab hit`: load on one URL.

mod args;
mod report;

pub(crate) use args::Args;

use super::progress::Progress;
use crate::descriptors;
use crate::exit::Exit;
use anyhow::Context;
use report::Report;
use tokio::signal::unix::{SignalKind, signal};
use weir_lab::engine::{self, Control, Event, Options};
use weir_lab::observe::{Observer, listening_on};
use weir_lab::results::{ServerRow, Total};

/// Name under which the server's processes are observed.
const SERVER: &str = "server";

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (program, origin) = args.program()?;
    descriptors::raise_limit();
    let control = Control::default();
    stop_on_signals(&control).context("cannot listen for signals")?;
    let mut observer = Observer::new();
    // On this machine the server can be watched: whether it or the generator was at its limit.
    if is_local(&origin.host) {
        observer.add_processes(SERVER, &listening_on(origin.port));
    }
    observer.sample(0.0);
    let mut rows: Vec<ServerRow> = Vec::new();
    let mut progress = Progress::new(args.json);
    let mut total = Total::new(program.labels.len(), args.rate.is_some());
    let options = Options { loops: args.threads.unwrap_or(0), ..Options::default() };
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
    let report = Report::new(args, &summary, &total, &names, &rows);
    report.print(args.json);
    Ok(Exit::Lab(report.exit_code()))
}

fn is_local(host: &str) -> bool {
    let loopback = |ip: std::net::IpAddr| ip.is_loopback();
    host == "localhost" || host.parse().is_ok_and(loopback)
}

/// The first signal lets what is under way end, the second does not.
fn stop_on_signals(control: &Control) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let control = control.clone();
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            for stop in [Control::stop, Control::stop_now] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                stop(&control);
            }
        });
    };
    std::thread::Builder::new().name("lab-signals".to_owned()).spawn(wait)?;
    Ok(())
}
