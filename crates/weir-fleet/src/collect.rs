//! Usage of the fleet: buckets of all nodes, added up for a report or an invoice.

use crate::database::{Connection, DatabaseError, Parameter};
use std::collections::BTreeSet;
use std::ops::Range;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_model::UnixSeconds;
use weir_monitor::collect::Collector;
use weir_monitor::replica::{BucketCounts, PriceEntry, SeriesNames};
use weir_monitor::{DAY, HOUR, Monitor, MonitorError, Unreported};
use weir_store::gaps::{Gap, Gaps};

/// Most buckets of a report.
const MAX_BUCKETS: usize = 500_000;

/// Why usage cannot be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The counts cannot be added up.
    #[error(transparent)]
    Counts(#[from] MonitorError),
    /// There is no such node.
    #[error("unknown node `{0}`; `weir fleet status` lists the nodes")]
    UnknownNode(String),
    /// There are too many buckets.
    #[error("more than {MAX_BUCKETS} counts; ask for a shorter time or longer steps")]
    TooMany,
}

impl From<tokio_postgres::Error> for CollectError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// What to collect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Start in seconds since 1970; 0: from the first count.
    pub from: u64,
    /// End in seconds since 1970.
    pub to: u64,
    /// Length of the steps of a report, in seconds.
    pub step: Option<u64>,
    /// Only this consumer.
    pub consumer: Option<String>,
    /// Only this node: its id or name.
    pub node: Option<String>,
}

/// Collected usage.
pub struct Collected {
    /// The counts, as those of a single node.
    pub monitor: Monitor,
    /// The gaps.
    pub gaps: Gaps,
    /// Nodes that are down or lost and have not reported the whole time.
    pub unreported: Vec<Unreported>,
}

/// Collects the usage of all nodes, or of one.
pub(crate) async fn collect(
    connection: &Connection,
    selection: &Selection,
) -> Result<Collected, CollectError> {
    // Before the counts are read, so that they include all calls before that.
    let nodes = nodes(connection, selection).await?;
    let ids: Vec<Uuid> = nodes.iter().map(|node| node.id).collect();
    let mut collector = Collector::new()?;
    let mut left = MAX_BUCKETS;
    let counted = counted(connection).await?;
    for (step, range) in ranges(selection, &counted) {
        add_buckets(connection, &mut collector, &ids, selection, (step, range), &mut left).await?;
    }
    add_prices(connection, &mut collector).await?;
    add_gaps(connection, &mut collector, &ids, selection).await?;
    let waited_for = nodes.iter().filter(|node| !node.left);
    let settled = waited_for.map(|node| node.until).min().unwrap_or(selection.to);
    let dropped = "SELECT extract(epoch FROM dropped)::bigint FROM weir.fleet";
    let dropped: i64 = connection.one(dropped, &[]).await?.try_get(0)?;
    let (monitor, gaps) = collector.finish(settled, dropped.unsigned_abs())?;
    let unreported =
        nodes.into_iter().filter(|node| node.is_unreported(selection)).map(|node| Unreported {
            node: node.name,
            until: UnixSeconds(node.until),
            lost: node.lost,
            missing: node.missing,
        });
    Ok(Collected { monitor, gaps, unreported: unreported.collect() })
}

/// How far a node has reported.
struct Reporter {
    id: Uuid,
    name: String,
    until: u64,
    /// Retired or lost: nobody waits for it.
    left: bool,
    lost: bool,
    /// Its lease has ended. A live node reports within seconds what it counts.
    down: bool,
    /// Its first registration.
    joined: u64,
    /// Its last heartbeat.
    seen: u64,
    /// The most calls that are missing, if it is lost.
    missing: Option<u64>,
}

impl Reporter {
    fn is_unreported(&self, selection: &Selection) -> bool {
        // Calls of a lost node are missing up to its end.
        let missing = (self.lost && self.seen >= selection.from) || (self.down && !self.left);
        missing && self.until < selection.to && self.joined < selection.to
    }
}

async fn nodes(
    connection: &Connection,
    selection: &Selection,
) -> Result<Vec<Reporter>, CollectError> {
    let sql = "SELECT id, name, extract(epoch FROM counted_until)::bigint, state,
             extract(epoch FROM joined)::bigint, until <= now(), extract(epoch FROM seen)::bigint,
             missing
         FROM weir.node WHERE $1::text IS NULL OR name = $1 OR id::text = $1 ORDER BY name, id";
    let rows = connection.query(sql, &[(&selection.node, Type::TEXT)]).await?;
    if let (true, Some(node)) = (rows.is_empty(), &selection.node) {
        return Err(CollectError::UnknownNode(node.clone()));
    }
    let reporter = |row: &Row| {
        let state: String = row.try_get(3)?;
        Ok(Reporter {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            until: row.try_get::<_, i64>(2)?.unsigned_abs(),
            left: matches!(state.as_str(), "retired" | "lost"),
            lost: state == "lost",
            down: row.try_get(5)?,
            joined: row.try_get::<_, i64>(4)?.unsigned_abs(),
            seen: row.try_get::<_, i64>(6)?.unsigned_abs(),
            missing: row.try_get::<_, Option<i64>>(7)?.map(i64::unsigned_abs),
        })
    };
    rows.iter().map(reporter).collect::<Result<_, tokio_postgres::Error>>().map_err(Into::into)
}

