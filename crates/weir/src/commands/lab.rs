//! `weir lab`: load and measurement.

mod check;
mod compare;
mod gc;
mod hist;
mod hit;
mod load;
mod merge;
mod progress;
mod report;
mod result;
mod results_file;
mod run;
mod schema;
mod signals;
mod suites;

use crate::exit::Exit;

/// Commands of the Lab.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Put load on one URL: what ab, wrk and hey do
    Hit(hit::Args),
    /// Run a scenario, a suite or a JMeter plan
    Run(run::Args),
    /// List the published tests that are built in
    Suites(suites::Args),
    /// Check a scenario and print everything that is wrong with it
    Check(check::Args),
    /// Compare two runs, case by case
    Compare(compare::Args),
    /// Make the report of a run's folder again, or JMeter's tables of its results file
    Report(report::Args),
    /// Add up histogram logs of several generators
    Merge(merge::Args),
    /// Print percentiles of a histogram log
    Hist(hist::Args),
    /// Print the JSON Schema of scenario files
    Schema(schema::Args),
    /// Print how long a JVM paused to collect garbage
    Gc(gc::Args),
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hit(args) => hit::run(args),
        Command::Run(args) => run::run(args),
        Command::Suites(args) => suites::run(args),
        Command::Check(args) => check::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Hist(args) => hist::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Gc(args) => gc::run(args),
    }
}

/// Whether a host is this machine, whose processes can be watched.
fn is_local(host: &str) -> bool {
    let loopback = |ip: std::net::IpAddr| ip.is_loopback();
    host == "localhost" || host.parse().is_ok_and(loopback)
}

/// Parses requests a second for clap.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let valid = |rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= 10_000_000.0;
    number
        .parse()
        .ok()
        .filter(valid)
        .ok_or_else(|| format!("'{text}' is no rate; write it like 500 or 500/s"))
}
