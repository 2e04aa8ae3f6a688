//! `weir lab report`: writes the report of a folder again, or prints JMeter's tables of a results
//! file.

use super::results_file;
use crate::exit::Exit;
use crate::output;
use std::path::PathBuf;
use weir_lab::report;

/// Arguments of `weir lab report`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the results in the folder of a run and writes report.html, a single file \
        that works offline. For a results file, prints the values of JMeter's Aggregate Report \
        and Summary Report.\n\n\
    Examples:\n  weir lab report results/\n  weir lab report results.jtl\n  \
    weir lab report --csv aggregate results.jtl"
)]
pub(crate) struct Args {
    /// Folder of a finished run, or a results file of JMeter or of `weir lab run` (.jtl)
    folder: PathBuf,
    /// Print a table of a results file as CSV, like JMeter
    #[arg(long, value_enum, value_name = "TABLE")]
    csv: Option<results_file::Table>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.folder.is_file() {
        return results_file::print(&args.folder, args.csv);
    }
    report::write(&args.folder)?;
    output::line(&args.folder.join("report.html").display().to_string());
    if !report::has_charts() {
        output::note("weir: this build has no charts; see `make report`");
    }
    Ok(Exit::Success)
}
