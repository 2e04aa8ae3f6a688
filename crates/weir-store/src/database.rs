//! Opens the database and brings its schema up to date.
//!
//! It is SQLite, in the file `weir.db` (mode 0600), with a write-ahead log that is synced with every
//! transaction. Each subject opens a connection of its own and has its own tables. One connection
//! writes at a time; the others wait. Rows that are derived from the journal are committed together
//! with the journal position up to which it was read: a crash neither loses nor repeats any of them.
//!
//! The schema is a list of steps, each a file of SQL that runs once and is never changed afterwards.
//! `user_version` is the number of steps that have run. A database with more steps than this version
//! of weir knows is not opened.

mod damage;
mod shared_memory;

pub use damage::{damage, describe, is_in_use, move_aside};

use damage::{HINT, is_damage};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use weir_journal::create_folder;

/// Name of the database in the data folder.
const FILE: &str = "weir.db";

/// Longest wait for another connection to end its transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before a set-up that found the database locked is retried.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Bytes of the write-ahead log that are kept for reuse.
const MAX_KEPT_LOG_BYTES: i64 = 16 << 20;

/// The schema, in the order in which it grew. Steps are appended, never changed.
const STEPS: &[&str] = &[
    include_str!("schema/01_counts.sql"),
    include_str!("schema/02_events.sql"),
    include_str!("schema/03_prices.sql"),
    include_str!("schema/04_resubmission.sql"),
    include_str!("schema/05_audit.sql"),
    include_str!("schema/06_sinks.sql"),
    include_str!("schema/07_counted_until.sql"),
    include_str!("schema/08_changed_buckets.sql"),
    include_str!("schema/09_gaps.sql"),
    include_str!("schema/10_fleet.sql"),
    include_str!("schema/11_ship.sql"),
    include_str!("schema/12_quota_leases.sql"),
    include_str!("schema/13_fleet_jobs.sql"),
    include_str!("schema/14_fleet_alerts.sql"),
    include_str!("schema/15_backfill.sql"),
    include_str!("schema/16_resolution_revision.sql"),
    include_str!("schema/17_unbilled.sql"),
    include_str!("schema/18_configurations.sql"),
    include_str!("schema/19_retries.sql"),
    include_str!("schema/20_views.sql"),
    include_str!("schema/21_retry_base.sql"),
    include_str!("schema/22_revoked_keys.sql"),
];

/// Why the database cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file cannot be created.
    #[error("{path}: {source}")]
    Io {
        /// The folder or the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The database cannot be read or written.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
    },
    /// The file is damaged, or is not a database.
    #[error("{path}: {source}; {hint}", hint = HINT)]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        source: rusqlite::Error,
    },
    /// A later version of weir has used it.
    #[error("{path}: made by a later version of weir (step {found}, this one knows {known})")]
    Later {
        /// The file.
        path: PathBuf,
        /// Steps of the schema that have run.
        found: usize,
        /// Steps that this version has.
        known: usize,
    },
}

impl StoreError {
    /// An error of SQLite in the database of a data folder.
    #[must_use]
    pub fn database(data: &Path, source: rusqlite::Error) -> Self {
        let path = data.join(FILE);
        match is_damage(&source) {
            true => Self::Damaged { path, source },
            false => Self::Database { path, source },
        }
    }
}

/// Copies the database of a data folder into a new file: the state at one moment, while others write.
///
/// # Errors
/// There is none, it cannot be read, or the file exists or cannot be written.
pub fn copy(data: &Path, target: &Path) -> Result<(), StoreError> {
    // SQLite accepts an empty file, which keeps its mode.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
    created.map_err(|source| StoreError::Io { path: target.to_owned(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copied = Connection::open_with_flags(data.join(FILE), flags).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.execute("VACUUM INTO ?1", [target.display().to_string()])
    });
    copied.map(drop).map_err(|source| StoreError::database(data, source))
}

/// Opens the database of a data folder; creates it if there is none.
///
/// # Errors
/// It cannot be created, read or migrated, or a later version of weir has used it.
pub fn open(data: &Path) -> Result<Connection, StoreError> {
    open_with(data, STEPS)
}

/// A database in memory, with the same schema.
///
/// # Errors
/// There is no memory.
pub fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    migrate(&mut connection, STEPS)?;
    Ok(connection)
}

/// Whether a data folder has a database.
#[must_use]
pub fn exists(data: &Path) -> bool {
    data.join(FILE).is_file()
}

fn open_with(data: &Path, steps: &[&str]) -> Result<Connection, StoreError> {
    // One at a time: closing a file releases all locks that the process has on it, so the file must
    // not be created while another connection of this process is being set up.
    static OPENING: Mutex<()> = Mutex::new(());
    let _opening = OPENING.lock();
    let path = data.join(FILE);
    let at = |source| StoreError::Io { path: path.clone(), source };
    create_folder(data).map_err(at)?;
    // SQLite gives its mode to the files beside it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(error)),
        _ => {}
    }
    let shared = |source| StoreError::Io { path: shared_memory::path(&path), source };
    shared_memory::prepare(&path).map_err(shared)?;
    let at = |source| StoreError::database(data, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(at)?;
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    set_up(&connection).map_err(at)?;
    match migrate(&mut connection, steps).map_err(at)? {
        found if found > steps.len() => Err(StoreError::Later { path, found, known: steps.len() }),
        _ => Ok(connection),
    }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    write_ahead(connection)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "journal_size_limit", MAX_KEPT_LOG_BYTES)?;
    connection.pragma_update(None, "temp_store", "memory")
}

