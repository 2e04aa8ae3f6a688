//! Files whose names are known while a program runs.

use super::{FeederId, Scope, Text};
use crate::bounded_file::{self, FileError};
use crate::charset::Charset;
use crate::feeder::{CsvFile, FeederError, Table};
use bytes::Bytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest sent file.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;
/// Bytes of files that are kept. Further ones are read for each request.
const MAX_KEPT_BYTES: usize = 512 << 20;
/// Most files of rows of a run.
const MAX_TABLES: usize = 10_000;

/// Name of a file that may change.
#[derive(Clone, Debug, PartialEq)]
pub struct FileName {
    /// Folder of relative names.
    pub folder: PathBuf,
    /// The name.
    pub name: Text,
}

impl FileName {
    /// The file.
    pub(crate) fn path(&self, scope: &mut Scope<'_>) -> PathBuf {
        self.folder.join(&*self.name.render(scope))
    }
}

/// Rows of a file that is read when the first user needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsFile {
    /// Name of the file, evaluated once for each user.
    pub name: FileName,
    /// Its format; the path is unused.
    pub format: CsvFile,
    /// Its encoding.
    pub encoding: Charset,
}

/// Rows of a file, and how many of them were consumed: by all users, then by each group.
#[derive(Debug)]
pub(super) struct OpenRows {
    pub(super) rows: Vec<Vec<Box<str>>>,
    pub(super) consumed: Vec<AtomicU64>,
}

/// Files that users have read.
#[derive(Debug, Default)]
pub(super) struct Files {
    contents: Mutex<(usize, HashMap<PathBuf, Bytes>)>,
    rows: Mutex<HashMap<(FeederId, PathBuf), Arc<OpenRows>>>,
}

impl Files {
    /// The content of a file.
    pub(super) fn read(&self, path: &Path) -> Result<Bytes, FileError> {
        let mut known = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = known.1.get(path) {
            return Ok(bytes.clone());
        }
        let bytes = Bytes::from(bounded_file::read(path, MAX_FILE_BYTES)?);
        if known.0 + bytes.len() <= MAX_KEPT_BYTES {
            known.0 += bytes.len();
            known.1.insert(path.to_owned(), bytes.clone());
        }
        Ok(bytes)
    }

    /// The rows of a file for a feeder.
    pub(super) fn rows(
        &self,
        feeder: FeederId,
        (path, file): (PathBuf, &RowsFile),
        groups: usize,
    ) -> Result<Arc<OpenRows>, FeederError> {
        let mut known = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = known.get(&(feeder, path.clone())) {
            return Ok(rows.clone());
        }
        if known.len() >= MAX_TABLES {
            return Err(FeederError::TooMany);
        }
        let format = CsvFile { path: path.clone(), ..file.format.clone() };
        let Table { rows, .. } = format.read_rows(file.encoding)?;
        let consumed = (0..=groups).map(|_| AtomicU64::new(0)).collect();
        let rows = Arc::new(OpenRows { rows, consumed });
        known.insert((feeder, path), rows.clone());
        Ok(rows)
    }
}
