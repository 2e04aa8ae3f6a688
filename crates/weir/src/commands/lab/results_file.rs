//! JMeter's tables of a results file.

use crate::exit::Exit;
use crate::output;
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
    match csv {
        Some(Table::Aggregate) => output::text(&tables.csv(Report::Aggregate)),
        Some(Table::Summary) => output::text(&tables.csv(Report::Summary)),
        None => {
            output::text(&tables.text(Report::Aggregate));
            output::text("\n");
            output::text(&tables.text(Report::Summary));
        }
    }
    Ok(Exit::Success)
}
