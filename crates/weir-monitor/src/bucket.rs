//! Writing buckets: what was added up in memory is added to what the database has.

use crate::sketch::{Sketch, Sums};
use crate::tally::{MINUTE, OfSeries, Series, Sum, Tally};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What stands for names that there was no room for.
pub const OTHER: &str = "(other)";

/// Seconds of an hour.
pub(crate) const HOUR: u64 = 3600;
/// Seconds of a day.
pub(crate) const DAY: u64 = 86_400;
/// How long minutes are kept, in seconds: a month by any zone, and some days to bill it.
pub(crate) const MINUTES_KEPT: u64 = 40 * DAY;
/// Every call is in a bucket of each of these lengths.
pub(crate) const STEPS: [u64; 3] = [MINUTE, HOUR, DAY];
/// Days whose combinations are remembered.
const DAYS: usize = 8;
/// Combinations whose numbers are remembered.
const SERIES: usize = 100_000;

/// Where buckets are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Bucket,
    Rebuilt,
}

impl Table {
    fn read(self) -> &'static str {
        match self {
            Self::Bucket => {
                "SELECT calls, request_bytes, response_bytes, amount, latency FROM bucket
                 WHERE step = ?1 AND start = ?2 AND series = ?3"
            }
            Self::Rebuilt => {
                "SELECT calls, request_bytes, response_bytes, amount, latency FROM rebuilt
                 WHERE step = ?1 AND start = ?2 AND series = ?3"
            }
        }
    }

    fn write(self) -> &'static str {
        match self {
            Self::Bucket => {
                "INSERT INTO bucket VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)
                 ON CONFLICT DO UPDATE SET calls = ?4, request_bytes = ?5, response_bytes = ?6,
                 amount = ?7, latency = ?8, revision = revision + 1"
            }
            Self::Rebuilt => {
                "INSERT INTO rebuilt VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)
                 ON CONFLICT DO UPDATE SET calls = ?4, request_bytes = ?5, response_bytes = ?6,
                 amount = ?7, latency = ?8, revision = revision + 1"
            }
        }
    }

    fn of_day(self) -> &'static str {
        match self {
            Self::Bucket => "SELECT series FROM bucket WHERE step = 86400 AND start = ?1",
            Self::Rebuilt => "SELECT series FROM rebuilt WHERE step = 86400 AND start = ?1",
        }
    }
}

/// Writes buckets, and remembers what it knows of the database. What it remembers holds only while
/// its transactions are committed: after one that was not, [`Writer::forget`].
#[derive(Debug)]
pub(crate) struct Writer {
    table: Table,
    numbers: HashMap<Series, i64>,
    /// Combinations of a day, which are limited.
    days: BTreeMap<u64, HashSet<i64>>,
}

impl Writer {
    pub(crate) fn new(table: Table) -> Self {
        Self { table, numbers: HashMap::new(), days: BTreeMap::new() }
    }

    pub(crate) fn forget(&mut self) {
        self.numbers.clear();
        self.days.clear();
    }

    /// Adds what was read; gives how many calls went into buckets of others because a day has
    /// `most` combinations.
    pub(crate) fn add(
        &mut self,
        database: &Connection,
        tally: &Tally,
        most: usize,
    ) -> rusqlite::Result<u64> {
        let mut others = 0;
        let told_from = self.told_from(database)?;
        // What comes late is of many minutes, and of few hours.
        let mut longer: BTreeMap<(u64, u64, i64), Sum> = BTreeMap::new();
        if self.numbers.len() > SERIES {
            self.forget();
        }
        for OfSeries { series, minutes } in tally.sums.values() {
            let own = self.number(database, series)?;
            for (minute, sum) in minutes {
                let place = self.place(database, series, own, minute - minute % DAY, most)?;
                if place != own {
                    others += sum.calls;
                }
                self.merge(database, (MINUTE, *minute, place), sum)?;
                if told_from.is_some_and(|from| *minute >= from) {
                    let note = "INSERT INTO bucket_changed VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                    database.prepare_cached(note)?.execute(params![minute, place])?;
                }
                for step in [HOUR, DAY] {
                    longer.entry((step, minute - minute % step, place)).or_default().merge(sum);
                }
            }
        }
        longer.iter().try_for_each(|(place, sum)| self.merge(database, *place, sum))?;
        Ok(others)
    }

    /// The first minute that others are told of, if it is noted here what changes of it.
    fn told_from(&self, database: &Connection) -> rusqlite::Result<Option<u64>> {
        match self.table {
            Table::Rebuilt => Ok(None),
            Table::Bucket => database
                .prepare_cached("SELECT start FROM bucket_cursor")?
                .query_row([], |row| row.get(0))
                .optional(),
        }
    }

