//! Triggers: an event for each transaction that a rule matches.
//!
//! Triggers are a follower of the journal, which keeps all transactions that they have not read.
//! Their position is in the database, written together with the events. The checkpoint of the journal
//! is written afterwards, and only states what may be dropped.

use rusqlite::params;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_expr::BusinessKeys;
use weir_journal::{Follower, Journal, Position, Reader, Transaction, failpoint};
use weir_model::events::{Sink, Trigger};

use crate::delivery::{Deliveries, Event, EventError};
use weir_model::{TransactionId, UnixMicros};
use weir_tracker::read_keys;

/// Name of its follower of the journal.
const FOLLOWER: &str = "triggers";
/// Time between writes of the position while there are no events.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// The rules, and the position in the journal.
#[derive(Debug)]
pub struct Triggers {
    journal: Arc<Journal>,
    follower: Follower,
    readers: Vec<Reader>,
    rules: Vec<Trigger>,
    keys: Arc<BusinessKeys>,
    /// Whether the position in the database is outdated, and when it was written.
    unsaved: bool,
    saved: Instant,
    /// Whether the checkpoint of the journal is outdated, and when it was written.
    uncommitted: bool,
    committed: Instant,
}

impl Triggers {
    /// Continues at its position; the first time, with transactions that end from now on.
    ///
    /// # Errors
    /// The database or the journal cannot be read or written.
    pub fn open(journal: &Arc<Journal>, queue: &mut Deliveries) -> Result<Self, EventError> {
        let follower = journal.follower(FOLLOWER).map_err(EventError::Journal)?;
        let batch = queue.begin(0)?;
        let mut readers = Vec::new();
        for lane in 0..journal.lanes() {
            let first = "INSERT INTO trigger_position VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            let end = journal.end(lane).to_bits().cast_signed();
            batch.database.execute(first, params![lane, end])?;
            let position = "SELECT position FROM trigger_position WHERE lane = ?1";
            let position: i64 = batch.database.query_row(position, [lane], |row| row.get(0))?;
            // After a power loss the journal may end before the position.
            let position = Position::from_bits(position.cast_unsigned()).min(journal.end(lane));
            readers.push(match follower.position(lane) == position {
                true => journal.follow(&follower, lane),
                false => journal.reader(lane, position),
            });
        }
        batch.commit()?;
        let mut triggers = Self {
            journal: Arc::clone(journal),
            follower,
            readers,
            rules: Vec::new(),
            keys: Arc::default(),
            unsaved: false,
            saved: Instant::now(),
            uncommitted: true,
            committed: Instant::now(),
        };
        triggers.commit()?;
        Ok(triggers)
    }

    /// Removes position and checkpoint, so that the journal keeps nothing for triggers. Later ones
    /// start with transactions that end then.
    ///
    /// # Errors
    /// The database or the journal cannot be written.
    pub fn remove_checkpoint(journal: &Journal, queue: &mut Deliveries) -> Result<(), EventError> {
        let batch = queue.begin(0)?;
        batch.database.execute("DELETE FROM trigger_position", [])?;
        batch.commit()?;
        journal.forget(FOLLOWER).map_err(EventError::Journal)
    }

    /// Changes the rules.
    pub fn configure(&mut self, rules: &[Trigger], keys: &Arc<BusinessKeys>) {
        self.rules = rules.to_vec();
        self.keys = Arc::clone(keys);
        self.read_from(self.positions());
    }

    fn positions(&self) -> Vec<(u16, Position)> {
        self.readers.iter().map(|reader| (reader.lane(), reader.position())).collect()
    }

    /// Bodies are read only if a rule has a business key.
    fn read_from(&mut self, positions: Vec<(u16, Position)>) {
        let keys = self.rules.iter().any(|rule| rule.key.is_some());
        let readers = positions.into_iter().map(|(lane, at)| self.journal.reader(lane, at));
        self.readers = match keys {
            true => readers.collect(),
            false => readers.map(Reader::metadata_only).collect(),
        };
    }

    /// Reads up to about `limit` transactions, or fewer that give as many events; true if there are
    /// more.
    ///
    /// # Errors
    /// The database or the journal cannot be read or written. It can be called again.
    pub fn step(
        &mut self,
        queue: &mut Deliveries,
        now_us: u64,
        limit: usize,
    ) -> Result<bool, EventError> {
        let before = self.positions();
        let done = self.read(queue, now_us, limit);
        if done.is_err() {
            // Transactions that were read and not committed are read again.
            self.read_from(before);
        }
        done
    }

