//! The command line.

use super::Command;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

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

/// Parses the command line. An invalid one ends the process with exit code 2 and a message.
pub(crate) fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let is_unknown = error.kind() == ErrorKind::UnknownArgument;
        let misspelt = is_unknown.then(|| misspelt(std::env::args().skip(1))).flatten();
        misspelt.unwrap_or(error).exit()
    })
}

/// The error of a misspelt option, in commands whose query may begin with a hyphen: clap takes the
/// option for the query, and rejects what follows (`weir search --limt 1`).
fn misspelt(mut arguments: impl Iterator<Item = String>) -> Option<clap::Error> {
    let mut command = Cli::command();
    let command = command.find_subcommand_mut(arguments.next()?)?;
    command.get_positionals().find(|argument| argument.is_allow_hyphen_values_set())?;
    let unknown = arguments.filter_map(|argument| {
        let name = argument.strip_prefix("--")?.split('=').next()?.to_owned();
        let is_known = command.get_arguments().any(|known| known.get_long() == Some(&name));
        (!name.is_empty() && name != "help" && !is_known).then_some(name)
    });
    let name = unknown.take(1).next()?;
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let tip = weir_document::finding::nearest(&name, known.into_iter())
        .map(|near| format!("\n\n  tip: a similar argument exists: '--{near}'"));
    let text = format!("unexpected argument '--{name}' found{}", tip.unwrap_or_default());
    Some(command.error(ErrorKind::UnknownArgument, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_misspelt_option_before_a_value_has_a_suggestion() {
        let message = |line: &str| {
            let error = misspelt(line.split(' ').map(str::to_owned));
            error.map(|error| error.to_string()).unwrap_or_default()
        };
        let limit = message("search --limt 1");
        assert!(limit.contains("'--limt' found") && limit.contains("'--limit'"), "{limit}");
        assert!(message("tail status:500 --jsn x").contains("'--json'"));
        assert!(!message("search --zzzzzzzz 1").contains("tip:"));
        assert_eq!(message("search a b --limit 1"), "");
        assert_eq!(message("serve --lissten x"), "");
    }
}