/// From the first day with counts until now, or until the last minute of a clock that is ahead; in
/// seconds since 1970.
async fn counted(connection: &Connection) -> Result<Range<u64>, DatabaseError> {
    let sql = "SELECT
             (SELECT extract(epoch FROM min(start))::bigint FROM weir.bucket WHERE step = 86400),
             (SELECT extract(epoch FROM max(start))::bigint FROM weir.bucket WHERE step = 60)";
    let row = connection.one(sql, &[]).await?;
    let second = |index| row.try_get::<_, Option<i64>>(index);
    let (first, last) = (second(0)?.unwrap_or_default(), second(1)?.unwrap_or_default());
    let now = weir_store::clock::now().as_secs();
    Ok(first.unsigned_abs()..now.max(last.unsigned_abs()) + 1)
}

/// The lengths and times of the buckets that a report may read: of the length of its steps, or days, and
/// shorter ones at both ends.
fn ranges(selection: &Selection, counted: &Range<u64>) -> Vec<(u64, Range<u64>)> {
    let from = selection.from.max(counted.start);
    let to = selection.to.min(counted.end).max(from);
    let around = |unit: u64| from - from % unit..(to - to % unit).saturating_add(unit);
    let ends = |unit: u64, of: u64| {
        let (start, end) = (from - from % of, to - to % of);
        let (start, end) = (start..start + of, end..end + of);
        let both = if start == end { vec![start] } else { vec![start, end] };
        both.into_iter().map(move |range| (unit, range)).collect::<Vec<_>>()
    };
    match selection.step {
        Some(60) => [(DAY, around(DAY)), (60, around(60))]
            .into_iter()
            .flat_map(|(s, r)| split(s, r))
            .collect(),
        Some(HOUR) => [(DAY, around(DAY)), (HOUR, around(HOUR))]
            .into_iter()
            .flat_map(|(s, r)| split(s, r))
            .collect(),
        Some(_) => split(DAY, around(DAY)),
        None => {
            let mut all = split(DAY, around(DAY));
            all.extend(ends(HOUR, DAY));
            all.extend(ends(60, HOUR));
            all
        }
    }
}

/// A time in parts, each short enough for one statement.
fn split(step: u64, range: Range<u64>) -> Vec<(u64, Range<u64>)> {
    let part = match step {
        60 => HOUR,
        HOUR => DAY,
        _ => 30 * DAY,
    };
    let starts = (range.start..range.end).step_by(part as usize);
    starts.map(|start| (step, start..(start + part).min(range.end))).collect()
}

