//! Usage reports: counts by time, consumer, API, operation, plan and status.
//!
//! A range of time is read from the longest buckets that fit: days, then hours at both ends, then
//! minutes. A report in steps is read from buckets that are not longer than a step.

mod query;

use crate::bucket::{DAY, HOUR, MINUTE_RETENTION, amount};
use crate::error::MonitorError;
use crate::money::{Money, Sums};
use crate::monitor::Monitor;
use crate::price_list::{self, Rule};
use crate::sketch::Sketch;
use crate::tally::{MINUTE, Series};
use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use utoipa::ToSchema;
use weir_model::{Amount, UnixSeconds};
use weir_store::gaps::{Gap, Gaps};
use weir_store::{StoreError, clock};

pub use query::{UsageQuery, time};

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
    /// The status for which calls are not billed.
    Unbilled,
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
    /// Only these APIs; empty: all.
    pub apis: Vec<String>,
    /// Only calls of this operation.
    pub operation: Option<String>,
    /// Only calls of this plan; empty: without one.
    pub plan: Option<String>,
    /// Only this class of status.
    pub status: Option<StatusClass>,
    /// The groupings.
    pub by: Vec<Group>,
    /// Length of the steps in seconds: 60, 3600 or 86,400.
    pub step: Option<u64>,
    /// Most rows; `None`: [`MAX_ROWS`].
    pub max_rows: Option<usize>,
}

/// Class of a status: the first digit, or 0 for calls without a response. As text: `2xx`, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusClass(pub u8);

/// Names of the classes.
pub(crate) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

impl Display for StatusClass {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(CLASSES[usize::from(self.0).min(5)])
    }
}

impl Serialize for StatusClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StatusClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let class = CLASSES.iter().position(|class| *class == text);
        class
            .map(|class| Self(class as u8))
            .ok_or_else(|| de::Error::custom("no class of a status"))
    }
}

/// Calls of a group. Fields outside the grouping are absent.
// Rows are ordered by their groups.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[schema(as = UsageRow)]
pub struct Row {
    /// Start of the step (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub time: Option<UnixSeconds>,
    /// Consumer; empty: none. `(other)` is the overflow beyond the cardinality limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Plan; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Class of the status: `2xx`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub status: Option<StatusClass>,
    /// Status with which weir itself has rejected or failed calls that are not billed; 0: all other calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbilled: Option<u16>,
    /// Calls.
    pub calls: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of response bodies.
    pub response_bytes: u64,
    /// Costs by plan: a decimal in the plan's currency, without tiers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub amounts: BTreeMap<String, Amount>,
    /// Costs by currency, exact and rounded, without tiers. Plans whose currency has changed within the
    /// period are in `amounts` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Money>,
    /// Calls that are not billed: weir itself has rejected or failed them.
    #[serde(default)]
    pub unbilled_calls: u64,
    /// What those would have cost, by plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub unbilled_amounts: BTreeMap<String, Amount>,
    /// What those would have cost, by currency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbilled_costs: Vec<Money>,
    /// Median duration in microseconds, within 1 %.
    pub p50_us: u64,
    /// 90th percentile of the durations.
    pub p90_us: u64,
    /// 99th percentile of the durations.
    pub p99_us: u64,
}

/// Usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = UsageReport)]
pub struct Report {
    /// Start of the period (RFC 3339, UTC).
    // Whole minutes, or hours where minutes are purged.
    #[schema(value_type = String)]
    pub from: UnixSeconds,
    /// End of the period.
    #[schema(value_type = String)]
    pub to: UnixSeconds,
    /// Rows by time and names, at most 10,000.
    pub rows: Vec<Row>,
    /// Costs of all rows by currency, without tiers: the exact sum, rounded once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Money>,
    /// What the calls that are not billed would have cost, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbilled_costs: Vec<Money>,
    /// Gaps of the period, of all consumers.
    #[serde(default)]
    pub missing: Gap,
    /// Nodes of the fleet that are down or lost, and have not reported all calls of the period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreported: Vec<Unreported>,
}

/// A node of a fleet that has not reported all calls of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = UnreportedNode)]
pub struct Unreported {
    /// Name of the node.
    pub node: String,
    /// All calls before this time are included (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub until: UnixSeconds,
    /// The node is written off as lost: the rest is missing for ever.
    pub lost: bool,
    /// The most calls that are missing of a lost node: recorded and not reported, by its last report and its
    /// highest rate of the minute before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
}

