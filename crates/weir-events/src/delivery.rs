//! The delivery queue: one durable queue for events of usage, alerts and triggers.
//!
//! An event is queued in the transaction that records its source as handled, so none is lost and
//! none is queued twice. It is removed once its sink has confirmed it. After a crash between the two
//! it is posted again, with the same id: delivery is at least once.
//!
//! Each sink has room for [`MAX_WAITING`] events; beyond that its oldest ones are dropped. Events that
//! were not delivered for [`MAX_AGE`] are dropped, too. Both are counted; there is no dead letter queue. So a sink that is down holds
//! up neither the events of other sinks nor the journal.

use rusqlite::{Connection, params};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use utoipa::ToSchema;
use weir_model::UnixMicros;
use weir_model::events::Sink;
use weir_store::StoreError;
use weir_store::clock::now_us;

/// Most events that wait for a sink.
pub const MAX_WAITING: u64 = 100_000;
/// Longest time that an event waits.
pub const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Delay after the first failed attempt; it doubles with each further one.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Longest delay between two attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(300);

/// A CloudEvent 1.0, without the source, which the queue adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Unique for this source.
    pub id: String,
    /// Part of weir that it is from: the end of the source `urn:weir:ID:PART`.
    pub part: &'static str,
    /// The type of event.
    pub kind: String,
    /// Its subject; may be empty.
    pub subject: String,
    /// Time of its occurrence, in microseconds since 1970.
    pub time_us: u64,
    /// Its data.
    pub data: Value,
}

/// An event that is due for delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEvent {
    /// Its number in the queue.
    pub number: i64,
    /// Path of the request.
    pub path: String,
    /// The event in the JSON format of CloudEvents.
    pub event: String,
    /// Failed attempts so far.
    pub attempts: u32,
}

/// Result of a delivery attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sink confirmed the event.
    Delivered,
    /// It has to be retried.
    Retry,
}

/// Why events cannot be queued.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The database cannot be read or written.
    #[error("the database cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// The journal cannot be read, or its checkpoint not be written.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] std::io::Error),
}

/// Delivery queue of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SinkQueue {
    /// Name of the upstream.
    pub sink: String,
    /// Waiting events.
    pub waiting: u64,
    /// Age of the oldest waiting event in seconds; 0 if none waits.
    // The field is the time at which it was queued, in microseconds since 1970.
    #[serde(rename = "oldest_seconds", serialize_with = "age")]
    #[schema(value_type = f64)]
    pub oldest_us: u64,
    /// Events dropped because the queue was full.
    #[serde(rename = "overtaken")]
    pub overflowed: u64,
    /// Events dropped because they could not be delivered for a week.
    pub expired: u64,
}

/// The queues of all sinks, for other threads.
pub type SinkQueues = Arc<Mutex<Vec<SinkQueue>>>;

impl SinkQueue {
    /// Age of the oldest waiting event in seconds; 0 if none waits.
    #[must_use]
    pub fn oldest_seconds(&self) -> f64 {
        seconds_since(self.oldest_us)
    }
}

fn seconds_since(us: u64) -> f64 {
    let age = if us == 0 { 0 } else { now_us().saturating_sub(us) };
    age as f64 / 1e6
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn age<S: Serializer>(us: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(seconds_since(*us))
}

/// The delivery queue, on its own connection.
#[derive(Debug)]
pub struct Deliveries {
    connection: Connection,
    /// Most events that wait for a sink.
    limit: u64,
}

/// A transaction in which events are queued and their source is recorded as handled.
pub(crate) struct EventTransaction<'c> {
    pub(crate) database: rusqlite::Transaction<'c>,
    source: String,
    now_us: u64,
    limit: u64,
}

