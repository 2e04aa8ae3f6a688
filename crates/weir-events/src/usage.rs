//! Events of counts: one for each bucket of a minute, and one for each alert that fires.
//!
//! The event of a bucket is queued once its minute has ended, and again with a higher revision if
//! calls are counted in it later: the counter records changed buckets. Alerts are evaluated with each
//! minute that has ended. That an alert is firing is stored with its event, so that the next event
//! follows only after the alert has ceased.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;
use weir_journal::failpoint;
use weir_model::events::{Alert, Sink};
use weir_model::{Amount, UnixSeconds};

use crate::alert;
use crate::delivery::{Deliveries, Event, EventError};

/// Seconds of a minute.
const MINUTE: u64 = 60;
/// Seconds from the end of a minute until its calls are counted.
const GRACE: u64 = 3;
/// Most buckets of one transaction.
const BATCH: usize = 1000;

/// Queues events of counts.
#[derive(Debug, Default)]
pub struct UsageEvents {
    buckets: Option<Sink>,
    alerts: Vec<Alert>,
    /// The end of the last minute for which all events are queued.
    queued_until: Option<u64>,
}

/// A bucket of a minute.
struct Bucket {
    start: u64,
    series: i64,
    revision: i64,
    names: [String; 4],
    status: u8,
    unbilled: u16,
    calls: u64,
    request_bytes: u64,
    response_bytes: u64,
    amount: Amount,
}

impl UsageEvents {
    /// Changes the configuration. With a first sink for buckets, their events start with the minute
    /// of `now`, which is in seconds since 1970.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn configure(
        &mut self,
        buckets: Option<&Sink>,
        alerts: &[Alert],
        queue: &mut Deliveries,
        now: u64,
    ) -> Result<(), EventError> {
        let batch = queue.begin(0)?;
        let database = &batch.database;
        match buckets {
            Some(_) => database.execute(
                "INSERT INTO bucket_cursor VALUES (1, ?1) ON CONFLICT DO NOTHING",
                [now - now % MINUTE],
            )?,
            None => {
                database.execute("DELETE FROM bucket_changed", [])?;
                database.execute("DELETE FROM bucket_cursor", [])?
            }
        };
        let known: Vec<String> = database
            .prepare_cached("SELECT name FROM alert")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for name in known.iter().filter(|name| alerts.iter().all(|alert| alert.name != **name)) {
            database.execute("DELETE FROM alert WHERE name = ?1", [name])?;
        }
        batch.commit()?;
        self.buckets = buckets.cloned();
        self.alerts = alerts.to_vec();
        self.queued_until = None;
        Ok(())
    }

    /// Queues the events that are due at `now_us`; true if there are more.
    ///
    /// # Errors
    /// The database cannot be read or written. It can be called again.
    pub fn step(&mut self, queue: &mut Deliveries, now_us: u64) -> Result<bool, EventError> {
        let end = (now_us / 1_000_000).saturating_sub(GRACE);
        let end = end - end % MINUTE;
        if self.queued_until == Some(end) || (self.buckets.is_none() && self.alerts.is_empty()) {
            return Ok(false);
        }
        if let Some(sink) = &self.buckets
            && queue_buckets(sink, queue, now_us, end)?
        {
            return Ok(true);
        }
        for alert in &self.alerts {
            evaluate(alert, queue, now_us, end)?;
        }
        self.queued_until = Some(end);
        Ok(false)
    }
}

/// Queues events of buckets of minutes before `end`; true if there are more.
fn queue_buckets(
    sink: &Sink,
    queue: &mut Deliveries,
    now_us: u64,
    end: u64,
) -> Result<bool, EventError> {
    // Read before the transaction: it may take long and would block other writers. Calls counted in
    // between follow with the next revision.
    let found = changed(queue.database(), end, BATCH)?;
    let mut batch = queue.begin(now_us)?;
    for bucket in &found {
        // The bucket may have been purged.
        if bucket.revision > 0 {
            batch.push(sink, &bucket_event(bucket))?;
        }
        let mut handled = batch.database.prepare_cached(
            "DELETE FROM bucket_changed WHERE start = ?1 AND series = ?2 AND NOT EXISTS
             (SELECT 1 FROM bucket WHERE step = 60 AND start = ?1 AND series = ?2
              AND revision > ?3)",
        )?;
        handled.execute(params![bucket.start, bucket.series, bucket.revision])?;
    }
    let more = found.len() >= BATCH;
    failpoint::pass("bucket.make");
    batch.commit()?;
    failpoint::pass("bucket.made");
    Ok(more)
}