    /// Adds to one bucket: its length, its beginning and the number of its series.
    pub(crate) fn merge(
        &self,
        database: &Connection,
        (step, start, series): (u64, u64, i64),
        sum: &Sum,
    ) -> rusqlite::Result<()> {
        let mut read = database.prepare_cached(self.table.read())?;
        let before = read.query_row(params![step, start, series], read_sum).optional()?;
        let mut sum = std::borrow::Cow::Borrowed(sum);
        if let Some(before) = before {
            sum.to_mut().merge(&before);
        }
        let amount = (sum.amount != 0).then(|| sum.amount.to_string());
        database.prepare_cached(self.table.write())?.execute(params![
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

    /// The number of the series under which calls of a day are counted: its own, unless there is
    /// no room.
    fn place(
        &mut self,
        database: &Connection,
        series: &Series,
        own: i64,
        day: u64,
        most: usize,
    ) -> rusqlite::Result<i64> {
        if self.takes(database, day, own, most)? {
            return Ok(own);
        }
        // Who has to pay stays known as long as possible.
        let other = || OTHER.to_owned();
        let folded = Series { api: other(), operation: other(), ..series.clone() };
        let folded = self.number(database, &folded)?;
        if self.takes(database, day, folded, most.saturating_mul(2))? {
            return Ok(folded);
        }
        let (consumer, api, operation, plan) = (other(), other(), other(), other());
        let all = Series { consumer, api, operation, plan, status: series.status };
        let all = self.number(database, &all)?;
        self.takes(database, day, all, usize::MAX)?;
        Ok(all)
    }

    /// Whether a day has a series, or room for it.
    fn takes(
        &mut self,
        database: &Connection,
        day: u64,
        series: i64,
        most: usize,
    ) -> rusqlite::Result<bool> {
        if !self.days.contains_key(&day) {
            let mut read = database.prepare_cached(self.table.of_day())?;
            let known = read.query_map([day], |row| row.get(0))?.collect::<Result<_, _>>()?;
            if self.days.len() >= DAYS {
                self.days.pop_first();
            }
            self.days.insert(day, known);
        }
        let known = self.days.entry(day).or_default();
        Ok(known.contains(&series) || (known.len() < most && known.insert(series)))
    }

    /// The number of a series; it gets one if it has none.
    fn number(&mut self, database: &Connection, series: &Series) -> rusqlite::Result<i64> {
        if let Some(number) = self.numbers.get(series) {
            return Ok(*number);
        }
        let Series { consumer, api, operation, plan, status } = series;
        let names = params![consumer, api, operation, plan, status];
        let find = "SELECT id FROM series WHERE consumer = ?1 AND api = ?2 AND operation = ?3
                    AND plan = ?4 AND status = ?5";
        let found = database.prepare_cached(find)?.query_row(names, |row| row.get(0)).optional()?;
        let number = match found {
            Some(number) => number,
            None => {
                let make = "INSERT INTO series (consumer, api, operation, plan, status)
                            VALUES (?1, ?2, ?3, ?4, ?5)";
                database.prepare_cached(make)?.insert(names)?
            }
        };
        self.numbers.insert(series.clone(), number);
        Ok(number)
    }
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A sum as [`Table::read`] gives it.
pub(crate) fn read_sum(row: &Row<'_>) -> rusqlite::Result<Sum> {
    Ok(Sum {
        calls: row.get(0)?,
        request_bytes: row.get(1)?,
        response_bytes: row.get(2)?,
        amount: amount(row.get_ref(3)?.as_str_or_null()?),
        // What cannot be read is left out: durations are no reason not to count.
        latency: Sketch::decode(row.get_ref(4)?.as_blob()?).unwrap_or_default(),
    })
}

/// Units of an amount as it is kept.
pub(crate) fn amount(text: Option<&str>) -> i128 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Adds a sketch as it is kept to others.
pub(crate) fn add_latency(sums: &mut Sums, bytes: &[u8]) {
    // As above.
    let _ = sums.add_encoded(bytes);
}

/// Drops the oldest day of each length whose time is over: at most one at a time, so that a clock
/// that is far ahead for a while does not empty everything. `kept` are times of the steps.
pub(crate) fn drop_old(database: &Connection, kept: [u64; 3]) -> rusqlite::Result<bool> {
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
            let note = "UPDATE counted_until SET dropped = max(dropped, ?1)";
            database.prepare_cached(note)?.execute([end])?;
        }
    }
    if dropped {
        database.execute("DELETE FROM series WHERE id NOT IN (SELECT series FROM bucket)", [])?;
    }
    Ok(dropped)
}
