//! Triggers: an event for each transaction that ends in a way that a rule is for.
//!
//! They follow the journal under a name of their own, so nothing that they have not seen is
//! dropped. How far they are stands in the database, written together with the events; the
//! journal's own note of it comes afterwards and only says what may be dropped.

use rusqlite::params;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_config::{BusinessKeys, EndState, Trigger};
use weir_journal::{Follower, Journal, Outcome, Position, Reader, Transaction, failpoint};

use crate::delivery::{Address, Deliveries, Event, EventError};
use weir_store::clock::rfc3339;
use weir_tracker::read_keys;

/// Its name among the followers of the journal.
const FOLLOWER: &str = "triggers";
/// How often it is noted how far was read, when no event was made.
const SAVE: Duration = Duration::from_secs(2);

/// Rules on transactions, and how far the journal has been looked at.
#[derive(Debug)]
pub struct Triggers {
    journal: Arc<Journal>,
    follower: Follower,
    readers: Vec<Reader>,
    rules: Vec<Trigger>,
    keys: Arc<BusinessKeys>,
    /// Read, and not durable in the database yet; and when that was last so.
    unsaved: bool,
    saved: Instant,
    /// Durable in the database, and not noted by the journal yet; and when that was last so.
    unnoted: bool,
    noted: Instant,
}

