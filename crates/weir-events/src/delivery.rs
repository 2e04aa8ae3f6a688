//! Events that wait to be posted: one durable queue for those of the Monitor, of alerts and of
//! triggers.
//!
//! Whoever makes an event puts it here in the transaction in which it notes that it has been made,
//! so none is lost and none is made twice. An event is taken out once its sink has answered that it
//! has it; after a crash between the two it is posted again, with the same id.
//!
//! Each sink has room for [`MOST`] events. One that takes none loses its oldest for newer ones, and
//! what nobody has taken for a week is given up: both are counted. So making events never waits for
//! a sink, and a sink that is gone holds back neither the events of others nor the journal.

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

use weir_store::StoreError;
use weir_store::clock::rfc3339;

/// Most events that wait for a sink.
pub const MOST: u64 = 100_000;
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

/// What the queue has for a sink, and what it has given up since there is this database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkQueue {
    /// Name of the upstream.
    pub sink: String,
    /// Events that wait.
    pub waiting: u64,
    /// When the oldest of them was made, in microseconds since 1970; 0 if there is none.
    pub oldest_us: u64,
    /// Events given up because there was no room for newer ones.
    pub overtaken: u64,
    /// Events given up because nobody had taken them for [`LONGEST_WAIT`].
    pub expired: u64,
}

/// The queue, on a connection of its own.
#[derive(Debug)]
pub struct Deliveries {
    connection: Connection,
    source: String,
    /// Most events that wait for a sink.
    most: u64,
}

/// Events are made in such a transaction, together with the note that they have been.
pub(crate) struct Making<'c> {
    pub(crate) transaction: rusqlite::Transaction<'c>,
    source: &'c str,
    now_us: u64,
    most: u64,
}

impl Deliveries {
    /// Opens the queue of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = weir_store::open(data)?;
        let source = connection
            .query_row("SELECT id FROM event_source", [], |row| row.get(0))
            .map_err(|source| StoreError::Database { path: data.to_owned(), source })?;
        Ok(Self { connection, source, most: MOST })
    }

    /// Its connection, for other tables that the same thread reads and writes.
    pub fn database(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Begins to make events.
    pub(crate) fn make(&mut self, now_us: u64) -> rusqlite::Result<Making<'_>> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(Making { transaction, source: &self.source, now_us, most: self.most })
    }

    /// Sinks for which there is something to be posted now.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sinks(&self, now_us: u64) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT sink FROM delivery_sink s WHERE waiting > 0
             AND EXISTS (SELECT 1 FROM delivery d WHERE d.sink = s.sink AND d.due <= ?1)",
        )?;
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

    /// Gives up, and counts, what has waited too long.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn give_up(&mut self, now_us: u64) -> rusqlite::Result<()> {
        let before = stored(now_us.saturating_sub(LONGEST_WAIT.as_micros() as u64));
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for SinkQueue { sink, .. } in states(&transaction)? {
            let given_up = transaction
                .prepare_cached("DELETE FROM delivery WHERE sink = ?1 AND made < ?2")?
                .execute(params![sink, before])?;
            if given_up > 0 {
                transaction
                    .prepare_cached(
                        "UPDATE delivery_sink SET expired = expired + ?2 WHERE sink = ?1",
                    )?
                    .execute(params![sink, given_up])?;
            }
        }
        transaction.commit()
    }

    /// What waits for each sink there has been, by name, and what was given up.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn state(&self) -> rusqlite::Result<Vec<SinkQueue>> {
        states(&self.connection)
    }
}

impl Making<'_> {
    /// Puts an event into the queue; where its sink has no room left, the oldest one of that sink
    /// goes. One that waits there already, by its id, is not made twice.
    pub(crate) fn push(&mut self, to: Address<'_>, event: &Event) -> rusqlite::Result<()> {
        let pushed = self
            .transaction
            .prepare_cached(
                "INSERT INTO delivery (sink, path, id, event, made, due)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![to.sink, to.path, event.id, self.text(event), stored(self.now_us)])?;
        if pushed == 0 {
            return Ok(());
        }
        let over: u64 = self
            .transaction
            .prepare_cached("SELECT waiting FROM delivery_sink WHERE sink = ?1")?
            .query_row([to.sink], |row| row.get::<_, u64>(0))?
            .saturating_sub(self.most);
        if over > 0 {
            let dropped = self
                .transaction
                .prepare_cached(
                    "DELETE FROM delivery WHERE number IN
                     (SELECT number FROM delivery WHERE sink = ?1 ORDER BY made, number LIMIT ?2)",
                )?
                .execute(params![to.sink, over])?;
            self.transaction
                .prepare_cached(
                    "UPDATE delivery_sink SET overtaken = overtaken + ?2 WHERE sink = ?1",
                )?
                .execute(params![to.sink, dropped])?;
        }
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
            "time": rfc3339(event.time_us),
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

fn states(database: &Connection) -> rusqlite::Result<Vec<SinkQueue>> {
    // Looked at all the time: nothing is counted, and what events say is not read.
    let mut statement = database.prepare_cached(
        "SELECT sink, waiting, overtaken, expired, coalesce((SELECT min(made) FROM delivery d
             WHERE d.sink = s.sink), 0) FROM delivery_sink s ORDER BY sink",
    )?;
    let state = |row: &rusqlite::Row<'_>| {
        Ok(SinkQueue {
            sink: row.get(0)?,
            waiting: row.get(1)?,
            overtaken: row.get(2)?,
            expired: row.get(3)?,
            oldest_us: row.get(4)?,
        })
    };
    statement.query_map([], state)?.collect()
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
mod tests;
