//! Usage: what was counted, of whom and when, grouped as it is asked for.
//!
//! A span of time is put together from the longest buckets that fit in: days, hours at its ends, and
//! minutes at theirs. What is asked for in steps is read from buckets no longer than a step.

use crate::bucket::{DAY, HOUR, MINUTES_KEPT, add_latency, amount};
use crate::error::MonitorError;
use crate::monitor::Monitor;
use crate::sketch::Sums;
use crate::tally::{MINUTE, Series};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use weir_store::clock;

/// Most rows of a report.
pub const MOST_ROWS: usize = 10_000;

/// What usage can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The consumer.
    Consumer,
    /// The API.
    Api,
    /// The operation; with its API, as its name says nothing without.
    Operation,
    /// The plan.
    Plan,
    /// The class of the status.
    Status,
}

/// A question about usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From when, in seconds since 1970: the minute that has it. 0: from the beginning.
    pub from: u64,
    /// Until when: the minute before it is the last. `None`: until now.
    pub to: Option<u64>,
    /// Only calls of this consumer; empty: of who is none.
    pub consumer: Option<String>,
    /// Only calls of this API.
    pub api: Option<String>,
    /// Only calls of this operation.
    pub operation: Option<String>,
    /// Only calls of this plan; empty: without one.
    pub plan: Option<String>,
    /// Only this class of status: 1 to 5, or 0 for no answer.
    pub status: Option<u8>,
    /// What has rows of its own.
    pub by: Vec<Group>,
    /// Seconds of a step that has rows of its own: 60, 3600 or 86,400.
    pub step: Option<u64>,
}

/// What one row of a report is of, and what was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Begin of its step, in seconds since 1970, if steps were asked for.
    pub start: Option<u64>,
    /// Consumer, if grouped by it; empty if it is none.
    pub consumer: Option<String>,
    /// API, likewise.
    pub api: Option<String>,
    /// Operation, likewise.
    pub operation: Option<String>,
    /// Plan, likewise.
    pub plan: Option<String>,
    /// Class of the status, likewise.
    pub status: Option<u8>,
    /// Calls.
    pub calls: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of answers' bodies.
    pub response_bytes: u64,
    /// What they cost by themselves, in units of 10⁻¹⁸ of the plan's currency, by plan.
    pub amounts: BTreeMap<String, i128>,
    /// How long half of them took, 90 % and 99 %, in microseconds, within 1 %; zeros if unknown.
    pub percentiles: [u64; 3],
}

/// The answer: rows in the order of time and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The span of time it is of, in seconds since 1970: whole minutes, or hours where minutes are
    /// not kept any more.
    pub span: Range<u64>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// There are too many rows.
    #[error("more than {MOST_ROWS} rows; ask for a shorter time, longer steps or fewer groups")]
    Rows,
    /// The step is none that there are buckets of.
    #[error("a step is a minute, an hour or a day")]
    Step,
    /// The counts could not be read.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
}

impl From<rusqlite::Error> for UsageError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Monitor(error.into())
    }
}

impl Monitor {
    /// Usage as it was written last.
    ///
    /// # Errors
    /// [`UsageError`].
    pub fn usage(&self, usage: &Usage) -> Result<Report, UsageError> {
        if usage.step.is_some_and(|step| ![MINUTE, HOUR, DAY].contains(&step)) {
            return Err(UsageError::Step);
        }
        let now = clock::now().as_secs();
        self.ask(|database| report(database, usage, now))
    }
}

/// What is added up for a row.
#[derive(Default)]
struct Adding {
    slot: u64,
    group: usize,
    row: Row,
    latency: Sums,
}

