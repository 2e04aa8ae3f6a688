//! Buckets: adds the sums in memory to those in the database.

use crate::sketch::Sketch;
use crate::tally::{MINUTE, Series, SeriesSums, Sum, Tally};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Replaces names beyond the cardinality limit.
pub(crate) const OTHER: &str = "(other)";

/// Seconds of an hour.
pub const HOUR: u64 = 3600;
/// Seconds of a day.
pub const DAY: u64 = 86_400;
/// Retention of minutes, in seconds: a month of any time zone, and some days to bill it.
pub(crate) const MINUTE_RETENTION: u64 = 40 * DAY;
/// Lengths of buckets; every call is in one of each.
pub(crate) const STEPS: [u64; 3] = [MINUTE, HOUR, DAY];
/// Most days whose combinations are cached.
const MAX_DAYS: usize = 8;
/// Most combinations whose numbers are cached.
const MAX_SERIES: usize = 100_000;

/// A table of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Bucket,
    Rebuilt,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Rebuilt => "rebuilt",
        }
    }
}

/// Writes buckets, with a cache of the database. The cache is valid only while its transactions are
/// committed: after one that was not, call [`Writer::invalidate`].
#[derive(Debug)]
pub(crate) struct Writer {
    table: Table,
    numbers: HashMap<Series, i64>,
    /// Combinations of each day, which are limited.
    days: BTreeMap<u64, Known>,
}

/// The combinations of a day. Those that are not billed have a limit of their own: in an outage they would
/// take the room of those that are.
#[derive(Debug, Default)]
struct Known {
    billed: HashSet<i64>,
    unbilled: HashSet<i64>,
}

impl Known {
    fn of(&mut self, is_unbilled: bool) -> &mut HashSet<i64> {
        if is_unbilled { &mut self.unbilled } else { &mut self.billed }
    }
}

impl Writer {
    pub(crate) fn new(table: Table) -> Self {
        Self { table, numbers: HashMap::new(), days: BTreeMap::new() }
    }

    pub(crate) fn invalidate(&mut self) {
        self.numbers.clear();
        self.days.clear();
    }

    /// Adds a tally. Returns the number of calls that were counted as [`OTHER`], as their day had `limit`
    /// combinations.
    pub(crate) fn add(
        &mut self,
        database: &Connection,
        tally: &Tally,
        limit: usize,
    ) -> rusqlite::Result<u64> {
        let mut overflow = 0;
        let events_from = self.events_from(database)?;
        let replicates = self.replicates(database)?;
        // Late calls are of many minutes, but of few hours.
        let mut longer: BTreeMap<(u64, u64, i64), Sum> = BTreeMap::new();
        if self.numbers.len() > MAX_SERIES {
            self.invalidate();
        }
        for SeriesSums { series, minutes } in tally.sums.values() {
            let own = self.number(database, series)?;
            for (minute, sum) in minutes {
                let counted =
                    self.counted_series(database, series, own, minute - minute % DAY, limit)?;
                if counted != own {
                    overflow += sum.calls;
                }
                self.merge(database, (MINUTE, *minute, counted), sum)?;
                if events_from.is_some_and(|from| *minute >= from) {
                    let change =
                        "INSERT INTO bucket_changed VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                    database.prepare_cached(change)?.execute(params![minute, counted])?;
                }
                if replicates {
                    mark_unreplicated(database, (MINUTE, *minute, counted))?;
                }
                for step in [HOUR, DAY] {
                    longer.entry((step, minute - minute % step, counted)).or_default().merge(sum);
                }
            }
        }
        for (place, sum) in &longer {
            self.merge(database, *place, sum)?;
            if replicates {
                mark_unreplicated(database, *place)?;
            }
        }
        Ok(overflow)
    }

    /// Whether buckets are replicated to a fleet.
    fn replicates(&self, database: &Connection) -> rusqlite::Result<bool> {
        match self.table {
            Table::Rebuilt => Ok(false),
            Table::Bucket => database.prepare_cached("SELECT 1 FROM replica")?.exists([]),
        }
    }

    /// The first minute whose changes are recorded for events, if any are.
    fn events_from(&self, database: &Connection) -> rusqlite::Result<Option<u64>> {
        match self.table {
            Table::Rebuilt => Ok(None),
            Table::Bucket => database
                .prepare_cached("SELECT start FROM bucket_cursor")?
                .query_row([], |row| row.get(0))
                .optional(),
        }
    }

    /// Adds to one bucket, given by length, start and number of its series.
    pub(crate) fn merge(
        &self,
        database: &Connection,
        (step, start, series): (u64, u64, i64),
        sum: &Sum,
    ) -> rusqlite::Result<()> {
        let table = self.table.name();
        let mut read = database.prepare_cached(&format!(
            "SELECT calls, request_bytes, response_bytes, amount, latency FROM {table}
             WHERE step = ?1 AND start = ?2 AND series = ?3"
        ))?;
        let before = read.query_row(params![step, start, series], read_sum).optional()?;
        let mut sum = std::borrow::Cow::Borrowed(sum);
        if let Some(before) = before {
            sum.to_mut().merge(&before);
        }
        let amount = (sum.amount != 0).then(|| sum.amount.to_string());
        let mut write = database.prepare_cached(&format!(
            "INSERT INTO {table} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)
             ON CONFLICT DO UPDATE SET calls = ?4, request_bytes = ?5, response_bytes = ?6,
             amount = ?7, latency = ?8, revision = revision + 1"
        ))?;
        write.execute(params![
            step,
            start,
            series,
            sum.calls,
            clamp(sum.request_bytes),
            clamp(sum.response_bytes),
            amount,
            sum.latency.encode(),
        ])?;
        Ok(())
    }

