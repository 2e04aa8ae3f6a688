//! Use of quotas: counted by the second and compacted later, so that quotas are restored exactly
//! enough after a restart.
//!
//! Kept are the seconds of the last hour, the minutes of the last two days, and the quarters of an
//! hour of a year and a day: days of every time zone start at a quarter.

use crate::bucket::{DAY, HOUR};
use crate::error::MonitorError;
use crate::tally::{MINUTE, Tally};
use rusqlite::{Connection, params};
use std::ops::Range;

/// Seconds of a quarter of an hour.
const QUARTER: u64 = 900;
/// Retention in seconds: no quota is for longer.
const RETENTION: u64 = 367 * DAY;

/// Calls that count against a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// Name of the consumer.
    pub consumer: String,
    /// Range of their times, in seconds since 1970.
    pub at: Range<u64>,
    /// Number of calls.
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

/// Compacts old rows, and purges those that no quota needs.
pub(crate) fn compact(database: &Connection, now: u64) -> rusqlite::Result<()> {
    for (width, age) in [(MINUTE, HOUR), (QUARTER, 2 * DAY)] {
        let end = now.saturating_sub(age);
        let end = end - end % QUARTER;
        // An existing row is one of those that are compacted, unless it has this width already.
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
    let end = now.saturating_sub(RETENTION);
    database.execute("DELETE FROM quota_used WHERE at < ?1", [end])?;
    Ok(())
}

/// Calls counted against the quota of a plan in a span of seconds since 1970, of each consumer in the
/// order of time.
pub(crate) fn used(
    database: &Connection,
    plan: &str,
    span: &Range<u64>,
) -> Result<Vec<QuotaUse>, MonitorError> {
    let mut read = database.prepare_cached(
        "SELECT consumer, at, width, calls FROM quota_used
         WHERE plan = ?1 AND at + width > ?2 AND at < ?3 ORDER BY consumer, at",
    )?;
    let rows = read.query_map(params![plan, span.start, span.end], |row| {
        let (at, width): (u64, u64) = (row.get(1)?, row.get(2)?);
        Ok(QuotaUse { consumer: row.get(0)?, at: at..at + width, calls: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