impl Adding {
    /// Adds a bucket of a plan.
    fn add(&mut self, bucket: &rusqlite::Row<'_>, plan: &str) -> Result<(), UsageError> {
        let row = &mut self.row;
        row.calls += bucket.get::<_, u64>(2)?;
        row.request_bytes = row.request_bytes.saturating_add(bucket.get(3)?);
        row.response_bytes = row.response_bytes.saturating_add(bucket.get(4)?);
        if let Some(text) = bucket.get_ref(5).and_then(|value| Ok(value.as_str_or_null()?))? {
            let all = row.amounts.entry(plan.to_owned()).or_default();
            *all = all.saturating_add(amount(Some(text)));
        }
        let latency = bucket.get_ref(6).and_then(|value| Ok(value.as_blob()?))?;
        add_latency(&mut self.latency, latency);
        Ok(())
    }
}

fn report(database: &Connection, usage: &Usage, now: u64) -> Result<Report, UsageError> {
    // One picture of it all: a writer may come between two readings.
    let snapshot = database.unchecked_transaction()?;
    let span = span(&snapshot, usage, now)?;
    let groups = groups(&snapshot, usage)?;
    let mut adding: Vec<Adding> = Vec::new();
    // Where in it the row of each group is, in the step that was read last: buckets come in order.
    let (mut slot, mut places) = (0, vec![None; groups.rows.len()]);
    for (step, part) in parts(&span, usage.step) {
        let mut read = snapshot.prepare_cached(
            "SELECT start, series, calls, request_bytes, response_bytes, amount, latency
             FROM bucket WHERE step = ?1 AND start >= ?2 AND start < ?3 ORDER BY start",
        )?;
        let mut rows = read.query(params![step, part.start, part.end])?;
        while let Some(row) = rows.next()? {
            let Some((group, plan)) = groups.of(row.get(1)?) else { continue };
            let start: u64 = row.get(0)?;
            let here = usage.step.map_or(0, |step| start - start % step);
            if here != slot {
                slot = here;
                places.fill(None);
            }
            let place = *places[group].get_or_insert_with(|| {
                adding.push(Adding { slot, group, ..Adding::default() });
                adding.len() - 1
            });
            if adding.len() > MOST_ROWS {
                return Err(UsageError::Rows);
            }
            adding[place].add(row, &groups.plans[plan])?;
        }
    }
    let rows = adding.into_iter().map(|adding| {
        let sketch = adding.latency.finish();
        let percentiles = [50, 90, 99].map(|percent| sketch.percentile(percent).unwrap_or(0));
        let start = usage.step.map(|_| adding.slot);
        let Row { calls, request_bytes, response_bytes, amounts, .. } = adding.row;
        let names = groups.rows[adding.group].clone();
        Row { start, calls, request_bytes, response_bytes, amounts, percentiles, ..names }
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by(|one, other| order(one).cmp(&order(other)));
    Ok(Report { span, rows })
}

type Order<'r> = (
    Option<u64>,
    &'r Option<String>,
    &'r Option<String>,
    &'r Option<String>,
    &'r Option<String>,
    Option<u8>,
);

fn order(row: &Row) -> Order<'_> {
    (row.start, &row.consumer, &row.api, &row.operation, &row.plan, row.status)
}

/// Which row each series that is asked for adds to, and the names of rows and plans.
#[derive(Default)]
struct Groups {
    of: HashMap<i64, (usize, usize), foldhash::fast::FixedState>,
    rows: Vec<Row>,
    plans: Vec<String>,
}

impl Groups {
    /// The row and the plan of a series, if it is asked for.
    fn of(&self, series: i64) -> Option<(usize, usize)> {
        self.of.get(&series).copied()
    }
}

