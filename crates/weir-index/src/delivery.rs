//! Events that wait to be posted: one durable queue for those of the Monitor, of alerts and of
//! triggers.
//!
//! Whoever makes an event puts it here in the transaction in which it notes that it has been made,
//! so none is lost and none is made twice. An event is taken out once its sink has answered that it
//! has it; after a crash between the two it is posted again, with the same id. The queue has at
//! most [`MOST`] events: while it is full none is made, and whoever makes them goes on later where
//! it was. An event that nobody has taken for a week is given up and counted, so that a sink that is
//! gone for good stops nothing else for good.

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

use crate::store::{self, StoreError};

/// The schema of its tables.
pub(crate) const SCHEMA: &str = include_str!("delivery/schema.sql");

/// Most events that wait.
pub const MOST: usize = 100_000;
/// How long an event waits at most.
pub const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Pause after the first attempt in vain; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A CloudEvent 1.0 without its source, which the queue knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Unique for this source.
    pub id: String,
    /// What part of weir it is from, behind `urn:weir:ID:`.
    pub part: &'static str,
    /// The type of event.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// When it happened, in microseconds since 1970.
    pub time_us: u64,
    /// Its data.
    pub data: Value,
}

/// Where an event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// Name of the upstream.
    pub sink: &'a str,
    /// Path of the request.
    pub path: &'a str,
}

impl<'a> From<&'a weir_config::Sink> for Address<'a> {
    fn from(sink: &'a weir_config::Sink) -> Self {
        Self { sink: &sink.name, path: &sink.path }
    }
}

/// An event that is to be posted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its number in the queue.
    pub number: i64,
    /// Path of the request.
    pub path: String,
    /// The event in CloudEvents' JSON format.
    pub event: String,
    /// Attempts in vain so far.
    pub attempts: u32,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sink has it.
    Delivered,
    /// It has to be tried again.
    Again,
}

/// Why events could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The database could not be read or written.
    #[error("the database cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// The journal could not be read, or not told how far it was read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] std::io::Error),
}

/// What the queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryState {
    /// Events that wait.
    pub waiting: u64,
    /// When the oldest of them was made, in microseconds since 1970; 0 if there is none.
    pub oldest_us: u64,
}

/// The queue, on a connection of its own.
#[derive(Debug)]
pub struct Deliveries {
    connection: Connection,
    source: String,
}

/// Events are made in such a transaction, together with the note that they have been.
pub(crate) struct Making<'c> {
    pub(crate) transaction: rusqlite::Transaction<'c>,
    source: &'c str,
    now_us: u64,
    pub(crate) room: usize,
}

