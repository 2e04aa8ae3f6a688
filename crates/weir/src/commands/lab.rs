//! `weir lab`: load and measurement.

mod hit;
mod progress;

use crate::exit::Exit;

/// Commands of the Lab.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Put load on one URL: what ab, wrk and hey do
    Hit(hit::Args),
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hit(args) => hit::run(args),
    }
}