impl Display for Unreported {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { node, until, lost, missing } = self;
        match (lost, missing) {
            (true, Some(calls)) => {
                write!(f, "node {node} is lost: at most {calls} calls after {until} are missing")
            }
            (true, None) => write!(f, "node {node} is lost: its calls after {until} are missing"),
            (false, _) => write!(f, "node {node} has not reported its calls after {until} yet"),
        }
    }
}

/// Why a report cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The query is invalid; the text has the reason.
    #[error("{0}")]
    Query(String),
    /// There are too many rows.
    #[error("more than {0} rows; ask for a shorter time, longer steps or fewer groups")]
    Rows(usize),
    /// The step is not the length of a bucket.
    #[error("a step is a minute, an hour or a day")]
    Step,
    /// The counts could not be read.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The gaps could not be read.
    #[error(transparent)]
    Gaps(#[from] StoreError),
}

impl From<rusqlite::Error> for UsageError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Monitor(error.into())
    }
}

impl Monitor {
    /// Executes a query, and adds the gaps of its period.
    ///
    /// # Errors
    /// [`UsageError`].
    pub fn report(&self, query: &UsageQuery, gaps: &Gaps) -> Result<Report, UsageError> {
        let usage = query.parse(Timestamp::now()).map_err(UsageError::Query)?;
        let report = self.usage(&usage)?;
        let missing = gaps.between(report.from.0, report.to.0)?;
        Ok(Report { missing, ..report })
    }

