//! Alerts on the usage of all nodes: one node evaluates them, on the sums in the database.
//!
//! An alert is evaluated for each minute, in order, so that an outage of the database delays events and
//! loses none. Nodes may report calls of a minute that was evaluated: then the minutes since the last one
//! that all nodes had reported are evaluated again. For each time in which an alert fires there is one
//! event; it is stored together with the state, in a transaction that checks that this node still has the
//! task. The node that has the task delivers events, and marks those that have left its queue: an event
//! may be delivered twice, with the same id and source, and is not lost with a node.

mod timeline;

use crate::database::{Connection, DatabaseError, Parameter, Transaction, bounded};
use crate::identity::Boot;
use crate::replicate::check_lease;
use crate::task;
use std::path::Path;
use timeline::{Minute, State, Timeline};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_events::alert;
use weir_events::delivery::Deliveries;
use weir_model::events::Alert;
use weir_monitor::DAY;
use weir_store::{StoreError, clock};

/// The task.
const TASK: &str = "alerts";
/// Seconds of a minute.
const MINUTE: u64 = 60;
/// Seconds from the end of a minute until nodes have replicated its calls: they are counted and sent about
/// once a second. What comes later is evaluated later.
const GRACE: u64 = 10;
/// Longest time that is evaluated afterwards, in seconds.
const MAX_BEHIND: u64 = DAY;
/// Most events that are queued at a time.
const MAX_EVENTS: i64 = 100;

/// Why alerts were not evaluated, or events not queued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AlertError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Queue(#[from] rusqlite::Error),
}

impl From<tokio_postgres::Error> for AlertError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Evaluates alerts while this node has the task.
#[derive(Debug)]
pub(crate) struct Alerts {
    queue: Deliveries,
    /// The end of the last minute that was evaluated here.
    evaluated: Option<u64>,
}

