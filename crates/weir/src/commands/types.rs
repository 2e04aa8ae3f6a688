//! `weir types`: type declarations for scripts.

use crate::output;

/// Arguments of `weir types`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Editors complete and check scripts with them:\n\n\
    Examples:\n  weir types > scripts/weir.d.ts")]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    output::line(weir_script::TYPES.trim_end());
    Ok(())
}
