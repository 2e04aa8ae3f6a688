//! Usage reports: counts by time, consumer, API, operation, plan and status.
//!
//! A range of time is read from the longest buckets that fit: days, then hours at both ends, then
//! minutes. A report in steps is read from buckets that are not longer than a step.

use crate::bucket::{DAY, HOUR, MINUTE_RETENTION, add_latency, amount};
use crate::error::MonitorError;
use crate::monitor::Monitor;
use crate::sketch::Sums;
use crate::tally::{MINUTE, Series};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use weir_store::clock;

/// Most rows of a report.
pub const MAX_ROWS: usize = 10_000;

/// A grouping of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The consumer.
    Consumer,
    /// The API.
    Api,
    /// The operation, together with its API.
    Operation,
    /// The plan.
    Plan,
    /// The class of the status.
    Status,
}

/// The request for a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Start in seconds since 1970, rounded down to a minute. 0: from the first count.
    pub from: u64,
    /// End in seconds since 1970, rounded up to a minute. `None`: now.
    pub to: Option<u64>,
    /// Only calls of this consumer; empty: without consumer.
    pub consumer: Option<String>,
    /// Only calls of this API.
    pub api: Option<String>,
    /// Only calls of this operation.
    pub operation: Option<String>,
    /// Only calls of this plan; empty: without one.
    pub plan: Option<String>,
    /// Only this class of status: 1 to 5, or 0 for no response.
    pub status: Option<u8>,
    /// The groupings.
    pub by: Vec<Group>,
    /// Length of the steps in seconds: 60, 3600 or 86,400.
    pub step: Option<u64>,
}

/// A row of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Start of its step, in seconds since 1970, in a report with steps.
    pub start: Option<u64>,
    /// Consumer, if grouped by it; empty if there is none.
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
    /// Bytes of response bodies.
    pub response_bytes: u64,
    /// Sums of the prices of single calls by plan, in units of 10⁻¹⁸ of the currency of the plan.
    pub amounts: BTreeMap<String, i128>,
    /// Durations in microseconds, within 1 %: 50th, 90th and 99th percentile; zeros if unknown.
    pub percentiles: [u64; 3],
}

/// A report, with rows in the order of time and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its range, in seconds since 1970: whole minutes, or hours where minutes are purged.
    pub span: Range<u64>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Why a report cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// There are too many rows.
    #[error("more than {MAX_ROWS} rows; ask for a shorter time, longer steps or fewer groups")]
    Rows,
    /// The step is not the length of a bucket.
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
    /// Reports usage, up to the last write.
    ///
    /// # Errors
    /// [`UsageError`].
    pub fn usage(&self, usage: &Usage) -> Result<Report, UsageError> {
        if usage.step.is_some_and(|step| ![MINUTE, HOUR, DAY].contains(&step)) {
            return Err(UsageError::Step);
        }
        let now = clock::now().as_secs();
        self.query(|database| report(database, usage, now))
    }
}

/// The sums of a row.
#[derive(Default)]
struct RowSum {
    slot: u64,
    group: usize,
    row: Row,
    latency: Sums,
}

impl RowSum {
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
    // One snapshot: the counter may write between two reads.
    let snapshot = database.unchecked_transaction()?;
    let span = span(&snapshot, usage, now)?;
    let groups = groups(&snapshot, usage)?;
    let mut sums: Vec<RowSum> = Vec::new();
    // The row of each group in the current step: buckets are read in order.
    let (mut slot, mut rows_of_step) = (0, vec![None; groups.rows.len()]);
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
                rows_of_step.fill(None);
            }
            let sum = *rows_of_step[group].get_or_insert_with(|| {
                sums.push(RowSum { slot, group, ..RowSum::default() });
                sums.len() - 1
            });
            if sums.len() > MAX_ROWS {
                return Err(UsageError::Rows);
            }
            sums[sum].add(row, &groups.plans[plan])?;
        }
    }
    let rows = sums.into_iter().map(|sums| {
        let sketch = sums.latency.finish();
        let percentiles = [50, 90, 99].map(|percent| sketch.percentile(percent).unwrap_or(0));
        let start = usage.step.map(|_| sums.slot);
        let Row { calls, request_bytes, response_bytes, amounts, .. } = sums.row;
        let names = groups.rows[sums.group].clone();
        Row { start, calls, request_bytes, response_bytes, amounts, percentiles, ..names }
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
    Ok(Report { span, rows })
}

type SortKey<'r> = (
    Option<u64>,
    &'r Option<String>,
    &'r Option<String>,
    &'r Option<String>,
    &'r Option<String>,
    Option<u8>,
);

fn sort_key(row: &Row) -> SortKey<'_> {
    (row.start, &row.consumer, &row.api, &row.operation, &row.plan, row.status)
}

/// The row to which each selected series is added, and the names of rows and plans.
#[derive(Default)]
struct Groups {
    of: HashMap<i64, (usize, usize), foldhash::fast::FixedState>,
    rows: Vec<Row>,
    plans: Vec<String>,
}

impl Groups {
    /// The row and the plan of a series, if it is selected.
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
        if !is_selected(usage, &series) {
            continue;
        }
        let plan = *plans_known.entry(series.plan.clone()).or_insert_with(|| {
            found.plans.push(series.plan.clone());
            found.plans.len() - 1
        });
        let by = |group| usage.by.contains(&group);
        let named = |included: bool, name: String| included.then_some(name);
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

fn is_selected(usage: &Usage, series: &Series) -> bool {
    let is = |included: &Option<String>, name: &str| included.as_ref().is_none_or(|w| w == name);
    is(&usage.consumer, &series.consumer)
        && is(&usage.api, &series.api)
        && is(&usage.operation, &series.operation)
        && is(&usage.plan, &series.plan)
        && usage.status.is_none_or(|status| status == series.status)
}

/// The requested range, in whole minutes, or in whole hours where minutes are purged.
fn span(database: &Connection, usage: &Usage, now: u64) -> Result<Range<u64>, UsageError> {
    let oldest = "SELECT min(start) FROM bucket WHERE step = 86400";
    let oldest: Option<u64> = database.query_row(oldest, [], |row| row.get(0))?;
    let newest = "SELECT max(start) FROM bucket WHERE step = 60";
    let newest: Option<u64> = database.query_row(newest, [], |row| row.get(0))?;
    let now = newest.map_or(now, |newest| now.max(newest)) + 1;
    let from = usage.from.max(oldest.unwrap_or(now));
    let to = usage.to.unwrap_or(now).min(now).max(from);
    let kept = now.saturating_sub(MINUTE_RETENTION - DAY);
    let unit = |at: u64| if at < kept { HOUR } else { MINUTE };
    let (from, to) = (from - from % unit(from), to.next_multiple_of(unit(to)));
    Ok(match usage.step {
        // Only whole steps.
        Some(step) => from - from % step..to.next_multiple_of(step),
        None => from..to,
    })
}

/// The lengths of buckets and the ranges in which to read them, which together make up the range.
fn parts(span: &Range<u64>, step: Option<u64>) -> Vec<(u64, Range<u64>)> {
    let max_step = step.unwrap_or(DAY);
    let mut parts = Vec::new();
    let mut left = vec![span.clone()];
    for step in [DAY, HOUR, MINUTE] {
        if step > max_step {
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