    /// The number of the series under which calls of a day are counted: their own, unless the limit
    /// is reached.
    fn counted_series(
        &mut self,
        database: &Connection,
        series: &Series,
        own: i64,
        day: u64,
        limit: usize,
    ) -> rusqlite::Result<i64> {
        let is_unbilled = series.unbilled != 0;
        if self.has_room(database, day, (own, is_unbilled), limit)? {
            return Ok(own);
        }
        // Consumer and plan are kept as long as possible: they are billed.
        let other = || OTHER.to_owned();
        let folded = Series { api: other(), operation: other(), ..series.clone() };
        let folded = self.number(database, &folded)?;
        if self.has_room(database, day, (folded, is_unbilled), limit.saturating_mul(2))? {
            return Ok(folded);
        }
        let (consumer, api, operation, plan) = (other(), other(), other(), other());
        let all = Series { consumer, api, operation, plan, ..*series };
        let all = self.number(database, &all)?;
        self.has_room(database, day, (all, is_unbilled), usize::MAX)?;
        Ok(all)
    }

    /// Whether a day has a series, or can get it.
    fn has_room(
        &mut self,
        database: &Connection,
        day: u64,
        (series, is_unbilled): (i64, bool),
        limit: usize,
    ) -> rusqlite::Result<bool> {
        if !self.days.contains_key(&day) {
            let table = self.table.name();
            let mut read = database.prepare_cached(&format!(
                "SELECT series, unbilled <> 0 FROM {table} JOIN series ON id = series
                 WHERE step = 86400 AND start = ?1"
            ))?;
            let mut known = Known::default();
            let mut rows = read.query([day])?;
            while let Some(row) = rows.next()? {
                known.of(row.get(1)?).insert(row.get(0)?);
            }
            if self.days.len() >= MAX_DAYS {
                self.days.pop_first();
            }
            self.days.insert(day, known);
        }
        let known = self.days.entry(day).or_default().of(is_unbilled);
        Ok(known.contains(&series) || (known.len() < limit && known.insert(series)))
    }

    /// The number of a series, which is inserted if it is new.
    pub(crate) fn number(
        &mut self,
        database: &Connection,
        series: &Series,
    ) -> rusqlite::Result<i64> {
        if let Some(number) = self.numbers.get(series) {
            return Ok(*number);
        }
        let Series { consumer, api, operation, plan, status, unbilled } = series;
        let names = params![consumer, api, operation, plan, status, unbilled];
        let find = "SELECT id FROM series WHERE consumer = ?1 AND api = ?2 AND operation = ?3
                    AND plan = ?4 AND status = ?5 AND unbilled = ?6";
        let found = database.prepare_cached(find)?.query_row(names, |row| row.get(0)).optional()?;
        let number = match found {
            Some(number) => number,
            None => {
                let make = "INSERT INTO series (consumer, api, operation, plan, status, unbilled)
                            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                database.prepare_cached(make)?.insert(names)?
            }
        };
        self.numbers.insert(series.clone(), number);
        Ok(number)
    }
}

/// Marks a bucket, given by length, start and number of its series, as changed.
fn mark_unreplicated(
    database: &Connection,
    (step, start, series): (u64, u64, i64),
) -> rusqlite::Result<()> {
    let mark = "INSERT INTO bucket_unreplicated VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    database.prepare_cached(mark)?.execute(params![step, start, series]).map(drop)
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A sum of a row that begins with calls, bytes, amount and latency.
pub(crate) fn read_sum(row: &Row<'_>) -> rusqlite::Result<Sum> {
    Ok(Sum {
        calls: row.get(0)?,
        request_bytes: row.get(1)?,
        response_bytes: row.get(2)?,
        amount: amount(row.get_ref(3)?.as_str_or_null()?),
        // A damaged sketch is omitted: the calls are counted anyway.
        latency: Sketch::decode(row.get_ref(4)?.as_blob()?).unwrap_or_default(),
    })
}

/// Units of a stored amount.
pub(crate) fn amount(text: Option<&str>) -> i128 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Purges the oldest day of each length if it is before `kept`, the times of the lengths. At most one
/// day each, so that a clock that is far ahead for a while does not purge everything.
pub(crate) fn purge(database: &Connection, kept: [u64; 3]) -> rusqlite::Result<bool> {
    let mut dropped = false;
    for (step, kept) in STEPS.into_iter().zip(kept) {
        let oldest = "SELECT min(start) FROM bucket WHERE step = ?1";
        let oldest: Option<u64> =
            database.prepare_cached(oldest)?.query_row([step], |row| row.get(0))?;
        let Some(oldest) = oldest else { continue };
        let end = (oldest - oldest % DAY + DAY).min(kept);
        let drop = "DELETE FROM bucket WHERE step = ?1 AND start < ?2";
        if database.prepare_cached(drop)?.execute(params![step, end])? == 0 {
            continue;
        }
        dropped = true;
        if step != MINUTE {
            let change = "UPDATE counted_until SET dropped = max(dropped, ?1)";
            database.prepare_cached(change)?.execute([end])?;
        }
    }
    if dropped {
        for (step, kept) in STEPS.into_iter().zip(kept) {
            let drop = "DELETE FROM bucket_inherited WHERE step = ?1 AND start < ?2";
            database.execute(drop, params![step, kept])?;
        }
        database.execute(
            "DELETE FROM series WHERE id NOT IN
             (SELECT series FROM bucket UNION SELECT series FROM bucket_inherited)",
            [],
        )?;
    }
    Ok(dropped)
}