impl Deliveries {
    /// Opens the queue of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = store::open(data)?;
        let source = connection
            .query_row("SELECT id FROM event_source", [], |row| row.get(0))
            .map_err(|source| StoreError::Database { path: data.to_owned(), source })?;
        Ok(Self { connection, source })
    }

    /// To read what others write.
    pub(crate) fn database(&self) -> &Connection {
        &self.connection
    }

    /// Events for which there is room.
    pub(crate) fn room(&self) -> rusqlite::Result<usize> {
        room(&self.connection)
    }

    /// Begins to make events.
    pub(crate) fn make(&mut self, now_us: u64) -> rusqlite::Result<Making<'_>> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let room = room(&transaction)?;
        Ok(Making { transaction, source: &self.source, now_us, room })
    }

    /// Sinks for which there is something to be posted now.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sinks(&self, now_us: u64) -> rusqlite::Result<Vec<String>> {
        let mut statement =
            self.connection.prepare_cached("SELECT DISTINCT sink FROM delivery WHERE due <= ?1")?;
        statement.query_map([stored(now_us)], |row| row.get(0))?.collect()
    }

    /// What is to be posted to a sink now, at most `most`: what has waited longest comes first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn due(&self, sink: &str, now_us: u64, most: usize) -> rusqlite::Result<Vec<Due>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT number, path, event, attempts FROM delivery
             WHERE sink = ?1 AND due <= ?2 ORDER BY due, number LIMIT ?3",
        )?;
        let due = statement.query_map(params![sink, stored(now_us), most as i64], |row| {
            Ok(Due {
                number: row.get(0)?,
                path: row.get(1)?,
                event: row.get(2)?,
                attempts: row.get(3)?,
            })
        })?;
        due.collect()
    }

    /// Notes, durably, what became of attempts.
    ///
    /// # Errors
    /// The database cannot be written: they will be made again.
    pub fn settle(&mut self, outcomes: &[(Due, Outcome)], now_us: u64) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (due, outcome) in outcomes {
            match outcome {
                Outcome::Delivered => transaction
                    .prepare_cached("DELETE FROM delivery WHERE number = ?1")?
                    .execute([due.number])?,
                Outcome::Again => {
                    let attempts = due.attempts.saturating_add(1);
                    let pause = u64::try_from(pause(attempts).as_micros()).unwrap_or(u64::MAX);
                    transaction
                        .prepare_cached(
                            "UPDATE delivery SET attempts = ?2, due = ?3 WHERE number = ?1",
                        )?
                        .execute(params![
                            due.number,
                            attempts,
                            stored(now_us.saturating_add(pause))
                        ])?
                }
            };
        }
        transaction.commit()
    }

    /// Gives up what has waited too long; gives how much that was.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn give_up(&mut self, now_us: u64) -> rusqlite::Result<u64> {
        let before = now_us.saturating_sub(LONGEST_WAIT.as_micros() as u64);
        let given_up =
            self.connection.execute("DELETE FROM delivery WHERE made < ?1", [stored(before)])?;
        Ok(given_up as u64)
    }

    /// What waits.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn state(&self) -> rusqlite::Result<DeliveryState> {
        // Looked at all the time: the oldest is the first, and what events say is not read.
        let mut statement = self.connection.prepare_cached(
            "SELECT count(*), coalesce((SELECT made FROM delivery ORDER BY number LIMIT 1), 0)
             FROM delivery",
        )?;
        statement
            .query_row([], |row| Ok(DeliveryState { waiting: row.get(0)?, oldest_us: row.get(1)? }))
    }
}

impl Making<'_> {
    /// Puts an event into the queue. One that waits there already, by its id, is not made twice.
    pub(crate) fn push(&mut self, to: Address<'_>, event: &Event) -> rusqlite::Result<()> {
        let pushed = self
            .transaction
            .prepare_cached(
                "INSERT INTO delivery (sink, path, id, event, made, due)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![to.sink, to.path, event.id, self.text(event), stored(self.now_us)])?;
        self.room = self.room.saturating_sub(pushed);
        Ok(())
    }

    /// In the JSON format of CloudEvents 1.0, section 3 (structured mode of the HTTP binding).
    fn text(&self, event: &Event) -> String {
        json!({
            "specversion": "1.0",
            "id": event.id,
            "source": format!("urn:weir:{}:{}", self.source, event.part),
            "type": event.kind,
            "subject": event.subject,
            "time": time(event.time_us),
            "datacontenttype": "application/json",
            "data": event.data,
        })
        .to_string()
    }

    /// Makes it durable: the events, and that they have been made.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        self.transaction.commit()
    }
}

fn room(database: &Connection) -> rusqlite::Result<usize> {
    let waiting: usize = database
        .prepare_cached("SELECT count(*) FROM delivery")?
        .query_row([], |row| row.get(0))?;
    Ok(MOST.saturating_sub(waiting))
}

