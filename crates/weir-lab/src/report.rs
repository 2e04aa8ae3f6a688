//! `report.html`: the complete report of a run in one offline file.
//!
//! Verdict, tables and the charts of cases and rounds need no script ([`page`], [`tables`],
//! [`drawing`]). uPlot draws the charts over time with the embedded [`data`]. If weir was built
//! without uPlot (see [`LIBRARY`]), the page explains how to add it.

mod bars;
mod charts;
mod data;
mod drawing;
mod exports;
mod html;
mod over_time;
mod page;
mod sentence;
mod tables;

pub use charts::{bar_chart, overview_chart};

use crate::results::{FolderError, StoredRun};
use std::fs;
use std::path::Path;

/// The chart library's files.
struct Library {
    script: &'static str,
    style: &'static str,
    license: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Whether this build includes the chart library.
#[must_use]
pub fn has_charts() -> bool {
    LIBRARY.is_some()
}

/// Writes the report of a finished run from its folder. Missing files (series, observations,
/// events) leave their part of the report empty.
///
/// # Errors
/// The folder has no finished run, or the report cannot be written.
pub fn write(folder: &Path) -> Result<(), FolderError> {
    let stored = StoredRun::read(folder)?;
    let path = folder.join("report.html");
    fs::write(&path, page::page(&stored)).map_err(|source| FolderError::File { path, source })
}
