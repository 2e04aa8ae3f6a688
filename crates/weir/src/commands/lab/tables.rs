//! `weir lab tables`: bars and figures of runs as Markdown.

use crate::exit::Exit;
use crate::output;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use weir_lab::report::{bar_chart, overview_chart};
use weir_lab::results::markdown::Charts;
use weir_lab::results::{Run, StoredRun, Summary, markdown, page};

/// Arguments of `weir lab tables`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints tables of bars and of figures of all cases in Markdown. With --page, \
    writes them into a page, between\nthe lines <!-- lab:begin --> and <!-- lab:end -->; sections of other runs stay \
    there.\n\n\
    Examples:\n  weir lab tables results/*\n  weir lab tables --page docs/performance.md --charts docs/performance results/*"
)]
pub(crate) struct Args {
    /// Folders of finished runs
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Page with marks, between which the tables are written
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Folder for SVG charts of the ratios, which the page shows: one for each run, and overview.svg if the runs are
    /// all of the page
    #[arg(long, value_name = "FOLDER", requires = "page")]
    charts: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runs =
        args.folders.iter().map(|folder| StoredRun::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> = runs.iter().map(|stored| (&stored.run, &stored.summary)).collect();
    let Some(path) = &args.page else {
        output::line(&markdown::tables(&runs));
        return Ok(Exit::Success);
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let charts = match &args.charts {
        Some(folder) => charts(&runs, folder, path, page::has_others(&text, &runs))?,
        None => Charts::default(),
    };
    let Some(text) = page::updated(&text, &runs, &charts) else {
        bail!("{}: the lines {} and {} are missing", path.display(), page::BEGIN, page::END);
    };
    std::fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(Exit::Success)
}

/// Draws the charts of the runs, and that of all if they are all of the page. Returns their addresses, relative to
/// the page.
fn charts(
    runs: &[(&Run, &Summary)],
    folder: &Path,
    page: &Path,
    has_others: bool,
) -> anyhow::Result<Charts> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let write = |name: &str, svg: Option<String>| -> anyhow::Result<Option<String>> {
        let Some(svg) = svg else { return Ok(None) };
        let unsafe_in_name = |c: char| !c.is_alphanumeric() && c != '-';
        let path = folder.join(format!("{}.svg", name.replace(unsafe_in_name, "-")));
        std::fs::write(&path, svg).with_context(|| path.display().to_string())?;
        let parent = page.parent().unwrap_or(Path::new(""));
        let address = path.strip_prefix(parent).unwrap_or(&path);
        Ok(Some(address.to_string_lossy().into_owned()))
    };
    let bars = runs.iter().flat_map(|(_, summary)| &summary.bars);
    let overview = if has_others { None } else { overview_chart(bars) };
    let mut charts = Charts { overview: write("overview", overview)?, ..Charts::default() };
    for (run, summary) in runs {
        let address = write(&run.name, bar_chart(&run.name, &summary.bars))?;
        charts.runs.extend(address.map(|address| (run.name.clone(), address)));
    }
    Ok(charts)
}
