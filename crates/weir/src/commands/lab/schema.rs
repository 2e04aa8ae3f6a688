//! `weir lab schema`: the JSON Schema of scenario files.

use crate::exit::Exit;
use crate::output;

/// Arguments of `weir lab schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Generated from the descriptions of the keys, which also validate \
        scenarios.\n\nExamples:\n  weir lab schema > lab.schema.json\n  \
    # yaml-language-server: $schema=lab.schema.json     (first line of a scenario)")]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_: &Args) -> anyhow::Result<Exit> {
    output::line(&serde_json::to_string_pretty(&weir_lab::scenario::schema())?);
    Ok(Exit::Success)
}