fn groups(database: &Connection, usage: &Usage) -> Result<Groups, UsageError> {
    let mut found = Groups::default();
    let (mut rows_known, mut plans_known) = (HashMap::new(), HashMap::new());
    let read = "SELECT id, consumer, api, operation, plan, status FROM series";
    let mut read = database.prepare_cached(read)?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let series = Series {
            consumer: row.get(1)?,
            api: row.get(2)?,
            operation: row.get(3)?,
            plan: row.get(4)?,
            status: row.get(5)?,
        };
        if !is_wanted(usage, &series) {
            continue;
        }
        let plan = *plans_known.entry(series.plan.clone()).or_insert_with(|| {
            found.plans.push(series.plan.clone());
            found.plans.len() - 1
        });
        let by = |group| usage.by.contains(&group);
        let named = |wanted: bool, name: String| wanted.then_some(name);
        let names = (
            named(by(Group::Consumer), series.consumer),
            named(by(Group::Api) || by(Group::Operation), series.api),
            named(by(Group::Operation), series.operation),
            named(by(Group::Plan), series.plan),
            by(Group::Status).then_some(series.status),
        );
        let group = *rows_known.entry(names.clone()).or_insert_with(|| {
            let (consumer, api, operation, plan, status) = names;
            found.rows.push(Row { consumer, api, operation, plan, status, ..Row::default() });
            found.rows.len() - 1
        });
        found.of.insert(row.get(0)?, (group, plan));
    }
    Ok(found)
}

fn is_wanted(usage: &Usage, series: &Series) -> bool {
    let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|w| w == name);
    is(&usage.consumer, &series.consumer)
        && is(&usage.api, &series.api)
        && is(&usage.operation, &series.operation)
        && is(&usage.plan, &series.plan)
        && usage.status.is_none_or(|status| status == series.status)
}

/// The span that is asked for, in whole minutes, or in whole hours where there are no minutes.
fn span(database: &Connection, usage: &Usage, now: u64) -> Result<Range<u64>, UsageError> {
    let oldest = "SELECT min(start) FROM bucket WHERE step = 86400";
    let oldest: Option<u64> = database.query_row(oldest, [], |row| row.get(0))?;
    let newest = "SELECT max(start) FROM bucket WHERE step = 60";
    let newest: Option<u64> = database.query_row(newest, [], |row| row.get(0))?;
    let now = newest.map_or(now, |newest| now.max(newest)) + 1;
    let from = usage.from.max(oldest.unwrap_or(now));
    let to = usage.to.unwrap_or(now).min(now).max(from);
    let kept = now.saturating_sub(MINUTES_KEPT - DAY);
    let unit = |at: u64| if at < kept { HOUR } else { MINUTE };
    let (from, to) = (from - from % unit(from), to.next_multiple_of(unit(to)));
    Ok(match usage.step {
        // A step is told whole or not at all.
        Some(step) => from - from % step..to.next_multiple_of(step),
        None => from..to,
    })
}

/// The lengths of buckets and where to read them, so that they make up the span.
fn parts(span: &Range<u64>, step: Option<u64>) -> Vec<(u64, Range<u64>)> {
    let longest = step.unwrap_or(DAY);
    let mut parts = Vec::new();
    let mut left = vec![span.clone()];
    for step in [DAY, HOUR, MINUTE] {
        if step > longest {
            continue;
        }
        for part in std::mem::take(&mut left) {
            let (start, end) = (part.start.next_multiple_of(step), part.end - part.end % step);
            if start >= end {
                left.push(part);
                continue;
            }
            parts.push((step, start..end));
            left.extend([part.start..start, end..part.end].into_iter().filter(|p| !p.is_empty()));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_make_up_the_span(from in 0..20_000_u64, length in 0..20_000_u64, step in 0..4_usize) {
            let step = [None, Some(MINUTE), Some(HOUR), Some(DAY)][step];
            let unit = step.unwrap_or(MINUTE);
            let span = from * MINUTE / unit * unit..((from + length) * MINUTE).next_multiple_of(unit);
            let mut parts = parts(&span, step);
            parts.sort_by_key(|(_, part)| part.start);
            let mut at = span.start;
            for (length, part) in parts {
                prop_assert_eq!(part.start, at);
                prop_assert!(part.start % length == 0 && part.end % length == 0);
                prop_assert!(step.is_none_or(|step| length <= step));
                at = part.end;
            }
            prop_assert_eq!(at, span.end);
        }
    }
}