impl Triggers {
    /// Goes on where it was; the first time with what ends from now on.
    ///
    /// # Errors
    /// The database or the journal cannot be read or written.
    pub fn open(journal: &Arc<Journal>, queue: &mut Deliveries) -> Result<Self, EventError> {
        let follower = journal.follower(FOLLOWER).map_err(EventError::Journal)?;
        let making = queue.make(0)?;
        let mut readers = Vec::new();
        for lane in 0..journal.lanes() {
            making
                .transaction
                .prepare_cached(
                    "INSERT INTO trigger_position VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                )?
                .execute(params![lane, journal.end(lane).to_bits().cast_signed()])?;
            let position: i64 = making
                .transaction
                .prepare_cached("SELECT position FROM trigger_position WHERE lane = ?1")?
                .query_row([lane], |row| row.get(0))?;
            // A loss of power may have taken what was looked at.
            let position = Position::from_bits(position.cast_unsigned()).min(journal.end(lane));
            readers.push(match follower.position(lane) == position {
                true => journal.follow(&follower, lane),
                false => journal.reader(lane, position),
            });
        }
        making.commit()?;
        let mut triggers = Self {
            journal: Arc::clone(journal),
            follower,
            readers,
            rules: Vec::new(),
            keys: Arc::default(),
            unsaved: false,
            saved: Instant::now(),
            unnoted: true,
            noted: Instant::now(),
        };
        triggers.note()?;
        Ok(triggers)
    }

    /// Forgets that there ever were triggers, so that nothing is kept for them: they begin anew with
    /// what ends then.
    ///
    /// # Errors
    /// The database or the journal cannot be written.
    pub fn forget(journal: &Journal, queue: &mut Deliveries) -> Result<(), EventError> {
        let making = queue.make(0)?;
        making.transaction.execute("DELETE FROM trigger_position", [])?;
        making.commit()?;
        journal.forget(FOLLOWER).map_err(EventError::Journal)
    }

    /// Follows these rules from now on.
    pub fn set(&mut self, rules: &[Trigger], keys: &Arc<BusinessKeys>) {
        self.rules = rules.to_vec();
        self.keys = Arc::clone(keys);
        let at: Vec<(u16, Position)> =
            self.readers.iter().map(|reader| (reader.lane(), reader.position())).collect();
        self.readers = at.into_iter().map(|(lane, at)| self.reader(lane, at)).collect();
    }

    /// Bodies are read only if a rule looks for business keys in them.
    fn reader(&self, lane: u16, at: Position) -> Reader {
        let reader = self.journal.reader(lane, at);
        match self.rules.iter().any(|rule| rule.key.is_some()) {
            true => reader,
            false => reader.metadata_only(),
        }
    }

    /// Looks at about `most` transactions, or makes about as many events of fewer; true if there are
    /// more.
    ///
    /// # Errors
    /// The database or the journal cannot be read or written. It can be called again.
    pub fn step(
        &mut self,
        queue: &mut Deliveries,
        now_us: u64,
        most: usize,
    ) -> Result<bool, EventError> {
        let before: Vec<(u16, Position)> =
            self.readers.iter().map(|reader| (reader.lane(), reader.position())).collect();
        let done = self.read(queue, now_us, most);
        if done.is_err() {
            // What was read and not committed is read again.
            self.readers = before.into_iter().map(|(lane, at)| self.reader(lane, at)).collect();
        }
        done
    }

    fn read(
        &mut self,
        queue: &mut Deliveries,
        now_us: u64,
        most: usize,
    ) -> Result<bool, EventError> {
        let (mut done, mut made) = (0, Vec::new());
        for reader in &mut self.readers {
            while done < most && made.len() < most {
                let next = reader.next_transaction().map_err(EventError::Journal)?;
                let Some(mut transaction) = next else { break };
                done += 1;
                if !transaction.is_count() {
                    made.extend(events(&self.rules, &self.keys, &mut transaction));
                }
            }
        }
        let more = done >= most || made.len() >= most;
        self.unsaved |= done > 0;
        // Where nothing was made it can be read again: a sync for that is not worth its while.
        if !made.is_empty() || (self.unsaved && self.saved.elapsed() >= SAVE) {
            save(&self.readers, queue, now_us, &made)?;
            (self.unsaved, self.saved) = (false, Instant::now());
            self.unnoted = true;
        }
        if self.noted.elapsed() >= SAVE && !self.unsaved {
            self.note()?;
        }
        // Not always the same lane comes first.
        if self.readers.len() > 1 {
            self.readers.rotate_left(1);
        }
        Ok(more)
    }

    /// Has the journal know how far it is.
    fn note(&mut self) -> Result<(), EventError> {
        if !std::mem::take(&mut self.unnoted) {
            return Ok(());
        }
        self.noted = Instant::now();
        self.readers.iter().for_each(|reader| self.follower.advance(reader));
        let noted = self.follower.commit().map_err(EventError::Journal);
        self.unnoted = noted.is_err();
        noted
    }
}

/// Puts events into the queue and notes how far was read, both or neither.
fn save(
    readers: &[Reader],
    queue: &mut Deliveries,
    now_us: u64,
    made: &[(Address<'_>, Event)],
) -> Result<(), EventError> {
    let mut making = queue.make(now_us)?;
    for (address, event) in made {
        making.push(*address, event)?;
    }
    for reader in readers {
        making
            .transaction
            .prepare_cached("UPDATE trigger_position SET position = ?2 WHERE lane = ?1")?
            .execute(params![reader.lane(), reader.position().to_bits().cast_signed()])?;
    }
    failpoint::pass("trigger.make");
    making.commit()?;
    failpoint::pass("trigger.made");
    Ok(())
}

/// The events that rules make of a transaction, and where they go.
fn events<'r>(
    rules: &'r [Trigger],
    keys: &BusinessKeys,
    transaction: &mut Transaction,
) -> Vec<(Address<'r>, Event)> {
    let state = match transaction.outcome {
        Outcome::Completed => EndState::Completed,
        Outcome::Failed => EndState::Failed,
        Outcome::Interrupted => EndState::Interrupted,
    };
    let is_for = |rule: &&Trigger| {
        let api = rule.apis.is_empty() || rule.apis.contains(&transaction.api);
        api && rule.states.contains(&state)
    };
    let rules: Vec<&Trigger> = rules.iter().filter(is_for).collect();
    if rules.iter().any(|rule| rule.key.is_some()) {
        read_keys(keys, transaction);
    }
    let made = rules.into_iter().filter_map(|rule| {
        let mut key = None;
        if let Some((name, wanted)) = &rule.key {
            let fits = |(found, value): &&(String, String)| {
                found == name && wanted.as_ref().is_none_or(|wanted| wanted == value)
            };
            key = Some(transaction.keys.iter().find(fits)?);
        }
        Some((Address::from(&rule.sink), event(rule, state, transaction, key)))
    });
    made.collect()
}

/// What is told of a transaction: of its keys only the one that the rule asks for.
fn event(
    rule: &Trigger,
    state: EndState,
    transaction: &Transaction,
    key: Option<&(String, String)>,
) -> Event {
    let id = u128::from_be_bytes(transaction.id);
    let id = id_text(id);
    let mut data = json!({
        "trigger": rule.name,
        "transaction": id,
        "state": state.name(),
        "api": transaction.api,
        "operation": transaction.operation,
        "method": transaction.method,
        "status": transaction.status,
        "problem": transaction.problem,
        "consumer": transaction.consumer,
        "received": rfc3339(transaction.received_us),
    });
    if let Some((name, value)) = key {
        data["key"] = json!({"name": name, "value": value});
    }
    Event {
        id: format!("{id}:{}", rule.name),
        part: "tracker",
        kind: format!("weir.transaction.{}", state.name()),
        subject: id,
        time_us: transaction.received_us,
        data,
    }
}

/// As a UUID is written (RFC 9562, section 4).
fn id_text(id: u128) -> String {
    let hex = format!("{id:032x}");
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
