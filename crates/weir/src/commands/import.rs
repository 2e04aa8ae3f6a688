//! `weir import`: generates a configuration from an API description.

use crate::exit::Exit;
use crate::{findings, output};
use anyhow::Context;
use std::path::PathBuf;
use weir_config::{CompileSchemas, ImportHandler, import_openapi};
use weir_validate::Schemas;

/// Formats to import.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Generate a configuration for an OpenAPI document (3.0 or 3.1)
    Openapi(Openapi),
}

/// Arguments of `weir import openapi`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every operation gets a route; operations left out are listed with the reason.\n\
    The configuration refers to the document, which is not changed.\n\n\
    Exit codes:\n  0  written\n  \
    2  the document is unreadable, or none of its operations is supported\n\n\
    Examples:\n  weir import openapi orders.yaml > weir.yaml\n  \
    weir import openapi orders.yaml --mock --output weir.yaml"
)]
pub(crate) struct Openapi {
    /// OpenAPI document, in YAML or JSON
    file: PathBuf,
    /// Mock: respond with the examples of the document
    #[arg(long, conflicts_with = "upstream")]
    mock: bool,
    /// Upstream URL [default: the first server of the document]
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Output file [default: standard output]; existing files are not overwritten
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let Command::Openapi(args) = command;
    let handler = if args.mock {
        ImportHandler::Mock
    } else {
        ImportHandler::Upstream(args.upstream.clone())
    };
    // For their findings.
    let compile: CompileSchemas =
        |sources, documents, report| drop(Schemas::compile(sources, documents, report));
    let Some(imported) = findings::accepted(import_openapi(&args.file, &handler, compile)) else {
        return Ok(Exit::Findings);
    };
    match &args.output {
        Some(path) => {
            let mut file = std::fs::File::create_new(path)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            std::io::Write::write_all(&mut file, imported.text.as_bytes())?;
        }
        None => output::text(&imported.text),
    }
    let operations = findings::count(imported.bound, "operation");
    output::note(&format!("{operations} with routes, {} left out", imported.left_out.len()));
    for (name, why) in &imported.left_out {
        output::note(&format!("left out: {name}: {why}"));
    }
    Ok(if imported.bound > 0 { Exit::Success } else { Exit::Findings })
}