/// Turns the write-ahead log on. SQLite does not wait for other processes when it changes this mode,
/// even with a busy timeout, so the change is retried.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < end =>
            {
                thread::sleep(RETRY_DELAY);
            }
            ended => return ended,
        }
    }
}

/// Runs the steps that have not run. Returns the number of steps that have run afterwards.
fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<usize> {
    if version(connection)? >= steps.len() {
        return version(connection);
    }
    // A step may replace a table that others refer to. SQLite ignores this within a transaction.
    connection.pragma_update(None, "foreign_keys", false)?;
    // Another connection may run them now.
    let transaction = connection.transaction()?;
    let found = version(&transaction)?;
    for (number, step) in steps.iter().enumerate().skip(found) {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", number as u32 + 1)?;
    }
    // What a step has left without its other half is no lesser database than before: nothing is committed.
    if transaction.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_CONSTRAINT_FOREIGNKEY),
            Some("an update of the schema left rows that refer to nothing".to_owned()),
        ));
    }
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)?;
    version(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))
        .map(|v| v as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const FIRST: &str = "CREATE TABLE one (a INTEGER PRIMARY KEY) STRICT;";
    const SECOND: &str = "CREATE TABLE two (b INTEGER REFERENCES one (a)) STRICT;";

    fn count(connection: &Connection, table: &str) -> rusqlite::Result<u64> {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
    }

    #[test]
    fn steps_run_once_each_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let before = open_with(folder.path(), &[FIRST]).unwrap();
        before.execute("INSERT INTO one VALUES (7)", []).unwrap();
        let after = open_with(folder.path(), &[FIRST, SECOND]).unwrap();
        assert_eq!((count(&after, "one"), count(&after, "two")), (Ok(1), Ok(0)));
        assert_eq!(version(&after), Ok(2));
        drop(open_with(folder.path(), &[FIRST, SECOND]).unwrap());
    }

    #[test]
    fn counts_of_the_version_before_stay_and_are_all_billed() {
        let folder = tempfile::tempdir().unwrap();
        let before = open_with(folder.path(), &STEPS[..16]).unwrap();
        before
            .execute_batch(
                "INSERT INTO series VALUES (7, 'acme', 'x', 'GET /', 'gold', 5);
                 INSERT INTO bucket VALUES (60, 120, 7, 5, 0, 10, '70', x'', 1);
                 INSERT INTO bucket_inherited VALUES (60, 120, 7, 5, 0, 10, '70', x'');",
            )
            .unwrap();
        drop(before);
        let after = open(folder.path()).unwrap();
        let read = "SELECT s.unbilled, s.plan, b.calls, b.amount FROM bucket b
                    JOIN series s ON s.id = b.series";
        let found = after
            .query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        assert_eq!(found, Ok((0, "gold".to_owned(), 5, "70".to_owned())));
        // The names are unique together with the status, and counts refer to the new table.
        let add = "INSERT INTO series (consumer, api, operation, plan, status, unbilled)
                   VALUES ('acme', 'x', 'GET /', 'gold', 5, ?1)";
        assert!(after.execute(add, [503]).is_ok() && after.execute(add, [0]).is_err());
        assert!(after.execute("DELETE FROM series WHERE id = 7", []).is_err());
        assert!(!after.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap());
    }

    #[test]
    fn a_step_that_fails_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_with(folder.path(), &[FIRST]).unwrap());
        assert!(open_with(folder.path(), &[FIRST, SECOND, "CREATE TABLE one (a);"]).is_err());
        let connection = open_with(folder.path(), &[FIRST]).unwrap();
        assert!(count(&connection, "two").is_err());
    }

    #[test]
    fn a_later_database_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_with(folder.path(), &[FIRST, SECOND]).unwrap());
        let refused = open_with(folder.path(), &[FIRST]).err().unwrap();
        assert!(matches!(refused, StoreError::Later { found: 2, known: 1, .. }), "{refused}");
    }

    #[test]
    fn many_open_a_new_one_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| open_with(folder.path(), &[FIRST, SECOND]).unwrap());
            }
        });
    }

    #[test]
    fn it_belongs_to_its_user_alone_and_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_with(folder.path(), &[FIRST]).unwrap();
        connection.execute("INSERT INTO one VALUES (7)", []).unwrap();
        for name in ["weir.db", "weir.db-wal", "weir.db-shm"] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let pragma = |name: &str| {
            connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
        };
        use rusqlite::types::Value::{Integer, Text};
        assert_eq!(pragma("journal_mode"), Ok(Text("wal".into())));
        assert_eq!(pragma("synchronous"), Ok(Integer(2)));
        assert!(connection.execute("INSERT INTO one VALUES ('x')", []).is_err());
        assert!(exists(folder.path()));
    }
}