impl Deliveries {
    /// Opens the queue of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: weir_store::open(data)?, limit: MAX_WAITING })
    }

    /// Its connection, for other tables that the same thread reads and writes.
    pub fn database(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Starts a transaction that queues events.
    pub(crate) fn begin(&mut self, now_us: u64) -> rusqlite::Result<EventTransaction<'_>> {
        let database = self.connection.transaction()?;
        // It changes when this node joins a fleet, or turns out to be a copy of another one.
        let read = "SELECT id FROM event_source";
        let source = database.prepare_cached(read)?.query_row([], |row| row.get(0))?;
        Ok(EventTransaction { database, source, now_us, limit: self.limit })
    }

    /// Queues an event of the fleet, unless this node has done so before; its source names the fleet.
    /// Returns whether it has left the queue: its sink has confirmed it, or it was dropped, which is
    /// counted.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn queue_for_fleet(
        &mut self,
        fleet: &str,
        (sink, event): (&Sink, &Event),
        now_us: u64,
    ) -> rusqlite::Result<bool> {
        let mut batch = self.begin(now_us)?;
        batch.source = format!("fleet:{fleet}");
        let remember = "INSERT INTO fleet_event VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let place = params![event.id, sink.name, sink.path];
        if batch.database.execute(remember, place)? > 0 {
            batch.push(sink, event)?;
            batch.commit()?;
            return Ok(false);
        }
        let waits =
            "SELECT EXISTS (SELECT 1 FROM fleet_event f JOIN delivery d USING (sink, path, id)
                     WHERE f.id = ?1)";
        let waits: bool = batch.database.query_row(waits, [&event.id], |row| row.get(0))?;
        Ok(!waits)
    }

    /// Forgets events of the fleet that have left the queue, except these ids.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn forget_fleet_events(&mut self, except: &[String]) -> rusqlite::Result<()> {
        let gone = "SELECT id FROM fleet_event f WHERE NOT EXISTS (SELECT 1 FROM delivery d
                    WHERE d.sink = f.sink AND d.path = f.path AND d.id = f.id)";
        let gone: Vec<String> = self
            .connection
            .prepare_cached(gone)?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for id in gone.iter().filter(|id| !except.contains(id)) {
            self.connection.execute("DELETE FROM fleet_event WHERE id = ?1", [id])?;
        }
        Ok(())
    }

    /// Sinks with due events.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sinks(&self, now_us: u64) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT sink FROM delivery_sink s WHERE waiting > 0
             AND EXISTS (SELECT 1 FROM delivery d WHERE d.sink = s.sink AND d.due <= ?1)",
        )?;
        statement.query_map([to_stored(now_us)], |row| row.get(0))?.collect()
    }

    /// Due events of a sink, at most `limit`; those that waited longest come first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn due(&self, sink: &str, now_us: u64, limit: usize) -> rusqlite::Result<Vec<DueEvent>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT number, path, event, attempts FROM delivery
             WHERE sink = ?1 AND due <= ?2 ORDER BY due, number LIMIT ?3",
        )?;
        let due = statement.query_map(params![sink, to_stored(now_us), limit as i64], |row| {
            Ok(DueEvent {
                number: row.get(0)?,
                path: row.get(1)?,
                event: row.get(2)?,
                attempts: row.get(3)?,
            })
        })?;
        due.collect()
    }

    /// Persists the results of attempts.
    ///
    /// # Errors
    /// The database cannot be written; the events will be posted again.
    pub fn record_outcomes(
        &mut self,
        outcomes: &[(DueEvent, Outcome)],
        now_us: u64,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for (due, outcome) in outcomes {
            match outcome {
                Outcome::Delivered => {
                    transaction.execute("DELETE FROM delivery WHERE number = ?1", [due.number])?
                }
                Outcome::Retry => {
                    let attempts = due.attempts.saturating_add(1);
                    let due_us = now_us.saturating_add(retry_delay(attempts).as_micros() as u64);
                    transaction.execute(
                        "UPDATE delivery SET attempts = ?2, due = ?3 WHERE number = ?1",
                        params![due.number, attempts, to_stored(due_us)],
                    )?
                }
            };
        }
        transaction.commit()
    }

    /// Drops and counts events that are too old.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn drop_expired(&mut self, now_us: u64) -> rusqlite::Result<()> {
        let before = to_stored(now_us.saturating_sub(MAX_AGE.as_micros() as u64));
        let transaction = self.connection.transaction()?;
        for SinkQueue { sink, .. } in queues(&transaction)? {
            let drop = "DELETE FROM delivery WHERE sink = ?1 AND made < ?2";
            let dropped = transaction.execute(drop, params![sink, before])?;
            if dropped > 0 {
                let count = "UPDATE delivery_sink SET expired = expired + ?2 WHERE sink = ?1";
                transaction.execute(count, params![sink, dropped])?;
            }
        }
        transaction.commit()
    }

    /// The queues of all sinks that ever had one, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn queues(&self) -> rusqlite::Result<Vec<SinkQueue>> {
        queues(&self.connection)
    }
}

