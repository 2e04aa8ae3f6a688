//! Events made of counts: one for each minute's bucket, and those of alerts.
//!
//! A bucket is told once its minute is over, and told again with a higher revision when calls are
//! counted in it later: whoever counts notes which buckets have changed. Alerts are looked at with each minute that is over; that one
//! holds is noted with its event, so that it is told again only after it has not held.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;
use weir_config::amount::Amount;
use weir_config::{Alert, AlertRule, Sink};
use weir_journal::failpoint;
use weir_store::clock::rfc3339;

use crate::delivery::{Address, Deliveries, Event, EventError};

/// Seconds of a minute.
const MINUTE: u64 = 60;
/// Seconds after its end until a minute counts as over: what ended in it has been counted by then.
const GRACE: u64 = 3;
/// Buckets told in one transaction.
const STEP: usize = 1000;

/// Makes events of counts.
#[derive(Debug, Default)]
pub struct UsageEvents {
    buckets: Option<Sink>,
    alerts: Vec<Alert>,
    /// The end of the last minute for which all was told.
    told: Option<u64>,
}

/// A bucket of a minute.
struct Bucket {
    start: u64,
    series: i64,
    revision: i64,
    names: [String; 4],
    status: u8,
    calls: u64,
    request_bytes: u64,
    response_bytes: u64,
    amount: Amount,
}

impl UsageEvents {
    /// Tells this from now on. Who wants buckets for the first time is told those from the minute
    /// of `now` on, which is in seconds since 1970.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn set(
        &mut self,
        buckets: Option<&Sink>,
        alerts: &[Alert],
        queue: &mut Deliveries,
        now: u64,
    ) -> Result<(), EventError> {
        let making = queue.make(0)?;
        let transaction = &making.transaction;
        match buckets {
            Some(_) => transaction.execute(
                "INSERT INTO bucket_cursor VALUES (1, ?1) ON CONFLICT DO NOTHING",
                [now - now % MINUTE],
            )?,
            None => {
                transaction.execute("DELETE FROM bucket_changed", [])?;
                transaction.execute("DELETE FROM bucket_cursor", [])?
            }
        };
        let known: Vec<String> = transaction
            .prepare_cached("SELECT name FROM alert")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for name in known.iter().filter(|name| alerts.iter().all(|alert| alert.name != **name)) {
            transaction.execute("DELETE FROM alert WHERE name = ?1", [name])?;
        }
        making.commit()?;
        self.buckets = buckets.cloned();
        self.alerts = alerts.to_vec();
        self.told = None;
        Ok(())
    }

    /// Makes what there is to be made at `now_us`; true if there is more.
    ///
    /// # Errors
    /// The database cannot be read or written. It can be called again.
    pub fn step(&mut self, queue: &mut Deliveries, now_us: u64) -> Result<bool, EventError> {
        let over = (now_us / 1_000_000).saturating_sub(GRACE);
        let over = over - over % MINUTE;
        if self.told == Some(over) || (self.buckets.is_none() && self.alerts.is_empty()) {
            return Ok(false);
        }
        if let Some(sink) = &self.buckets
            && tell_buckets(sink, queue, now_us, over)?
        {
            return Ok(true);
        }
        for alert in &self.alerts {
            look_at(alert, queue, now_us, over)?;
        }
        self.told = Some(over);
        Ok(false)
    }
}

/// Tells buckets of minutes before `over`; true if there are more.
fn tell_buckets(
    sink: &Sink,
    queue: &mut Deliveries,
    now_us: u64,
    over: u64,
) -> Result<bool, EventError> {
    // Looked for before: it may take long, and nobody else could write meanwhile. What is counted in
    // between is told with the next revision.
    let found = changed(queue.database(), over, STEP)?;
    let mut making = queue.make(now_us)?;
    for bucket in &found {
        // One that was dropped meanwhile is nothing to tell.
        if bucket.revision > 0 {
            making.push(Address::from(sink), &bucket_event(bucket))?;
        }
        making
            .transaction
            .prepare_cached(
                "DELETE FROM bucket_changed WHERE start = ?1 AND series = ?2 AND NOT EXISTS
                 (SELECT 1 FROM bucket WHERE step = 60 AND start = ?1 AND series = ?2
                  AND revision > ?3)",
            )?
            .execute(params![bucket.start, bucket.series, bucket.revision])?;
    }
    let more = found.len() >= STEP;
    failpoint::pass("bucket.make");
    making.commit()?;
    failpoint::pass("bucket.made");
    Ok(more)
}

