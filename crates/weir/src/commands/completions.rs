//! `weir completions`: a completion script for a shell.

use super::cli::Cli;
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `weir completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    weir completions bash > /etc/bash_completion.d/weir\n  \
    weir completions zsh > ~/.zfunc/_weir\n  \
    weir completions fish > ~/.config/fish/completions/weir.fish")]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weir", &mut script);
    output::text(&String::from_utf8_lossy(&script));
    Ok(())
}
