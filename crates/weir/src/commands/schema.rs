//! `weir schema`: the JSON Schema of the configuration.

use crate::output;

/// Arguments of `weir schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Generated from the descriptions of the keys, which also validate \
        configurations. Editors use it for completion and help:\n\n\
    Examples:\n  weir schema > weir.schema.json\n  \
    # yaml-language-server: $schema=weir.schema.json     (first line of weir.yaml)")]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    output::line(&serde_json::to_string_pretty(&weir_config::schema())?);
    Ok(())
}
