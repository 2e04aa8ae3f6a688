//! `weir lab`: load and measurement.

mod agent;
mod agents;
mod check;
mod compare;
mod export;
mod gc;
mod hist;
mod hit;
mod init;
mod load;
mod merge;
mod plan_file;
mod progress;
mod report;
mod result;
mod results_file;
mod run;
mod schema;
mod signals;
mod suites;
mod tables;

use crate::exit::Exit;
use crate::output;

/// Commands of the Lab.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Load-test one URL, like ab, wrk and hey
    Hit(hit::Args),
    /// Write a scenario for a URL or an OpenAPI document
    Init(init::Args),
    /// Run a scenario, a suite or a JMeter plan
    Run(Box<run::Args>),
    /// Generate a share of the load of a run with --agents on another machine
    Agent(agent::Args),
    /// List the built-in published load tests
    Suites(suites::Args),
    /// Check a scenario or a JMeter plan and report all errors and warnings
    Check(check::Args),
    /// Compare two runs by case
    Compare(compare::Args),
    /// Regenerate the report of a run, or print JMeter's tables of a results file
    Report(report::Args),
    /// Print bars and figures of runs as Markdown
    Tables(tables::Args),
    /// Merge histogram logs of several generators
    Merge(merge::Args),
    /// Print percentiles of a histogram log
    Hist(hist::Args),
    /// Print the JSON Schema of scenario files
    Schema(schema::Args),
    /// Print GC pauses of a JVM
    Gc(gc::Args),
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hit(args) => judged(hit::run(args)),
        Command::Init(args) => init::run(args),
        Command::Run(args) => judged(run::run(args)),
        Command::Agent(args) => agent::run(args),
        Command::Suites(args) => suites::run(args),
        Command::Check(args) => check::run(args),
        Command::Compare(args) => judged(compare::run(args)),
        Command::Report(args) => report::run(args),
        Command::Tables(args) => tables::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Hist(args) => hist::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Gc(args) => gc::run(args),
    }
}

/// The exit of a command whose exit code is a verdict: 1 is FAIL, so that an error has 2.
fn judged(found: anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    found.or_else(|error| {
        output::error(&output::with_causes(&error));
        Ok(Exit::Findings)
    })
}

/// Parses a rate for clap.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let valid = |rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= 10_000_000.0;
    number
        .parse()
        .ok()
        .filter(valid)
        .ok_or_else(|| format!("'{text}' is not a rate, such as 500 or 500/s"))
}