fn changed(database: &Connection, end: u64, limit: usize) -> rusqlite::Result<Vec<Bucket>> {
    let mut read = database.prepare_cached(
        "SELECT c.start, c.series, coalesce(b.revision, 0), coalesce(s.consumer, ''),
                coalesce(s.api, ''), coalesce(s.operation, ''), coalesce(s.plan, ''),
                coalesce(s.status, 0), coalesce(b.calls, 0), coalesce(b.request_bytes, 0),
                coalesce(b.response_bytes, 0), b.amount, coalesce(s.unbilled, 0)
         FROM bucket_changed c
         LEFT JOIN bucket b ON b.step = 60 AND b.start = c.start AND b.series = c.series
         LEFT JOIN series s ON s.id = b.series
         WHERE c.start < ?1 ORDER BY c.start, c.series LIMIT ?2",
    )?;
    let rows = read.query_map(params![end, limit as i64], |row| {
        let units: Option<String> = row.get(11)?;
        Ok(Bucket {
            start: row.get(0)?,
            series: row.get(1)?,
            revision: row.get(2)?,
            names: [row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?],
            status: row.get(7)?,
            unbilled: row.get(12)?,
            calls: row.get(8)?,
            request_bytes: row.get(9)?,
            response_bytes: row.get(10)?,
            amount: Amount::from_units(units.and_then(|text| text.parse().ok()).unwrap_or(0)),
        })
    })?;
    rows.collect()
}

fn bucket_event(bucket: &Bucket) -> Event {
    let [consumer, api, operation, plan] = &bucket.names;
    let Bucket { start, series, revision, .. } = bucket;
    let status = match bucket.status {
        0 => "none".to_owned(),
        class => format!("{class}xx"),
    };
    // Who adds up amounts must not bill these.
    let (amount, unbilled_amount) = match bucket.unbilled {
        0 => (bucket.amount, Amount::ZERO),
        _ => (Amount::ZERO, bucket.amount),
    };
    Event {
        id: format!("{start}-{series}-{revision}"),
        part: "monitor",
        kind: "weir.usage.bucket".to_owned(),
        subject: consumer.clone(),
        time_us: (start + MINUTE) * 1_000_000,
        data: json!({
            "bucket": format!("{start}-{series}"),
            "revision": revision,
            "start": UnixSeconds(*start),
            "seconds": MINUTE,
            "consumer": consumer,
            "api": api,
            "operation": operation,
            "plan": plan,
            "status": status,
            "calls": bucket.calls,
            "request_bytes": bucket.request_bytes,
            "response_bytes": bucket.response_bytes,
            "amount": amount.to_string(),
            "unbilled": bucket.unbilled,
            "unbilled_amount": unbilled_amount.to_string(),
        }),
    }
}

/// Evaluates an alert for the minutes before `end`, and queues its event if it starts to fire.
fn evaluate(
    alert: &Alert,
    queue: &mut Deliveries,
    now_us: u64,
    end: u64,
) -> Result<(), EventError> {
    let mut batch = queue.begin(now_us)?;
    let from = end.saturating_sub(alert.over.as_secs());
    let (calls, errors) = calls(&batch.database, alert, from, end)?;
    let fires = alert::fires(&alert.rule, calls, errors);
    let firing_since: Option<i64> = batch
        .database
        .prepare_cached("SELECT since FROM alert WHERE name = ?1")?
        .query_row([&alert.name], |row| row.get(0))
        .optional()?;
    match (fires, firing_since) {
        (true, None) => {
            batch.push(
                &alert.sink,
                &alert::event(alert, end, alert::data(alert, end, calls, errors)),
            )?;
            let fired = "INSERT INTO alert VALUES (?1, ?2)";
            batch.database.execute(fired, params![alert.name, end])?;
        }
        (false, Some(_)) => {
            batch.database.execute("DELETE FROM alert WHERE name = ?1", [&alert.name])?;
        }
        (true, Some(_)) | (false, None) => return Ok(()),
    }
    failpoint::pass("alert.make");
    batch.commit()?;
    failpoint::pass("alert.made");
    Ok(())
}

/// Calls that an alert evaluates, and those of them without a response below status 500.
fn calls(database: &Connection, alert: &Alert, from: u64, to: u64) -> rusqlite::Result<(u64, u64)> {
    let mut read = database.prepare_cached(
        "SELECT s.api, s.consumer, s.status, sum(b.calls) FROM bucket b
         JOIN series s ON s.id = b.series
         WHERE b.step = 60 AND b.start >= ?1 AND b.start < ?2 GROUP BY 1, 2, 3",
    )?;
    let mut rows = read.query(params![from, to])?;
    let includes =
        |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let (mut calls, mut errors) = (0, 0);
    while let Some(row) = rows.next()? {
        let (api, consumer): (String, String) = (row.get(0)?, row.get(1)?);
        if !includes(&alert.apis, &api) || !includes(&alert.consumers, &consumer) {
            continue;
        }
        let (status, count): (u8, u64) = (row.get(2)?, row.get(3)?);
        calls += count;
        errors += if matches!(status, 0 | 5) { count } else { 0 };
    }
    Ok((calls, errors))
}

#[cfg(test)]
mod tests;
