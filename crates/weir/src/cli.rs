//! The command line as a whole.

use crate::commands::Command;
use clap::Parser;

/// Hosts, fronts, records, meters and measures REST traffic.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes:\n  \
        0  done\n  \
        1  it could not be done; standard error says why\n  \
        2  the command line or the configuration is wrong\n  \
        3  to 5: what the Lab says of a run (INVALID, UNSTABLE, REGRESSION; 1 is FAIL)\n\n\
        Examples:\n  \
        weir serve                        serve ./weir.yaml\n  \
        weir check examples/quickstart    say everything that is wrong with a configuration\n  \
        weir serve --json --listen 127.0.0.1:0 --admin 127.0.0.1:0 weir.yaml"
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
