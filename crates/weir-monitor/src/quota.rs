//! What was used of quotas: counted by the second, and put together later, so that it comes back
//! after a restart as exactly as quotas need it.
//!
//! Seconds of the last hour are kept, minutes of the last two days, and quarters of an hour, at which
//! days begin in every zone, for a year and a day.

use crate::bucket::{DAY, HOUR};
use crate::error::MonitorError;
use crate::tally::{MINUTE, Tally};
use rusqlite::{Connection, params};
use std::ops::Range;

/// Seconds of a quarter of an hour.
const QUARTER: u64 = 900;
/// How long they are kept: no quota is for longer.
const LONGEST: u64 = 367 * DAY;

/// Calls that used up a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Name of the consumer.
    pub consumer: String,
    /// When they came, in seconds since 1970.
    pub at: Range<u64>,
    /// How many.
    pub calls: u64,
}

pub(crate) fn add(database: &Connection, tally: &Tally) -> rusqlite::Result<()> {
    let mut write = database.prepare_cached(
        "INSERT INTO quota_used VALUES (?1, ?2, ?3, 1, ?4)
         ON CONFLICT DO UPDATE SET calls = calls + ?4",
    )?;
    for ((plan, consumer), seconds) in &tally.quotas {
        for (second, calls) in seconds {
            write.execute(params![plan, consumer, second, calls])?;
        }
    }
    Ok(())
}

/// Puts together what is old, and drops what no quota can ask for.
pub(crate) fn tidy(database: &Connection, now: u64) -> rusqlite::Result<()> {
    for (width, age) in [(MINUTE, HOUR), (QUARTER, 2 * DAY)] {
        let end = now.saturating_sub(age);
        let end = end - end % QUARTER;
        // A row that is there already is one of those put together, unless it is as wide.
        database.execute(
            "INSERT INTO quota_used
             SELECT plan, consumer, at - at % ?1, ?1, sum(calls) FROM quota_used
             WHERE width < ?1 AND at < ?2 GROUP BY 1, 2, 3
             ON CONFLICT DO UPDATE SET width = ?1,
             calls = excluded.calls + CASE WHEN width < ?1 THEN 0 ELSE calls END",
            params![width, end],
        )?;
        let drop = "DELETE FROM quota_used WHERE width < ?1 AND at < ?2";
        database.execute(drop, params![width, end])?;
    }
    let end = now.saturating_sub(LONGEST);
    database.execute("DELETE FROM quota_used WHERE at < ?1", [end])?;
    Ok(())
}

/// Calls counted against the quota of a plan in a span of seconds since 1970, of each consumer in the
/// order of time.
pub(crate) fn used(
    database: &Connection,
    plan: &str,
    span: &Range<u64>,
) -> Result<Vec<Used>, MonitorError> {
    let mut read = database.prepare_cached(
        "SELECT consumer, at, width, calls FROM quota_used
         WHERE plan = ?1 AND at + width > ?2 AND at < ?3 ORDER BY consumer, at",
    )?;
    let rows = read.query_map(params![plan, span.start, span.end], |row| {
        let (at, width): (u64, u64) = (row.get(1)?, row.get(2)?);
        Ok(Used { consumer: row.get(0)?, at: at..at + width, calls: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
