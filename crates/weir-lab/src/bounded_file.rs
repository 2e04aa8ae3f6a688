//! Reads files that must not be endless or very large.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

thread_local! {
    /// Files that this thread has read, while they are recorded.
    static READ: RefCell<Option<BTreeSet<PathBuf>>> = const { RefCell::new(None) };
}

/// Runs `read` and returns all files that it read on this thread: those of a scenario or plan.
pub fn recorded<R>(read: impl FnOnce() -> R) -> (R, BTreeSet<PathBuf>) {
    READ.set(Some(BTreeSet::new()));
    let result = read();
    (result, READ.take().unwrap_or_default())
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be read: {error}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

impl FileError {
    pub(crate) fn new(
        path: &Path,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { path: path.to_owned(), error: io::Error::other(error) }
    }
}

/// Reads a regular file of at most `max_bytes`: a pipe or a device may be endless.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    let read = || {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() || metadata.len() > max_bytes {
            let mebibytes = max_bytes >> 20;
            let reason = format!("not a regular file, or larger than {mebibytes} MiB");
            return Err(io::Error::other(reason));
        }
        std::fs::read(path)
    };
    READ.with_borrow_mut(|files| files.as_mut().map(|files| files.insert(path.to_owned())));
    read().map_err(|error| FileError { path: path.to_owned(), error })
}

/// Reads a text as [`read`] does, without its byte order mark. Invalid UTF-8 is replaced.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String, FileError> {
    let bytes = read(path, max_bytes)?;
    let text = String::from_utf8_lossy(bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes));
    Ok(text.into_owned())
}
