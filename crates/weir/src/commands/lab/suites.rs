//! `weir lab suites`: built-in published tests.

use crate::exit::Exit;
use crate::output;
use crate::table::table;
use anyhow::Context;
use weir_lab::suite::Suite;

/// Arguments of `weir lab suites`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A suite starts this weir with the configuration of an example, or runs with \
        --target\n\
    against another server with the same paths.\n\n\
    Examples:\n  weir lab suites\n  weir lab run toro\n  weir lab run toro --quick\n  \
    weir lab suites toro > own.yaml      (the scenario, for changes)"
)]
pub(crate) struct Args {
    /// Print the scenario of this suite
    name: Option<String>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(name) = &args.name {
        let suite = Suite::named(name).with_context(|| format!("unknown suite {name:?}"))?;
        output::text(suite.scenario);
        return Ok(Exit::Success);
    }
    let rows = Suite::ALL.map(|suite| {
        let [quick, usual, full] = suite.lengths.map(str::to_owned);
        [suite.name.to_owned(), quick, usual, full, suite.about.to_owned()]
    });
    output::text(&table(["SUITE", "--quick", "USUAL", "--full", "WHAT"], &rows));
    Ok(Exit::Success)
}