fn changed(database: &Connection, over: u64, most: usize) -> rusqlite::Result<Vec<Bucket>> {
    let mut read = database.prepare_cached(
        "SELECT c.start, c.series, coalesce(b.revision, 0), coalesce(s.consumer, ''),
                coalesce(s.api, ''), coalesce(s.operation, ''), coalesce(s.plan, ''),
                coalesce(s.status, 0), coalesce(b.calls, 0), coalesce(b.request_bytes, 0),
                coalesce(b.response_bytes, 0), b.amount
         FROM bucket_changed c
         LEFT JOIN bucket b ON b.step = 60 AND b.start = c.start AND b.series = c.series
         LEFT JOIN series s ON s.id = b.series
         WHERE c.start < ?1 ORDER BY c.start, c.series LIMIT ?2",
    )?;
    let rows = read.query_map(params![over, most as i64], |row| {
        let units: Option<String> = row.get(11)?;
        Ok(Bucket {
            start: row.get(0)?,
            series: row.get(1)?,
            revision: row.get(2)?,
            names: [row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?],
            status: row.get(7)?,
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
    Event {
        id: format!("{start}-{series}-{revision}"),
        part: "monitor",
        kind: "weir.usage.bucket".to_owned(),
        subject: consumer.clone(),
        time_us: (start + MINUTE) * 1_000_000,
        data: json!({
            "bucket": format!("{start}-{series}"),
            "revision": revision,
            "start": rfc3339(start * 1_000_000),
            "seconds": MINUTE,
            "consumer": consumer,
            "api": api,
            "operation": operation,
            "plan": plan,
            "status": status,
            "calls": bucket.calls,
            "request_bytes": bucket.request_bytes,
            "response_bytes": bucket.response_bytes,
            "amount": bucket.amount.to_string(),
        }),
    }
}

/// Looks whether an alert holds for the minutes before `over`, and tells it if it has begun to.
fn look_at(
    alert: &Alert,
    queue: &mut Deliveries,
    now_us: u64,
    over: u64,
) -> Result<(), EventError> {
    let mut making = queue.make(now_us)?;
    let from = over.saturating_sub(alert.over.as_secs());
    let (calls, errors) = calls(&making.transaction, alert, from, over)?;
    let holds = match alert.rule {
        AlertRule::Calls { above } => calls > above,
        AlertRule::ErrorRate { above, at_least } => {
            let share = u128::from(errors) * 10_000;
            calls >= at_least && share > u128::from(above) * u128::from(calls)
        }
    };
    let held: Option<i64> = making
        .transaction
        .prepare_cached("SELECT since FROM alert WHERE name = ?1")?
        .query_row([&alert.name], |row| row.get(0))
        .optional()?;
    match (holds, held) {
        (true, None) => {
            making
                .push(Address::from(&alert.sink), &alert_event(alert, from, over, calls, errors))?;
            making
                .transaction
                .execute("INSERT INTO alert VALUES (?1, ?2)", params![alert.name, over])?;
        }
        (false, Some(_)) => {
            making.transaction.execute("DELETE FROM alert WHERE name = ?1", [&alert.name])?;
        }
        (true, Some(_)) | (false, None) => return Ok(()),
    }
    failpoint::pass("alert.make");
    making.commit()?;
    failpoint::pass("alert.made");
    Ok(())
}

/// Calls that an alert looks at, and those of them without an answer below status 500.
fn calls(database: &Connection, alert: &Alert, from: u64, to: u64) -> rusqlite::Result<(u64, u64)> {
    let mut read = database.prepare_cached(
        "SELECT s.api, s.consumer, s.status, sum(b.calls) FROM bucket b
         JOIN series s ON s.id = b.series
         WHERE b.step = 60 AND b.start >= ?1 AND b.start < ?2 GROUP BY 1, 2, 3",
    )?;
    let mut rows = read.query(params![from, to])?;
    let is_for = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let (mut calls, mut errors) = (0, 0);
    while let Some(row) = rows.next()? {
        let (api, consumer): (String, String) = (row.get(0)?, row.get(1)?);
        if !is_for(&alert.apis, &api) || !is_for(&alert.consumers, &consumer) {
            continue;
        }
        let (status, count): (u8, u64) = (row.get(2)?, row.get(3)?);
        calls += count;
        errors += if matches!(status, 0 | 5) { count } else { 0 };
    }
    Ok((calls, errors))
}

fn alert_event(alert: &Alert, from: u64, to: u64, calls: u64, errors: u64) -> Event {
    let rule = match alert.rule {
        AlertRule::Calls { above } => json!({"calls": above}),
        AlertRule::ErrorRate { above, at_least } => {
            json!({"error_rate_percent": f64::from(above) / 100.0, "at_least": at_least})
        }
    };
    Event {
        id: format!("{}-{to}", alert.name),
        part: "monitor",
        kind: "weir.usage.alert".to_owned(),
        subject: alert.name.clone(),
        time_us: to * 1_000_000,
        data: json!({
            "alert": alert.name,
            "above": rule,
            "from": rfc3339(from * 1_000_000),
            "to": rfc3339(to * 1_000_000),
            "apis": alert.apis,
            "consumers": alert.consumers,
            "calls": calls,
            "errors": errors,
        }),
    }
}

#[cfg(test)]
mod tests;