/// RFC 3339, UTC.
pub(crate) fn time(us: u64) -> String {
    let time = i64::try_from(us).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    time.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// A time as the database has it.
pub(crate) fn stored(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// How long an event waits after so many attempts in vain. A sink that is down has all its events
/// wait, but not all of them become due at once: they were not all tried.
#[must_use]
pub fn pause(attempts: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    doubled.min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const TO: Address<'_> = Address { sink: "hooks", path: "/in" };

    fn event(id: &str) -> Event {
        Event {
            id: id.to_owned(),
            part: "test",
            kind: "weir.test".to_owned(),
            subject: "s".to_owned(),
            time_us: 1_767_225_630_000_000,
            data: json!({"n": 1}),
        }
    }

    fn queue(ids: &[&str]) -> (tempfile::TempDir, Deliveries) {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Deliveries::open(folder.path()).unwrap();
        let mut making = queue.make(SECOND).unwrap();
        ids.iter().for_each(|id| making.push(TO, &event(id)).unwrap());
        making.commit().unwrap();
        (folder, queue)
    }

    fn ids(queue: &Deliveries, now_us: u64) -> Vec<String> {
        let due = queue.due("hooks", now_us, 100).unwrap().into_iter();
        due.map(|due| serde_json::from_str::<Value>(&due.event).unwrap()["id"].to_string())
            .collect()
    }

    #[test]
    fn an_event_is_a_cloud_event() {
        let (_folder, queue) = queue(&["a"]);
        let due = queue.due("hooks", SECOND, 9).unwrap().remove(0);
        let event: Value = serde_json::from_str(&due.event).unwrap();
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["time"], "2026-01-01T00:00:30Z");
        let source = event["source"].as_str().unwrap();
        assert!(source.starts_with("urn:weir:") && source.ends_with(":test"), "{source}");
        assert_eq!((due.path.as_str(), &event["data"]["n"]), ("/in", &json!(1)));
    }

    #[test]
    fn what_is_delivered_is_gone_and_what_is_not_comes_again_later() {
        let (folder, mut queue) = queue(&["a", "b"]);
        let mut due = queue.due("hooks", SECOND, 9).unwrap();
        let (second, first) = (due.pop().unwrap(), due.pop().unwrap());
        queue.settle(&[(first, Outcome::Delivered), (second, Outcome::Again)], SECOND).unwrap();
        assert!(ids(&queue, SECOND + 499_999).is_empty());
        assert!(queue.sinks(SECOND + 499_999).unwrap().is_empty());
        drop(queue);
        let queue = Deliveries::open(folder.path()).unwrap();
        assert_eq!(ids(&queue, SECOND + 500_000), ["\"b\""]);
        assert_eq!(queue.sinks(2 * SECOND).unwrap(), ["hooks"]);
        assert_eq!(queue.state().unwrap(), DeliveryState { waiting: 1, oldest_us: SECOND });
    }

    #[test]
    fn what_is_not_committed_was_not_made() {
        let (_folder, mut queue) = queue(&["a"]);
        let mut making = queue.make(SECOND).unwrap();
        making.push(TO, &event("b")).unwrap();
        drop(making);
        assert_eq!(ids(&queue, SECOND), ["\"a\""]);
    }

    #[test]
    fn an_event_waits_only_once() {
        let (_folder, mut queue) = queue(&["a", "a", "b"]);
        assert_eq!(ids(&queue, SECOND), ["\"a\"", "\"b\""]);
        let making = queue.make(SECOND).unwrap();
        assert_eq!(making.room, MOST - 2);
    }

    #[test]
    fn what_nobody_takes_for_a_week_is_given_up() {
        let (_folder, mut queue) = queue(&["a"]);
        let week = LONGEST_WAIT.as_micros() as u64;
        assert_eq!(queue.give_up(SECOND + week).unwrap(), 0);
        assert_eq!(queue.give_up(SECOND + week + 1).unwrap(), 1);
        assert_eq!(queue.state().unwrap(), DeliveryState::default());
    }

    #[test]
    fn pauses_double_up_to_five_minutes() {
        let pauses = [1, 2, 3, 10, 11, 60, u32::MAX].map(|n| pause(n).as_millis());
        assert_eq!(pauses, [500, 1000, 2000, 256_000, 300_000, 300_000, 300_000]);
    }
}
