//! A damaged database: detects the damage and moves the files aside.

use super::{FILE, shared_memory};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_journal::{if_exists, sync_folder};

/// Consequence and remedy of a damaged database.
pub(super) const HINT: &str = "weir.db is damaged. Nothing else has its audit, attempts, \
    resolutions, jobs, events that wait, prices, and counts older than the journal; `weir repair \
    --data DIR` moves it aside, and the next start counts again what the journal has";

/// Whether SQLite reports a damaged file, or one that is not a database.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The error of SQLite, with the remedy if the file is damaged.
#[must_use]
pub fn describe(error: &rusqlite::Error) -> String {
    if is_damage(error) { format!("{error}; {HINT}") } else { error.to_string() }
}

/// The damage of the database of a data folder; none if it is intact or absent.
///
/// # Errors
/// It cannot be read.
pub fn damage(data: &Path) -> Result<Option<String>, rusqlite::Error> {
    let path = data.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    match check(&path) {
        Err(error) if is_damage(&error) => Ok(Some(error.to_string())),
        checked => checked,
    }
}

fn check(path: &Path) -> rusqlite::Result<Option<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let result: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if result != "ok" {
        return Ok(Some(result));
    }
    let steps = super::version(&connection)?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // A new database has neither steps nor tables.
    Ok((steps > 0 && tables == 0).then(|| "its tables are gone".to_owned()))
}

/// Whether another process has the database open.
///
/// # Errors
/// Its files cannot be opened.
pub fn is_in_use(data: &Path) -> io::Result<bool> {
    shared_memory::is_in_use(&data.join(FILE))
}

/// Moves the database and the files beside it aside; their new names end in `suffix`. Returns the new
/// path of the database.
///
/// # Errors
/// A file cannot be renamed.
pub fn move_aside(data: &Path, suffix: &str) -> io::Result<PathBuf> {
    let to = data.join(format!("{FILE}.{suffix}"));
    // The database last: as long as it exists, this can be repeated.
    for suffix_of in ["-shm", "-wal", "-journal", ""] {
        let from = data.join(format!("{FILE}{suffix_of}"));
        let to = data.join(format!("{FILE}.{suffix}{suffix_of}"));
        if_exists(fs::rename(from, to))?;
    }
    sync_folder(data)?;
    Ok(to)
}