impl Alerts {
    /// Opens the queue of a data folder.
    pub(crate) fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self { queue: Deliveries::open(data)?, evaluated: None })
    }

    /// Takes the task or renews its lease, evaluates minutes that have ended, and queues events. Another
    /// node that has the task does so otherwise.
    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        (node, boot): (Uuid, Boot),
        fleet: &str,
        alerts: &[Alert],
    ) -> Result<(), AlertError> {
        let epoch = match alerts {
            [] => None,
            _ => task::claim(connection, TASK, node, boot).await?,
        };
        let Some(epoch) = epoch else {
            self.evaluated = None;
            return Ok(());
        };
        let now = "SELECT extract(epoch FROM now())::bigint";
        let now = connection.one(now, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs();
        let end = now.saturating_sub(GRACE);
        let end = end - end % MINUTE;
        if self.evaluated != Some(end) {
            evaluate_all(connection, (node, boot, epoch), alerts, end).await?;
            self.evaluated = Some(end);
        }
        self.deliver(connection, (node, boot, epoch), fleet, alerts).await
    }

    /// Queues events that are not delivered, and marks those that have left the queue.
    async fn deliver(
        &mut self,
        connection: &mut Connection,
        owner: (Uuid, Boot, i64),
        fleet: &str,
        alerts: &[Alert],
    ) -> Result<(), AlertError> {
        let sql = "SELECT alert, extract(epoch FROM minute)::bigint, data FROM weir.alert_event
             WHERE NOT delivered AND alert = ANY ($1) ORDER BY minute LIMIT $2";
        let names: Vec<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
        let parameters: [Parameter<'_>; 2] =
            [(&names, Type::TEXT_ARRAY), (&MAX_EVENTS, Type::INT8)];
        let (mut waiting, mut left) = (Vec::new(), Vec::new());
        for row in connection.query(sql, &parameters).await? {
            let (name, minute, data) = stored_event(&row)?;
            let Some(alert) = alerts.iter().find(|alert| alert.name == name) else { continue };
            let event = alert::event(alert, minute, data);
            let now = clock::now_us();
            match self.queue.queue_for_fleet(fleet, (&alert.sink, &event), now)? {
                true => left.push((name, minute)),
                false => waiting.push(event.id),
            }
        }
        if !left.is_empty() {
            let transaction = connection.transaction().await?;
            check_task(&transaction, owner).await?;
            for (name, minute) in &left {
                let sql = "UPDATE weir.alert_event SET delivered = true
                     WHERE alert = $1 AND minute = to_timestamp($2)";
                let minute = *minute as f64;
                transaction.execute(sql, &[(name, Type::TEXT), (&minute, Type::FLOAT8)]).await?;
            }
            transaction.commit().await?;
        }
        Ok(self.queue.forget_fleet_events(&waiting)?)
    }
}

fn stored_event(row: &Row) -> Result<(String, u64, serde_json::Value), tokio_postgres::Error> {
    let (minute, data): (i64, String) = (row.try_get(1)?, row.try_get(2)?);
    let data = serde_json::from_str(&data).unwrap_or_default();
    Ok((row.try_get(0)?, minute.unsigned_abs(), data))
}

/// Fails unless this process is the last boot of its node, and has the task with this epoch.
async fn check_task(
    transaction: &Transaction<'_>,
    (node, boot, epoch): (Uuid, Boot, i64),
) -> Result<(), DatabaseError> {
    check_lease(transaction, node, boot).await?;
    let sql = "SELECT 1 FROM weir.task
         WHERE name = $1 AND owner = $2 AND epoch = $3 AND until > now() FOR SHARE";
    let parameters: [Parameter<'_>; 3] =
        [(&TASK, Type::TEXT), (&node, Type::UUID), (&epoch, Type::INT8)];
    match transaction.one(sql, &parameters).await {
        Err(DatabaseError::Missing) => Err(DatabaseError::Fenced),
        other => other.map(drop),
    }
}

/// Evaluates all alerts for the minutes before `end`, in seconds since 1970.
async fn evaluate_all(
    connection: &mut Connection,
    owner: (Uuid, Boot, i64),
    alerts: &[Alert],
    end: u64,
) -> Result<(), DatabaseError> {
    let transaction = connection.transaction().await?;
    check_task(&transaction, owner).await?;
    let reports = reports(&transaction, end).await?;
    for alert in alerts {
        evaluate(&transaction, alert, &reports, end).await?;
    }
    let names: Vec<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let purge = "DELETE FROM weir.alert
         WHERE name <> ALL ($1) AND evaluated < now() - interval '1 day'";
    transaction.execute(purge, &[(&names, Type::TEXT_ARRAY)]).await?;
    let purge = "DELETE FROM weir.alert_event WHERE minute < now() - interval '7 days'";
    transaction.execute(purge, &[]).await?;
    transaction.commit().await
}

/// Up to when each node has reported its calls, in seconds since 1970; without nodes that have left, and
/// those that are not waited for any more.
async fn reports(transaction: &Transaction<'_>, end: u64) -> Result<Vec<u64>, DatabaseError> {
    let sql = "SELECT extract(epoch FROM counted_until)::bigint FROM weir.node
         WHERE state IN ('live', 'draining') AND counted_until > to_timestamp($1)";
    let first = end.saturating_sub(MAX_BEHIND) as f64;
    let rows = transaction.query(sql, &[(&first, Type::FLOAT8)]).await?;
    let until = |row: &Row| row.try_get::<_, i64>(0).map(i64::unsigned_abs);
    rows.iter().map(|row| until(row).map_err(Into::into)).collect()
}

/// The sum of the times up to which nodes have reported, each at most `end`: it changes when calls of a
/// time before may have been added.
fn reported(reports: &[u64], end: u64) -> i64 {
    bounded(reports.iter().map(|until| (*until).min(end)).sum())
}

async fn evaluate(
    transaction: &Transaction<'_>,
    alert: &Alert,
    reports: &[u64],
    end: u64,
) -> Result<(), DatabaseError> {
    let Progress { state, settled, reported: before } =
        progress(transaction, &alert.name, end).await?;
    let changed = before != reported(reports, state.until);
    let start = if changed { settled } else { state };
    let first = start.until.max(end.saturating_sub(MAX_BEHIND));
    let counts = counts(transaction, alert, first, end).await?;
    let mut timeline = Timeline::new(alert, State { until: first, ..start }, &counts);
    let complete = reports.iter().copied().min().unwrap_or(end).min(end);
    let all_reported = timeline.run(end, complete);
    let settled = if changed { all_reported } else { settled };
    for Minute { until, calls, errors, ended } in timeline.starts() {
        let data = alert::data(alert, until, calls, errors).to_string();
        // The time in which it fires may have begun earlier than was known.
        let sql = "INSERT INTO weir.alert_event (alert, minute, data)
             SELECT $1, to_timestamp($2), $4 WHERE NOT EXISTS (SELECT FROM weir.alert_event
                 WHERE alert = $1 AND minute >= to_timestamp($2) AND minute < to_timestamp($3))";
        let parameters: [Parameter<'_>; 4] = [
            (&alert.name, Type::TEXT),
            (&(until as f64), Type::FLOAT8),
            (&(ended as f64), Type::FLOAT8),
            (&data, Type::TEXT),
        ];
        transaction.execute(sql, &parameters).await?;
    }
    store(transaction, alert, timeline.state(), settled, reported(reports, end)).await
}

/// How far an alert is evaluated.
struct Progress {
    state: State,
    settled: State,
    reported: i64,
}

/// A new alert starts with the last minute before `end`.
async fn progress(
    transaction: &Transaction<'_>,
    alert: &str,
    end: u64,
) -> Result<Progress, DatabaseError> {
    let sql = "SELECT extract(epoch FROM evaluated)::bigint, firing,
             extract(epoch FROM settled)::bigint, settled_firing, reported
         FROM weir.alert WHERE name = $1 FOR UPDATE";
    let rows = transaction.query(sql, &[(&alert, Type::TEXT)]).await?;
    let Some(row) = rows.first() else {
        let state = State { until: end.saturating_sub(MINUTE), firing: false };
        return Ok(Progress { state, settled: state, reported: 0 });
    };
    let state = |index: usize| {
        let until = row.try_get::<_, i64>(index)?.unsigned_abs();
        Ok::<_, tokio_postgres::Error>(State { until, firing: row.try_get(index + 1)? })
    };
    Ok(Progress { state: state(0)?, settled: state(2)?, reported: row.try_get(4)? })
}

async fn store(
    transaction: &Transaction<'_>,
    alert: &Alert,
    state: State,
    settled: State,
    reported: i64,
) -> Result<(), DatabaseError> {
    let sql =
        "INSERT INTO weir.alert AS a (name, evaluated, firing, settled, settled_firing, reported)
         VALUES ($1, to_timestamp($2), $3, to_timestamp($4), $5, $6)
         ON CONFLICT (name) DO UPDATE SET evaluated = excluded.evaluated, firing = excluded.firing,
             settled = excluded.settled, settled_firing = excluded.settled_firing,
             reported = excluded.reported";
    let parameters: [Parameter<'_>; 6] = [
        (&alert.name, Type::TEXT),
        (&(state.until as f64), Type::FLOAT8),
        (&state.firing, Type::BOOL),
        (&(settled.until as f64), Type::FLOAT8),
        (&settled.firing, Type::BOOL),
        (&reported, Type::INT8),
    ];
    transaction.execute(sql, &parameters).await.map(drop)
}

/// Calls and errors of the minutes that the windows of an alert have which end after `first`, in order.
async fn counts(
    transaction: &Transaction<'_>,
    alert: &Alert,
    first: u64,
    end: u64,
) -> Result<Vec<(u64, u64, u64)>, DatabaseError> {
    let sql = "SELECT extract(epoch FROM b.start)::bigint, sum(b.calls)::bigint,
             coalesce(sum(b.calls) FILTER (WHERE s.status IN (0, 5)), 0)::bigint
         FROM weir.bucket b JOIN weir.series s ON s.id = b.series
         WHERE b.step = 60 AND b.start >= to_timestamp($1) AND b.start < to_timestamp($2)
             AND (cardinality($3::text[]) = 0 OR s.api = ANY ($3))
             AND (cardinality($4::text[]) = 0 OR s.consumer = ANY ($4))
         GROUP BY 1 ORDER BY 1";
    let from = (first + MINUTE).saturating_sub(alert.over.as_secs()) as f64;
    let parameters: [Parameter<'_>; 4] = [
        (&from, Type::FLOAT8),
        (&(end as f64), Type::FLOAT8),
        (&alert.apis, Type::TEXT_ARRAY),
        (&alert.consumers, Type::TEXT_ARRAY),
    ];
    let rows = transaction.query(sql, &parameters).await?;
    let counts = rows.iter().map(|row| {
        let number = |index| row.try_get::<_, i64>(index).map(i64::unsigned_abs);
        Ok((number(0)?, number(1)?, number(2)?))
    });
    counts.collect::<Result<_, tokio_postgres::Error>>().map_err(Into::into)
}
