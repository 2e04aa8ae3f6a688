//! `weir lab hit`: load on one URL.

mod args;

pub(crate) use args::Args;

use super::load::Load;
use super::result::Report;
use crate::exit::Exit;

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (program, origin) = args.program()?;
    let ports = if origin.is_loopback() { vec![origin.port] } else { Vec::new() };
    let load = Load {
        program,
        ports: &ports,
        loops: args.loops,
        jtl: args.jtl.as_deref(),
        json: args.json,
        open: args.rate.is_some(),
        agents: None,
        export: None,
    };
    let loaded = load.run(None)?;
    let schedule = args.rate.map(|rate| (rate, args.quantum));
    let report = Report::new(schedule, &loaded);
    report.print(args.json, None);
    Ok(Exit::Lab(report.exit_code()))
}