async fn add_buckets(
    connection: &Connection,
    collector: &mut Collector,
    nodes: &[Uuid],
    selection: &Selection,
    (step, range): (u64, Range<u64>),
    left: &mut usize,
) -> Result<(), CollectError> {
    let sql = "SELECT extract(epoch FROM b.start)::bigint, s.consumer, s.api, s.operation, s.plan,
             s.status, b.calls, b.request_bytes, b.response_bytes, b.amount::text, b.latency, s.unbilled
         FROM weir.bucket b JOIN weir.series s ON s.id = b.series
         WHERE b.step = $1 AND b.start >= to_timestamp($2) AND b.start < to_timestamp($3)
             AND b.node = ANY ($4) AND b.calls > 0 AND ($5::text IS NULL OR s.consumer = $5)
         LIMIT $6";
    let limit = *left as i64 + 1;
    let parameters: [Parameter<'_>; 6] = [
        (&(step as i32), Type::INT4),
        (&(range.start as f64), Type::FLOAT8),
        (&(range.end as f64), Type::FLOAT8),
        (&nodes, Type::UUID_ARRAY),
        (&selection.consumer, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = connection.query(sql, &parameters).await?;
    *left = left.checked_sub(rows.len()).ok_or(CollectError::TooMany)?;
    for row in rows {
        let counts = counts(&row, step)?;
        collector.add(&counts)?;
    }
    Ok(())
}

fn counts(row: &Row, step: u64) -> Result<BucketCounts, tokio_postgres::Error> {
    let number = |index| row.try_get::<_, i64>(index).map(i64::unsigned_abs);
    let series = SeriesNames {
        consumer: row.try_get(1)?,
        api: row.try_get(2)?,
        operation: row.try_get(3)?,
        plan: row.try_get(4)?,
        status: u8::try_from(row.try_get::<_, i16>(5)?).unwrap_or_default(),
        unbilled: row.try_get::<_, i16>(11)?.unsigned_abs(),
    };
    let amount: String = row.try_get(9)?;
    Ok(BucketCounts {
        step,
        start: number(0)?,
        series,
        calls: number(6)?,
        request_bytes: number(7)?,
        response_bytes: number(8)?,
        amount: amount.parse().unwrap_or_default(),
        latency: row.try_get(10)?,
    })
}

async fn add_prices(
    connection: &Connection,
    collector: &mut Collector,
) -> Result<(), CollectError> {
    let sql =
        "SELECT plan, extract(epoch FROM since)::bigint, rule FROM weir.price ORDER BY since, node";
    let mut known = BTreeSet::new();
    for row in connection.query(sql, &[]).await? {
        let price = PriceEntry {
            plan: row.try_get(0)?,
            since: row.try_get::<_, i64>(1)?.unsigned_abs(),
            rule: row.try_get(2)?,
        };
        if known.insert((price.plan.clone(), price.since)) {
            collector.add_price(&price)?;
        }
    }
    Ok(())
}

async fn add_gaps(
    connection: &Connection,
    collector: &mut Collector,
    nodes: &[Uuid],
    selection: &Selection,
) -> Result<(), CollectError> {
    let sql = "SELECT extract(epoch FROM minute)::bigint, sum(unrecorded)::bigint,
             sum(shortened)::bigint, sum(uncounted)::bigint
         FROM weir.gap WHERE node = ANY ($1) AND minute >= to_timestamp($2)
             AND minute < to_timestamp($3) GROUP BY 1";
    let bounds =
        (selection.from.saturating_sub(DAY) as f64, selection.to.saturating_add(DAY) as f64);
    let parameters: [Parameter<'_>; 3] =
        [(&nodes, Type::UUID_ARRAY), (&bounds.0, Type::FLOAT8), (&bounds.1, Type::FLOAT8)];
    for row in connection.query(sql, &parameters).await? {
        let number = |index| row.try_get::<_, i64>(index).map(i64::unsigned_abs);
        let gap = Gap { unrecorded: number(1)?, shortened: number(2)?, uncounted: number(3)? };
        collector.add_gap(number(0)?, gap)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_reads_days_and_the_ends_in_detail() {
        let (from, to) = (10 * DAY + 5 * HOUR + 7 * 60, 12 * DAY + 90);
        let selection = Selection { from, to, ..Selection::default() };
        let ranges = super::ranges(&selection, &(0..20 * DAY));
        assert!(ranges.contains(&(DAY, 10 * DAY..13 * DAY)), "{ranges:?}");
        assert!(ranges.contains(&(HOUR, 10 * DAY..11 * DAY)), "{ranges:?}");
        assert!(ranges.contains(&(HOUR, 12 * DAY..13 * DAY)), "{ranges:?}");
        let first_hour = 10 * DAY + 5 * HOUR;
        assert!(ranges.contains(&(60, first_hour..first_hour + HOUR)), "{ranges:?}");
        assert!(ranges.contains(&(60, 12 * DAY..12 * DAY + HOUR)), "{ranges:?}");
    }

    #[test]
    fn a_time_that_has_not_ended_is_read_in_detail_until_now() {
        let selection = Selection { from: 10 * DAY, to: 40 * DAY, ..Selection::default() };
        let now = 12 * DAY + 3 * HOUR + 65;
        let ranges = super::ranges(&selection, &(0..now));
        assert!(ranges.contains(&(HOUR, 12 * DAY..13 * DAY)), "{ranges:?}");
        let hour = 12 * DAY + 3 * HOUR;
        assert!(ranges.contains(&(60, hour..hour + HOUR)), "{ranges:?}");
    }

    #[test]
    fn steps_are_read_in_parts_and_nothing_before_the_first_count() {
        let selection = Selection { from: 0, to: 3 * HOUR, step: Some(60), ..Selection::default() };
        let minutes = |ranges: &[(u64, Range<u64>)]| {
            ranges
                .iter()
                .filter(|(step, _)| *step == 60)
                .map(|(_, r)| r.clone())
                .collect::<Vec<_>>()
        };
        let ranges = super::ranges(&selection, &(HOUR..9 * DAY));
        assert_eq!(minutes(&ranges), [HOUR..2 * HOUR, 2 * HOUR..3 * HOUR, 3 * HOUR..3 * HOUR + 60]);
    }
}