impl EventTransaction<'_> {
    /// Queues an event. If the queue of the sink is full, its oldest event is dropped. An event with
    /// the id of a waiting one is not queued.
    pub(crate) fn push(&mut self, to: &Sink, event: &Event) -> rusqlite::Result<()> {
        let mut insert = self.database.prepare_cached(
            "INSERT INTO delivery (sink, path, id, event, made, due)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING",
        )?;
        let (text, now) = (self.text(event), to_stored(self.now_us));
        if insert.execute(params![to.name, to.path, event.id, text, now])? == 0 {
            return Ok(());
        }
        let waiting = "SELECT waiting FROM delivery_sink WHERE sink = ?1";
        let mut waiting = self.database.prepare_cached(waiting)?;
        let waiting: u64 = waiting.query_row([&to.name], |row| row.get(0))?;
        let over = waiting.saturating_sub(self.limit);
        if over > 0 {
            let dropped = self.database.execute(
                "DELETE FROM delivery WHERE number IN
                 (SELECT number FROM delivery WHERE sink = ?1 ORDER BY made, number LIMIT ?2)",
                params![to.name, over],
            )?;
            let count = "UPDATE delivery_sink SET overtaken = overtaken + ?2 WHERE sink = ?1";
            self.database.execute(count, params![to.name, dropped])?;
        }
        Ok(())
    }

    /// In the JSON format of CloudEvents 1.0, section 3 (structured mode of the HTTP binding).
    fn text(&self, event: &Event) -> String {
        let mut text = json!({
            "specversion": "1.0",
            "id": event.id,
            "source": format!("urn:weir:{}:{}", self.source, event.part),
            "type": event.kind,
            "time": UnixMicros(event.time_us),
            "datacontenttype": "application/json",
        });
        // An empty one, as of calls without a consumer, is not valid.
        if !event.subject.is_empty() {
            text["subject"] = json!(event.subject);
        }
        text["data"] = event.data.clone();
        text.to_string()
    }

    /// Commits the events together with the state of their source.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        self.database.commit()
    }
}

fn queues(database: &Connection) -> rusqlite::Result<Vec<SinkQueue>> {
    // Called often: reads no events and counts none.
    let mut statement = database.prepare_cached(
        "SELECT sink, waiting, overtaken, expired, coalesce((SELECT min(made) FROM delivery d
             WHERE d.sink = s.sink), 0) FROM delivery_sink s ORDER BY sink",
    )?;
    let state = |row: &rusqlite::Row<'_>| {
        Ok(SinkQueue {
            sink: row.get(0)?,
            waiting: row.get(1)?,
            overflowed: row.get(2)?,
            expired: row.get(3)?,
            oldest_us: row.get(4)?,
        })
    };
    statement.query_map([], state)?.collect()
}

/// A time in the form of the database.
pub(crate) fn to_stored(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// The delay after a number of failed attempts. The events of a sink that is down do not become due
/// all at once, as not all of them were attempted.
#[must_use]
pub fn retry_delay(attempts: u32) -> Duration {
    let doubled = MIN_RETRY_DELAY.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    doubled.min(MAX_RETRY_DELAY)
}

#[cfg(test)]
mod tests;
