//! JMeter's tables of a results file.

use crate::exit::Exit;
use crate::output;
use crate::table::aligned;
use anyhow::Context;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use weir_lab::jtl;
use weir_lab::tables::{Report, Tables};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Table {
    /// Percentiles
    Aggregate,
    /// Deviations and bytes
    Summary,
}

/// Prints both tables of a results file, or one of them as CSV.
pub(super) fn print(path: &Path, csv: Option<Table>) -> anyhow::Result<Exit> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut tables = Tables::default();
    jtl::read(BufReader::new(file), |row| tables.add(row))
        .with_context(|| path.display().to_string())?;
    let text = |report: Report| aligned(&report.columns(), &tables.rows(report));
    let Some(table) = csv else {
        let (aggregate, summary) = (text(Report::Aggregate), text(Report::Summary));
        output::text(&format!("{aggregate}\n{summary}"));
        return Ok(Exit::Success);
    };
    let report = match table {
        Table::Aggregate => Report::Aggregate,
        Table::Summary => Report::Summary,
    };
    let mut out = Vec::new();
    report.write(&mut out, tables.rows(report))?;
    output::text(&String::from_utf8_lossy(&out));
    Ok(Exit::Success)
}
