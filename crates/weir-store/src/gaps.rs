//! Gaps: transactions and calls that were not recorded or metered, by the minute. Reports of a period
//! state them.

use crate::{StoreError, clock};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use utoipa::ToSchema;

/// Seconds of a minute.
const MINUTE: u64 = 60;
/// Retention in seconds: longer than the age of any period that is billed.
const RETENTION: u64 = 800 * 24 * 60 * 60;

/// Transactions and calls of a period that could not be recorded or metered because the journal was
/// full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// Requests without a recorded transaction. Their calls are metered, unless they are among
    /// `uncounted`.
    #[serde(default)]
    pub unrecorded: u64,
    /// Transactions recorded without all of their headers and bodies.
    #[serde(default)]
    pub shortened: u64,
    /// Calls that are not metered: usage, quotas and invoices are too low by this number.
    #[serde(default)]
    pub uncounted: u64,
}

impl Gap {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both gaps, of two nodes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            unrecorded: self.unrecorded.saturating_add(other.unrecorded),
            shortened: self.shortened.saturating_add(other.shortened),
            uncounted: self.uncounted.saturating_add(other.uncounted),
        }
    }

    /// A sentence about unrecorded transactions; `None` without any.
    #[must_use]
    pub fn record_note(&self) -> Option<String> {
        let Self { unrecorded, shortened, .. } = *self;
        let text = match (unrecorded, shortened) {
            (0, 0) => return None,
            (0, _) => format!("{shortened} transactions without all of their headers and bodies"),
            (_, 0) => format!("{unrecorded} requests were not recorded"),
            _ => format!(
                "{unrecorded} requests were not recorded, {shortened} without all of their headers \
                 and bodies"
            ),
        };
        Some(format!("{text}: the journal was full"))
    }

    /// A sentence about unmetered calls; `None` without any.
    #[must_use]
    pub fn count_note(&self) -> Option<String> {
        let uncounted = self.uncounted;
        (uncounted > 0).then(|| format!("{uncounted} calls are not included: the journal was full"))
    }

    fn add(&mut self, other: Self) {
        self.unrecorded = self.unrecorded.saturating_add(other.unrecorded);
        self.shortened = self.shortened.saturating_add(other.shortened);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
    }
}

/// The gaps of a data folder, including those that are not written yet.
#[derive(Clone, Debug)]
pub struct Gaps(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    data: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Opened with the first use.
    connection: Option<Connection>,
    /// Gaps that are not written yet, by minute (seconds since 1970).
    unwritten: BTreeMap<u64, Gap>,
}

impl State {
    fn connection(&mut self, data: &Path) -> Result<&mut Connection, StoreError> {
        let open = match self.connection.take() {
            Some(connection) => connection,
            None => crate::open(data)?,
        };
        Ok(self.connection.insert(open))
    }
}

impl Gaps {
    /// The gaps of a data folder.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self(Arc::new(Inner { data: data.to_owned(), state: Mutex::default() }))
    }

    /// The gaps of a database.
    #[must_use]
    pub fn of(connection: Connection) -> Self {
        let state = State { connection: Some(connection), unwritten: BTreeMap::new() };
        Self(Arc::new(Inner { data: PathBuf::new(), state: Mutex::new(state) }))
    }

    /// Adds a gap of the current minute; it is not written yet.
    pub fn add(&self, gap: Gap) {
        if !gap.is_empty() {
            let now = clock::now().as_secs();
            let minute = now - now % MINUTE;
            self.0.state.lock().unwritten.entry(minute).or_default().add(gap);
        }
    }

    /// Writes the gaps that were added.
    ///
    /// # Errors
    /// The database fails; the gaps are kept, to be written later.
    pub fn write(&self) -> Result<(), StoreError> {
        let mut state = self.0.state.lock();
        if state.unwritten.is_empty() {
            return Ok(());
        }
        let unwritten = std::mem::take(&mut state.unwritten);
        let written = state.connection(&self.0.data).and_then(|connection| {
            let failed = |error| StoreError::database(&self.0.data, error);
            write(connection, &unwritten).map_err(failed)
        });
        if written.is_err() {
            state.unwritten = unwritten;
        }
        written
    }

    /// The gaps of the minutes from `from` until before `to`, in seconds since 1970.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn between(&self, from: u64, to: u64) -> Result<Gap, StoreError> {
        let from = from - from % MINUTE;
        let mut state = self.0.state.lock();
        let mut sum = Gap::default();
        if from >= to {
            return Ok(sum);
        }
        state.unwritten.range(from..to).for_each(|(_, gap)| sum.add(*gap));
        if state.connection.is_none() && !crate::exists(&self.0.data) {
            return Ok(sum);
        }
        let read = "SELECT coalesce(sum(unrecorded), 0), coalesce(sum(shortened), 0),
                    coalesce(sum(uncounted), 0) FROM gap WHERE minute >= ?1 AND minute < ?2";
        let bounds = [from, to].map(|time| i64::try_from(time).unwrap_or(i64::MAX));
        let connection = state.connection(&self.0.data)?;
        let written = connection.query_row(read, bounds, |row| {
            let (unrecorded, shortened) = (row.get(0)?, row.get(1)?);
            Ok(Gap { unrecorded, shortened, uncounted: row.get(2)? })
        });
        sum.add(written.map_err(|error| StoreError::database(&self.0.data, error))?);
        Ok(sum)
    }
}

fn write(connection: &mut Connection, unwritten: &BTreeMap<u64, Gap>) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (minute, Gap { unrecorded, shortened, uncounted }) in unwritten {
        transaction.execute(
            "INSERT INTO gap VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET
             unrecorded = unrecorded + ?2, shortened = shortened + ?3, uncounted = uncounted + ?4",
            params![minute, unrecorded, shortened, uncounted],
        )?;
    }
    let old = clock::now().as_secs().saturating_sub(RETENTION);
    transaction.execute("DELETE FROM gap WHERE minute < ?1", [old])?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_adds_up_by_the_minute_and_outlives_the_process() {
        let data = tempfile::tempdir().unwrap();
        let gaps = Gaps::new(data.path());
        assert_eq!(gaps.between(0, u64::MAX).unwrap(), Gap::default());
        let one = Gap { unrecorded: 2, shortened: 3, uncounted: 1 };
        gaps.add(one);
        assert_eq!(gaps.between(0, u64::MAX).unwrap(), one);
        gaps.write().unwrap();
        gaps.add(one);
        let both = Gap { unrecorded: 4, shortened: 6, uncounted: 2 };
        assert_eq!(gaps.between(0, u64::MAX).unwrap(), both);
        gaps.write().unwrap();
        let (again, now) = (Gaps::new(data.path()), clock::now().as_secs());
        assert_eq!(again.between(now - 120, now + 60).unwrap(), both);
        assert_eq!(again.between(now + 60, now + 120).unwrap(), Gap::default());
        assert_eq!(again.between(0, now - 120).unwrap(), Gap::default());
    }
}
