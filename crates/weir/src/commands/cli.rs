//! The command line.

use super::Command;
use clap::Parser;

/// Gateway that hosts, proxies, records, meters and load-tests REST traffic.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes:\n  \
        0  success\n  \
        1  failure; the reason is on standard error\n  \
        2  error in the command line or the configuration\n  \
        3  to 5: verdict of a load test (INVALID, UNSTABLE, REGRESSION; 1 is FAIL)\n\n\
        Examples:\n  \
        weir serve                        serve ./weir.yaml\n  \
        weir check examples/martini       report all errors of a configuration\n  \
        weir search 'status:>=500'        search recorded transactions\n  \
        weir jwt keypair examples/quickstart/keys && weir check examples/quickstart\n  \
        weir serve --json --listen 127.0.0.1:0 --admin 127.0.0.1:0 weir.yaml\n\n\
        Environment:\n  \
        WEIR_ADMIN       admin listener that commands query, http[s]://HOST:PORT\n  \
        WEIR_TOKEN       token of the admin API\n  \
        WEIR_CONTEXT     context that commands use (`weir context`)\n  \
        NO_COLOR, CLICOLOR_FORCE  no colours; colours in pipes, too"
)]
pub(crate) struct Cli {
    /// Subcommand.
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
