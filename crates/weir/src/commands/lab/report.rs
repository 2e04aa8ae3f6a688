//! `weir lab report`: the report of a folder, made again.

use crate::exit::Exit;
use crate::output;
use std::path::PathBuf;
use weir_lab::report;

/// Arguments of `weir lab report`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads what a run left in its folder and writes report.html there, one file that needs \
    no network.\n\nExample:\n  weir lab report results/"
)]
pub(crate) struct Args {
    /// Folder of a finished run
    folder: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    report::write(&args.folder)?;
    output::line(&args.folder.join("report.html").display().to_string());
    if !report::has_charts() {
        output::note(
            "weir: this build has no charts over time; `make report` says how to get them",
        );
    }
    Ok(Exit::Success)
}