    fn read(
        &mut self,
        queue: &mut Deliveries,
        now_us: u64,
        limit: usize,
    ) -> Result<bool, EventError> {
        let (mut done, mut events) = (0, Vec::new());
        for reader in &mut self.readers {
            while done < limit && events.len() < limit {
                let next = reader.next_transaction().map_err(EventError::Journal)?;
                let Some(mut transaction) = next else { break };
                done += 1;
                if !transaction.is_count() {
                    events.extend(events_of(&self.rules, &self.keys, &mut transaction));
                }
            }
        }
        let more = done >= limit || events.len() >= limit;
        self.unsaved |= done > 0;
        // Without events the transactions can be read again: that is cheaper than a sync each time.
        if !events.is_empty() || (self.unsaved && self.saved.elapsed() >= SAVE_INTERVAL) {
            save(&self.readers, queue, now_us, &events)?;
            (self.unsaved, self.saved) = (false, Instant::now());
            self.uncommitted = true;
        }
        if self.committed.elapsed() >= SAVE_INTERVAL && !self.unsaved {
            self.commit()?;
        }
        // Another lane comes first the next time.
        if self.readers.len() > 1 {
            self.readers.rotate_left(1);
        }
        Ok(more)
    }

    /// Writes the checkpoint of the journal.
    fn commit(&mut self) -> Result<(), EventError> {
        if !std::mem::take(&mut self.uncommitted) {
            return Ok(());
        }
        self.committed = Instant::now();
        self.readers.iter().for_each(|reader| self.follower.advance(reader));
        let committed = self.follower.commit().map_err(EventError::Journal);
        self.uncommitted = committed.is_err();
        committed
    }
}

/// Queues events and writes the position in one transaction.
fn save(
    readers: &[Reader],
    queue: &mut Deliveries,
    now_us: u64,
    events: &[(&Sink, Event)],
) -> Result<(), EventError> {
    let mut batch = queue.begin(now_us)?;
    for (sink, event) in events {
        batch.push(sink, event)?;
    }
    for reader in readers {
        let position = reader.position().to_bits().cast_signed();
        let move_on = "UPDATE trigger_position SET position = ?2 WHERE lane = ?1";
        batch.database.execute(move_on, params![reader.lane(), position])?;
    }
    failpoint::pass("trigger.make");
    batch.commit()?;
    failpoint::pass("trigger.made");
    Ok(())
}

/// The events of a transaction, with their destinations.
fn events_of<'r>(
    rules: &'r [Trigger],
    keys: &BusinessKeys,
    transaction: &mut Transaction,
) -> Vec<(&'r Sink, Event)> {
    let matches = |rule: &&Trigger| {
        let api = rule.apis.is_empty() || rule.apis.contains(&transaction.api);
        api && rule.states.contains(&transaction.outcome)
    };
    let rules: Vec<&Trigger> = rules.iter().filter(matches).collect();
    if rules.iter().any(|rule| rule.key.is_some()) {
        read_keys(keys, transaction);
    }
    let events = rules.into_iter().filter_map(|rule| {
        let mut key = None;
        if let Some((name, expected)) = &rule.key {
            let fits = |(found, value): &&(String, String)| {
                found == name && expected.as_ref().is_none_or(|expected| expected == value)
            };
            key = Some(transaction.keys.iter().find(fits)?);
        }
        Some((&rule.sink, event(rule, transaction, key)))
    });
    events.collect()
}

/// The event of a transaction: of its business keys, only that of the rule.
fn event(rule: &Trigger, transaction: &Transaction, key: Option<&(String, String)>) -> Event {
    let id = TransactionId(u128::from_be_bytes(transaction.id)).to_string();
    let state = transaction.outcome.to_string();
    let mut data = json!({
        "trigger": rule.name,
        "transaction": id,
        "state": state,
        "api": transaction.api,
        "operation": transaction.operation,
        "method": transaction.method,
        "status": transaction.status,
        "problem": transaction.problem,
        "consumer": transaction.consumer,
        "received": UnixMicros(transaction.received_us),
    });
    if let Some((name, value)) = key {
        data["key"] = json!({"name": name, "value": value});
    }
    Event {
        id: format!("{id}:{}", rule.name),
        part: "tracker",
        kind: format!("weir.transaction.{state}"),
        subject: id,
        time_us: transaction.received_us,
        data,
    }
}
