//! The report for people.
use crate::results::FolderError;
use std::path::Path;
/// Writes the report of a folder.
///
/// # Errors
/// It cannot be written.
pub fn write(_path: &Path) -> Result<(), FolderError> {
    Ok(())
}
