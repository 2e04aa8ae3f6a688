//! `weir lab report`: writes the report of a folder again, or prints JMeter's tables of a results
//! file.

use super::results_file;
use crate::exit::Exit;
use crate::output;
use std::path::PathBuf;
use weir_lab::report;
use weir_lab::results::{StoredRun, ci_summary};

/// Arguments of `weir lab report`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the results in the folder of a run and writes report.html, a single file \
        that works offline. For a results file, prints the values of JMeter's Aggregate Report \
        and Summary Report.\n\n\
    Examples:\n  weir lab report results/\n  weir lab report results.jtl\n  \
    weir lab report --csv aggregate results.jtl\n  weir lab report results/ --markdown"
)]
pub(crate) struct Args {
    /// Folder of a finished run, or a results file of JMeter or of `weir lab run` (.jtl)
    folder: PathBuf,
    /// Print a table of a results file as CSV, like JMeter
    #[arg(long, value_enum, value_name = "TABLE")]
    csv: Option<results_file::Table>,
    /// Print the result of a folder as Markdown, for the summary of a continuous integration
    #[arg(long, conflicts_with = "csv")]
    markdown: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.folder.is_file() {
        return results_file::print(&args.folder, args.csv);
    }
    if args.markdown {
        let stored = StoredRun::read(&args.folder)?;
        output::text(&ci_summary::text(&stored.run, &stored.summary));
        return Ok(Exit::Success);
    }
    report::write(&args.folder)?;
    output::line(&args.folder.join("report.html").display().to_string());
    if !report::has_charts() {
        output::note("weir: this build has no charts; see `make report`");
    }
    Ok(Exit::Success)
}