    /// Reports usage, up to the last write, without the gaps.
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

/// A row while its buckets are added up.
struct RowSum {
    row: Row,
    latency: Sketch,
}

impl RowSum {
    /// Adds a bucket of a plan, of calls that are billed or not.
    fn add(&mut self, bucket: &rusqlite::Row<'_>, plan: &Plan) -> Result<(), UsageError> {
        let row = &mut self.row;
        let calls = bucket.get::<_, u64>(2)?;
        row.calls += calls;
        let amounts = if plan.billed {
            &mut row.amounts
        } else {
            row.unbilled_calls += calls;
            &mut row.unbilled_amounts
        };
        row.request_bytes = row.request_bytes.saturating_add(bucket.get(3)?);
        row.response_bytes = row.response_bytes.saturating_add(bucket.get(4)?);
        if let Some(text) = bucket.get_ref(5).and_then(|value| Ok(value.as_str_or_null()?))? {
            let all = amounts.entry(plan.name.clone()).or_default();
            *all = all.plus(Amount::from_units(amount(Some(text))));
        }
        let latency = bucket.get_ref(6).and_then(|value| Ok(value.as_blob()?))?;
        // A damaged sketch is omitted.
        let _ = self.latency.add_encoded(latency);
        Ok(())
    }
}

fn report(database: &Connection, usage: &Usage, now: u64) -> Result<Report, UsageError> {
    // One snapshot: the counter may write between two reads.
    let snapshot = Transaction::new_unchecked(database, TransactionBehavior::Deferred)?;
    let span = span(&snapshot, usage, now)?;
    let groups = groups(&snapshot, usage)?;
    let max_rows = usage.max_rows.unwrap_or(MAX_ROWS);
    let mut sums: Vec<RowSum> = Vec::new();
    // The row of each group in the current step: buckets are read in order.
    let (mut slot, mut rows_of_step) = (0, vec![None; groups.rows.len()]);
    for (step, part) in parts(&span, usage.step) {
        let mut read = snapshot.prepare_cached(
            "SELECT start, series, calls, request_bytes, response_bytes, amount, latency
             FROM bucket WHERE step = ?1 AND start >= ?2 AND start < ?3 AND calls > 0
             ORDER BY start",
        )?;
        let mut rows = read.query(params![step, part.start, part.end])?;
        while let Some(row) = rows.next()? {
            let Some(&(group, plan)) = groups.of.get(&row.get(1)?) else { continue };
            let start: u64 = row.get(0)?;
            let here = usage.step.map_or(0, |step| start - start % step);
            if here != slot {
                slot = here;
                rows_of_step.fill(None);
            }
            let sum = *rows_of_step[group].get_or_insert_with(|| {
                let time = usage.step.map(|_| UnixSeconds(slot));
                let row = Row { time, ..groups.rows[group].clone() };
                sums.push(RowSum { row, latency: Sketch::default() });
                sums.len() - 1
            });
            if sums.len() > max_rows {
                return Err(UsageError::Rows(max_rows));
            }
            sums[sum].add(row, &groups.plans[plan])?;
        }
    }
    let rows = sums.into_iter().map(|RowSum { row, latency }| {
        let [p50_us, p90_us, p99_us] =
            [50, 90, 99].map(|percent| latency.percentile(percent).unwrap_or(0));
        Row { p50_us, p90_us, p99_us, ..row }
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_unstable();
    let (from, to) = (UnixSeconds(span.start), UnixSeconds(span.end));
    let prices = prices(&snapshot, &span)?;
    let costs = total(&prices, rows.iter().map(|row| &row.amounts));
    let unbilled_costs = total(&prices, rows.iter().map(|row| &row.unbilled_amounts));
    for row in &mut rows {
        row.costs = total(&prices, [&row.amounts].into_iter());
        row.unbilled_costs = total(&prices, [&row.unbilled_amounts].into_iter());
    }
    Ok(Report { from, to, rows, costs, unbilled_costs, ..Report::default() })
}

/// The prices of plans that had one currency all the time.
fn prices(
    database: &Connection,
    span: &Range<u64>,
) -> Result<BTreeMap<String, Rule>, rusqlite::Error> {
    let found = price_list::in_period(database, span)?;
    let one = |(plan, (rule, others)): (String, (Rule, Vec<String>))| {
        others.iter().all(|other| *other == rule.currency).then_some((plan, rule))
    };
    Ok(found.into_iter().filter_map(one).collect())
}

/// Sums of amounts by plan.
fn total<'a>(
    prices: &BTreeMap<String, Rule>,
    amounts: impl Iterator<Item = &'a BTreeMap<String, Amount>>,
) -> Vec<Money> {
    let mut sums = Sums::default();
    for (plan, amount) in amounts.flatten() {
        if let Some(Rule { currency, decimals, .. }) = prices.get(plan) {
            sums.add(currency, *amount, *decimals);
        }
    }
    sums.rounded()
}

/// The row to which each selected series is added, and the names of rows and plans.
#[derive(Default)]
struct Groups {
    of: HashMap<i64, (usize, usize), foldhash::fast::FixedState>,
    rows: Vec<Row>,
    plans: Vec<Plan>,
}

/// A plan, and whether calls are billed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Plan {
    name: String,
    billed: bool,
}

fn groups(database: &Connection, usage: &Usage) -> Result<Groups, UsageError> {
    let mut found = Groups::default();
    let (mut rows_known, mut plans_known) = (BTreeMap::new(), HashMap::new());
    let read = "SELECT id, consumer, api, operation, plan, status, unbilled FROM series";
    let mut read = database.prepare_cached(read)?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let series = Series {
            consumer: row.get(1)?,
            api: row.get(2)?,
            operation: row.get(3)?,
            plan: row.get(4)?,
            status: row.get(5)?,
            unbilled: row.get(6)?,
        };
        if !is_selected(usage, &series) {
            continue;
        }
        let plan = Plan { name: series.plan.clone(), billed: series.unbilled == 0 };
        let plan = *plans_known.entry(plan).or_insert_with_key(|plan| {
            found.plans.push(plan.clone());
            found.plans.len() - 1
        });
        let by = |group| usage.by.contains(&group);
        let named = |included: bool, name: String| included.then_some(name);
        let group = Row {
            consumer: named(by(Group::Consumer), series.consumer),
            api: named(by(Group::Api) || by(Group::Operation), series.api),
            operation: named(by(Group::Operation), series.operation),
            plan: named(by(Group::Plan), series.plan),
            status: by(Group::Status).then_some(StatusClass(series.status)),
            unbilled: by(Group::Unbilled).then_some(series.unbilled),
            ..Row::default()
        };
        let group = *rows_known.entry(group).or_insert_with_key(|group| {
            found.rows.push(group.clone());
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
        && (usage.apis.is_empty() || usage.apis.contains(&series.api))
        && is(&usage.operation, &series.operation)
        && is(&usage.plan, &series.plan)
        && usage.status.is_none_or(|status| status.0 == series.status)
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
