//! The history of the configuration: which one was in force since when, with its texts. Tables
//! `configuration` and `configuration_files`.
//!
//! Texts have redacted secrets, so that a configuration with another secret is the same one. What was put in
//! force again, by a restart or a reload, is no new entry. The newest [`MAX_ENTRIES`] are kept.

use crate::StoreError;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use utoipa::ToSchema;
use weir_model::UnixMicros;

/// Entries that are kept.
pub const MAX_ENTRIES: usize = 500;
/// Largest texts of a configuration together, in bytes; longer ones are not kept.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A configuration that was in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number, ascending; 0 in an entry to be written.
    pub number: i64,
    /// Digest: SHA-256, 64 hexadecimal digits.
    pub digest: String,
    /// Since when.
    pub at: UnixMicros,
    /// When another one was put in force; `None`: it is in force, or was until the process ended.
    pub until: Option<UnixMicros>,
    /// Who or what has put it in force.
    pub by: String,
    /// Version of the fleet's configuration; `None`: own files.
    pub version: Option<i64>,
    /// Findings, as JSON.
    pub findings: String,
}

/// A file of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptFile {
    /// Its path, or `--set path`; only the name of a script, schema or document.
    pub path: String,
    /// The text with redacted secrets; absent for scripts, schemas and documents, and for texts of more than
    /// 1 MiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// SHA-256 of the text, or of the content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

/// The history of a data folder.
#[derive(Debug)]
pub struct Configurations {
    data: PathBuf,
    connection: Mutex<Connection>,
}

impl Configurations {
    /// Opens the history of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = Mutex::new(crate::open(data)?);
        Ok(Self { data: data.to_owned(), connection })
    }

    /// Adds a configuration that is in force now, unless it was already.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, entry: &Entry, mut files: Vec<KeptFile>) -> Result<(), StoreError> {
        let texts = files.iter().filter_map(|file| file.text.as_ref());
        if texts.map(String::len).sum::<usize>() > MAX_TEXT_BYTES {
            files.iter_mut().for_each(|file| file.text = None);
        }
        let files = serde_json::to_string(&files).unwrap_or_default();
        let added = insert(&mut self.connection.lock(), entry, &files);
        added.map_err(|error| StoreError::database(&self.data, error))
    }
    /// The latest entries before the one with the number `before`, newest first, at most `limit`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn latest(&self, limit: usize, before: Option<i64>) -> Result<Vec<Entry>, StoreError> {
        let found = latest(&self.connection.lock(), limit, before);
        found.map_err(|error| StoreError::database(&self.data, error))
    }

    /// The files of a configuration; `None` if none has the digest.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn files(&self, digest: &str) -> Result<Option<Vec<KeptFile>>, StoreError> {
        let select = "SELECT files FROM configuration_files WHERE digest = ?";
        let connection = self.connection.lock();
        let text = connection.query_row(select, [digest], |row| row.get(0)).optional();
        let text: Option<String> = text.map_err(|error| StoreError::database(&self.data, error))?;
        Ok(text.map(|text| serde_json::from_str(&text).unwrap_or_default()))
    }
}

fn latest(
    connection: &Connection,
    limit: usize,
    before: Option<i64>,
) -> rusqlite::Result<Vec<Entry>> {
    let mut select = connection.prepare_cached(
        "SELECT number, digest, at, trigger_, version, findings,
                (SELECT next.at FROM configuration AS next WHERE next.number > one.number
                 ORDER BY next.number LIMIT 1)
             FROM configuration AS one WHERE number < ? ORDER BY number DESC LIMIT ?",
    )?;
    let before = before.unwrap_or(i64::MAX);
    select.query_map(params![before, limit as i64], entry)?.collect()
}

fn insert(connection: &mut Connection, entry: &Entry, files: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let last: Option<String> = transaction
        .query_row("SELECT digest FROM configuration ORDER BY number DESC LIMIT 1", [], |row| {
            row.get(0)
        })
        .optional()?;
    if last.as_deref() == Some(entry.digest.as_str()) {
        return Ok(());
    }
    let Entry { digest, at, by, version, findings, .. } = entry;
    transaction.execute(
        "INSERT INTO configuration (digest, at, trigger_, version, findings)
             VALUES (?, ?, ?, ?, ?)",
        params![digest, at.0, by, version, findings],
    )?;
    transaction.execute(
        "INSERT OR IGNORE INTO configuration_files (digest, files) VALUES (?, ?)",
        [digest.as_str(), files],
    )?;
    transaction.execute(
        "DELETE FROM configuration WHERE number <= (
                SELECT number FROM configuration ORDER BY number DESC LIMIT 1 OFFSET ?)",
        [MAX_ENTRIES as i64],
    )?;
    transaction.execute(
        "DELETE FROM configuration_files WHERE digest NOT IN (SELECT digest FROM configuration)",
        [],
    )?;
    transaction.commit()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let until: Option<u64> = row.get(6)?;
    Ok(Entry {
        number: row.get(0)?,
        digest: row.get(1)?,
        at: UnixMicros(row.get(2)?),
        by: row.get(3)?,
        version: row.get(4)?,
        findings: row.get(5)?,
        until: until.map(UnixMicros),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> (tempfile::TempDir, Configurations) {
        let data = tempfile::tempdir().unwrap();
        let history = Configurations::open(data.path()).unwrap();
        (data, history)
    }

    fn entry(digest: &str, at: u64) -> Entry {
        let (digest, by) = (digest.to_owned(), "files".to_owned());
        Entry { digest, at: UnixMicros(at), by, findings: "[]".to_owned(), ..Entry::default() }
    }

    fn file(text: &str) -> Vec<KeptFile> {
        let text = Some(text.to_owned());
        vec![KeptFile { path: "weir.yaml".to_owned(), text, ..KeptFile::default() }]
    }

    #[test]
    fn what_is_in_force_already_is_no_new_entry() {
        let (_data, history) = history();
        for (digest, at) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            history.add(&entry(digest, at), file(digest)).unwrap();
        }
        let all = history.latest(10, None).unwrap();
        let seen = all.iter().map(|one| (one.digest.as_str(), one.at.0, one.until.map(|at| at.0)));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [("a", 4, None), ("b", 3, Some(4)), ("a", 1, Some(3))]
        );
        assert_eq!(history.latest(1, Some(all[0].number)).unwrap(), [all[1].clone()]);
        assert_eq!(history.files("b").unwrap(), Some(file("b")));
        assert_eq!(history.files("c").unwrap(), None);
    }

    #[test]
    fn the_history_is_bounded_and_so_are_its_texts() {
        let (_data, history) = history();
        for number in 0..=MAX_ENTRIES {
            history.add(&entry(&number.to_string(), 1), file("x")).unwrap();
        }
        let all = history.latest(2 * MAX_ENTRIES, None).unwrap();
        assert_eq!((all.len(), all[MAX_ENTRIES - 1].digest.as_str()), (MAX_ENTRIES, "1"));
        assert_eq!(history.files("0").unwrap(), None, "its files are gone with it");
        history.add(&entry("long", 1), file(&"x".repeat(MAX_TEXT_BYTES + 1))).unwrap();
        assert_eq!(history.files("long").unwrap().unwrap()[0].text, None);
    }
}
