//! `weir man`: the manual pages, generated from the command line's own description.

use super::cli::Cli;
use crate::output;
use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;

/// Arguments of `weir man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes weir.1, and a page for each subcommand, as weir-serve.1.

Examples:
  weir man ~/.local/share/man/man1
  weir man . && man -l weir-serve.1")]
pub(crate) struct Args {
    /// Folder; it is created if necessary
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cannot = || format!("cannot write manual pages to {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).with_context(cannot)?;
    output::line(&format!("wrote the manual pages to {}", args.folder.display()));
    Ok(())
}
