//! `report.html`: one file that says everything about a run, without a network.
//!
//! Verdict, tables and the charts of cases and rounds are there without a script ([`page`],
//! [`tables`], [`drawing`]). Charts over time are drawn by uPlot from what [`data`] puts into the
//! page; if weir was built without it (see [`LIBRARY`]), the page says how to get them.

mod data;
mod drawing;
mod html;
mod page;
mod tables;

use crate::results::{FolderError, Stored};
use std::fs;
use std::path::Path;

/// The chart library's files.
struct Library {
    script: &'static str,
    style: &'static str,
    license: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Whether this build has the library that draws charts over time.
#[must_use]
pub fn has_charts() -> bool {
    LIBRARY.is_some()
}

/// Makes the report of a finished run, from what its folder holds. Files that a run may lack
/// (series, observations, events) leave their part of the report empty.
///
/// # Errors
/// The folder has no finished run, or the report cannot be written.
pub fn write(folder: &Path) -> Result<(), FolderError> {
    let stored = Stored::read(folder)?;
    let path = folder.join("report.html");
    fs::write(&path, page::page(&stored)).map_err(|source| FolderError::File { path, source })
}
