//! `weir lab`: load and measurement.

mod compare;
mod gc;
mod hist;
mod hit;
mod merge;
mod progress;
mod report;

use crate::exit::Exit;

/// Commands of the Lab.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Put load on one URL: what ab, wrk and hey do
    Hit(hit::Args),
    /// Compare two runs, case by case
    Compare(compare::Args),
    /// Make the report of a run's folder again
    Report(report::Args),
    /// Add up histogram logs of several generators
    Merge(merge::Args),
    /// Print percentiles of a histogram log
    Hist(hist::Args),
    /// Print how long a JVM paused to collect garbage
    Gc(gc::Args),
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hit(args) => hit::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Hist(args) => hist::run(args),
        Command::Gc(args) => gc::run(args),
    }
}
