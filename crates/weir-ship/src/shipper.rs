//! From the journal to requests, and from responses to the checkpoint.

mod messages;

pub use messages::EventMessage;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weir_expr::BusinessKeys;
use weir_journal::{Follower, Journal, Reader, Skipped, Transaction};
use weir_model::TransactionId;
use weir_model::search_sink::Content;
use weir_store::StoreError;
use weir_tracker::document::write_event_data;
use weir_tracker::opensearch::{index_name, write_document};
use weir_tracker::read_keys;

use crate::bulk::{self, ItemVerdict, Verdict};
use crate::pace::{MAX_BYTES, MAX_DOCS, Pace};
use crate::queue::{Item, Queue};
use crate::records::{Missing, NewRejected, Records};
use crate::request::{Request, Response};
use crate::statistics::Statistics;
use crate::upkeep::{Step, StepVerdict, Upkeep};

/// Names of followers of sinks begin with this.
const FOLLOWER_PREFIX: &str = "ship-";
/// Transactions that are read at a time from a lane.
const MAX_READ: usize = 500;
/// Shortest interval between two writes of the checkpoint.
const COMMIT_INTERVAL: Duration = Duration::from_millis(500);
/// Shortest interval between two messages about documents that wait.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// If all documents of so many or more are rejected, the index is at fault, not the documents.
const MIN_INDEX_FAULT: usize = 50;

/// How transactions are sent to a sink.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the sink.
    pub name: String,
    /// What it receives.
    pub content: Content,
    /// Name of this node in documents; may be empty.
    pub node: String,
    /// Business keys of transactions.
    pub keys: Arc<BusinessKeys>,
    /// Bytes of the journal that may be held back for this sink.
    pub max_backlog: u64,
    /// What the sink is.
    pub destination: Destination,
}

/// What a sink is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// OpenSearch: the sink has [requests](Shipper::next_request).
    OpenSearch {
        /// Retention of indexes of completed transactions.
        keep_completed: Duration,
        /// Retention of indexes of failed and interrupted transactions.
        keep_failed: Duration,
    },
    /// Kafka: the sink has [messages](Shipper::next_messages).
    Kafka,
}

/// Why transactions cannot be shipped.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The journal cannot be read, or its checkpoint not be written.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
    /// The database cannot be opened.
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The database cannot be read or written.
    #[error("the database cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
}

/// A request that was taken from a [`Shipper`]; its response settles it.
#[derive(Debug)]
pub struct Ticket(Purpose);

#[derive(Debug)]
enum Purpose {
    Bulk(Vec<Item>),
    Upkeep(Step),
}

/// Name of the follower of a sink.
#[must_use]
pub fn follower_name(sink: &str) -> String {
    format!("{FOLLOWER_PREFIX}{sink}")
}

/// Removes the followers of sinks that are not among `sinks`: the journal keeps nothing for them.
///
/// # Errors
/// A checkpoint cannot be removed.
pub fn remove_other_followers(journal: &Journal, sinks: &[&str]) -> io::Result<()> {
    let kept: BTreeSet<String> = sinks.iter().map(|sink| follower_name(sink)).collect();
    for name in journal.followers() {
        if name.starts_with(FOLLOWER_PREFIX) && !kept.contains(&name) {
            journal.forget(&name)?;
        }
    }
    Ok(())
}

/// Ships the transactions of a journal to one sink.
#[derive(Debug)]
pub struct Shipper {
    settings: Settings,
    journal: Arc<Journal>,
    follower: Follower,
    readers: Vec<Reader>,
    records: Records,
    queue: Queue,
    pace: Pace,
    /// That of the indexes of OpenSearch.
    upkeep: Option<Upkeep>,
    in_flight: usize,
    /// A request of the upkeep is in flight: its steps follow each other.
    keeping_up: bool,
    /// Gaps that are not in the database yet.
    gaps: Vec<(Missing, Skipped)>,
    uncommitted: bool,
    committed: Instant,
    statistics: Statistics,
    notes: Vec<String>,
    /// Time of the last message about documents that wait.
    reported: Option<Instant>,
    /// The pause concerns the template, not documents.
    template_at_fault: bool,
    /// Reused memory.
    transaction: Transaction,
}

impl Shipper {
    /// Continues at its checkpoint; the first time, with the first record of the journal.
    ///
    /// # Errors
    /// See [`ShipError`].
    pub fn open(
        journal: &Arc<Journal>,
        data: &Path,
        settings: Settings,
    ) -> Result<Self, ShipError> {
        let name = follower_name(&settings.name);
        let follower = journal.follower_with_backlog(&name, settings.max_backlog);
        let follower = follower.map_err(ShipError::Journal)?;
        // Bodies are read only for documents with payload, and for keys.
        let metadata_only = settings.content == Content::Keys && settings.keys.is_empty();
        let readers = (0..journal.lanes()).map(|lane| journal.follow(&follower, lane));
        let readers = match metadata_only {
            true => readers.map(Reader::metadata_only).collect(),
            false => readers.collect(),
        };
        let upkeep = match settings.destination {
            Destination::OpenSearch { keep_completed, keep_failed } => {
                Some(Upkeep::new(&settings.name, [keep_completed, keep_failed]))
            }
            Destination::Kafka => None,
        };
        Ok(Self {
            records: Records::open(data, &settings.name)?,
            upkeep,
            settings,
            journal: Arc::clone(journal),
            follower,
            readers,
            queue: Queue::default(),
            pace: Pace::new(),
            in_flight: 0,
            keeping_up: false,
            gaps: Vec::new(),
            uncommitted: false,
            committed: Instant::now(),
            statistics: Statistics::default(),
            notes: Vec::new(),
            reported: None,
            template_at_fault: false,
            transaction: Transaction::default(),
        })
    }

    /// Figures since it was opened.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Messages for the operator since the last call.
    #[must_use]
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether nothing waits to be sent or settled.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_settled() && self.in_flight == 0
    }

    /// How long no request may be sent.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.pace.wait(now)
    }

    /// Reads the journal until documents for a bulk request wait, notes gaps, and writes the
    /// checkpoint.
    ///
    /// # Errors
    /// See [`ShipError`]. It can be called again.
    pub fn work(&mut self, now: Instant) -> Result<(), ShipError> {
        self.note_gaps()?;
        self.read()?;
        self.commit(now, false)
    }

    /// The next request to OpenSearch to be sent, if any may be sent now.
    #[must_use]
    pub fn next_request(&mut self, now: Instant) -> Option<(Ticket, Request)> {
        if !self.may_send(now) {
            return None;
        }
        let upkeep = self.upkeep.as_mut()?;
        // Documents wait for the template: without it, fields would be created by content.
        let step = if self.keeping_up { None } else { upkeep.next(now) };
        let (ticket, request) = if let Some(step) = step {
            self.keeping_up = true;
            let request = upkeep.request(&step);
            (Ticket(Purpose::Upkeep(step)), request)
        } else if upkeep.is_ready() && self.queue.waiting_docs() > 0 {
            let (docs, bytes) = self.pace.limits();
            let items = self.queue.take(docs, bytes);
            let request = bulk::request(&items);
            (Ticket(Purpose::Bulk(items)), request)
        } else {
            return None;
        };
        self.in_flight += 1;
        Some((ticket, request))
    }

    fn may_send(&self, now: Instant) -> bool {
        self.in_flight < self.pace.max_in_flight() && self.pace.wait(now).is_zero()
    }

    /// Takes the response to a request, or why there is none.
    ///
    /// # Errors
    /// The database cannot be written: rejected documents are sent again.
    pub fn settle(
        &mut self,
        ticket: Ticket,
        response: Result<Response, String>,
        now: Instant,
    ) -> Result<(), ShipError> {
        self.in_flight -= 1;
        match ticket.0 {
            Purpose::Upkeep(step) => {
                self.settle_step(step, response, now);
                Ok(())
            }
            Purpose::Bulk(items) => self.settle_bulk(items, response, now),
        }
    }

    /// Writes the checkpoint: the last call before the journal is closed.
    ///
    /// # Errors
    /// See [`ShipError`].
    pub fn close(&mut self) -> Result<(), ShipError> {
        self.note_gaps()?;
        self.commit(Instant::now(), true)
    }

    fn settle_step(&mut self, step: Step, response: Result<Response, String>, now: Instant) {
        self.keeping_up = false;
        let Some(upkeep) = &mut self.upkeep else { return };
        match upkeep.settle(step, response, Timestamp::now()) {
            StepVerdict::Done if self.template_at_fault && upkeep.is_ready() => {
                self.succeeded();
            }
            StepVerdict::Done => self.pace.succeeded(),
            StepVerdict::Retry(reason) => self.failed(&reason, now),
            StepVerdict::Pause(reason) => {
                self.template_at_fault = true;
                self.pause(reason, now);
            }
            StepVerdict::Note(note) => self.notes.push(note),
        }
    }

    fn settle_bulk(
        &mut self,
        items: Vec<Item>,
        response: Result<Response, String>,
        now: Instant,
    ) -> Result<(), ShipError> {
        match bulk::judge(response, items.len()) {
            Verdict::Items(verdicts) => self.settle_items(items, verdicts, now),
            Verdict::Retry(reason) => {
                self.queue.put_back(items);
                self.failed(&reason, now);
                Ok(())
            }
            Verdict::Divide(status, reason) => {
                if items.len() == 1 {
                    let verdicts = vec![ItemVerdict::Rejected(status, reason)];
                    return self.settle_items(items, verdicts, now);
                }
                let bytes = items.iter().map(|item| item.lines.len()).sum();
                self.pace.too_large(items.len(), bytes);
                self.statistics.retries += 1;
                self.queue.put_back(items);
                Ok(())
            }
            Verdict::Pause(reason) => {
                self.queue.put_back(items);
                self.pause(reason, now);
                Ok(())
            }
        }
    }

    fn settle_items(
        &mut self,
        items: Vec<Item>,
        verdicts: Vec<ItemVerdict>,
        now: Instant,
    ) -> Result<(), ShipError> {
        let count = items.len();
        let (mut again, mut reject, mut done) = (Vec::new(), Vec::new(), Vec::new());
        let (mut retry, mut pause) = (None, None);
        for (mut item, verdict) in items.into_iter().zip(verdicts) {
            match verdict {
                ItemVerdict::Done => done.push(item.order),
                ItemVerdict::Retry(reason) => {
                    retry = Some(reason);
                    again.push(item);
                }
                ItemVerdict::Pause(reason) => {
                    pause = Some(reason);
                    again.push(item);
                }
                ItemVerdict::Rejected(status, reason) => match self.reduce(&mut item) {
                    Ok(true) => again.push(item),
                    Ok(false) => reject.push((item, status, reason)),
                    Err(error) => {
                        again.push(item);
                        self.queue.put_back(again);
                        return Err(error);
                    }
                },
            }
        }
        if let Some((_, _, reason)) = reject.first().filter(|_| reject.len() == count)
            && count >= MIN_INDEX_FAULT
        {
            pause = Some(format!("all of {count} documents were rejected: {reason}"));
            again.extend(reject.drain(..).map(|(item, _, _)| item));
        }
        self.statistics.docs += done.len() as u64;
        done.into_iter().for_each(|order| self.queue.settle(order));
        let rejected = self.reject(reject);
        self.queue.put_back(again);
        match (pause, retry) {
            (Some(reason), _) => self.pause(reason, now),
            (None, Some(reason)) => self.failed(&reason, now),
            (None, None) => self.succeeded(),
        }
        rejected
    }

    /// Replaces a rejected document by one without payload, once. False if there is none.
    fn reduce(&mut self, item: &mut Item) -> Result<bool, ShipError> {
        let Some(address) =
            item.address.filter(|_| self.settings.content == Content::Payload && !item.reduced)
        else {
            return Ok(false);
        };
        let found = self.journal.get(address).map_err(ShipError::Journal)?;
        let Some(mut transaction) = found else { return Ok(false) };
        read_keys(&self.settings.keys, &mut transaction);
        item.lines.clear();
        write_lines(&transaction, &self.settings, Content::Keys, &mut item.lines);
        item.reduced = true;
        Ok(true)
    }

    /// Notes rejected documents; if that fails, they are sent again.
    fn reject(&mut self, documents: Vec<(Item, u16, String)>) -> Result<(), ShipError> {
        if documents.is_empty() {
            return Ok(());
        }
        let note = |(item, status, reason): &(Item, u16, String)| NewRejected {
            id: item.id,
            address: item.address,
            status: *status,
            reason: reason.clone(),
        };
        let notes: Vec<_> = documents.iter().map(note).collect();
        match self.records.reject(&notes) {
            Ok(dropped) => {
                self.statistics.rejected += documents.len() as u64;
                self.statistics.rejected_dropped += dropped;
                let (item, _, reason) = &documents[0];
                let (id, count) = (TransactionId(item.id), documents.len());
                self.notes.push(format!("{count} documents were rejected, {id} first: {reason}"));
                documents.iter().for_each(|(item, ..)| self.queue.settle(item.order));
                Ok(())
            }
            Err(error) => {
                self.queue.put_back(documents.into_iter().map(|(item, ..)| item).collect());
                Err(error.into())
            }
        }
    }

    fn succeeded(&mut self) {
        self.pace.succeeded();
        self.template_at_fault = false;
        if self.statistics.paused.take().is_some() {
            self.notes.push("documents are accepted again".to_owned());
        }
    }

    fn failed(&mut self, reason: &str, now: Instant) {
        self.statistics.retries += 1;
        let reported =
            self.reported.is_some_and(|reported| now.duration_since(reported) < NOTE_INTERVAL);
        if !self.pace.is_failing() && !reported {
            self.reported = Some(now);
            self.notes.push(format!("documents wait: {reason}"));
        }
        self.pace.failed(now);
    }

    fn pause(&mut self, reason: String, now: Instant) {
        self.statistics.retries += 1;
        if self.statistics.paused.as_ref() != Some(&reason) {
            self.notes.push(format!("paused, documents wait in the journal: {reason}"));
        }
        self.statistics.paused = Some(reason);
        self.pace.paused(now);
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.begin_again();
        }
    }

    /// Stores what the journal has dropped before it was sent.
    fn note_gaps(&mut self) -> Result<(), ShipError> {
        let skipped = self.follower.take_skipped().into_iter();
        self.gaps.extend(skipped.map(|skipped| (Missing::Record, skipped)));
        while let Some((why, gap)) = self.gaps.first().copied() {
            let records = self.records.add_gap(why, gap)?;
            self.gaps.remove(0);
            self.statistics.gap_records += records;
            let bound = if gap.at_most { "at most " } else { "" };
            if why == Missing::Record && records > 0 {
                self.notes.push(format!(
                    "{bound}{records} transactions were not sent: the journal had no more room for \
                     them (lane {})",
                    gap.lane,
                ));
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), ShipError> {
        let is_full =
            |queue: &Queue| queue.waiting_docs() >= MAX_DOCS || queue.waiting_bytes() >= MAX_BYTES;
        let mut empty = 0;
        while empty < self.readers.len() && !is_full(&self.queue) {
            let read = self.read_lane();
            // Documents that were read before an error are marked, too.
            let positions =
                self.readers.iter().map(|r| (r.lane(), r.position(), r.sequence())).collect();
            self.queue.mark(positions);
            empty = if read? == 0 { empty + 1 } else { 0 };
            self.readers.rotate_left(1);
        }
        Ok(())
    }

    /// Reads some transactions of the first lane; returns their number.
    fn read_lane(&mut self) -> Result<usize, ShipError> {
        let mut count = 0;
        let mut without_payload: Option<Skipped> = None;
        let mut result = Ok(());
        while count < MAX_READ && self.queue.waiting_bytes() < MAX_BYTES {
            let (reader, next) = (&mut self.readers[0], &mut self.transaction);
            let from = reader.position();
            match reader.next_visible_into(next) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    result = Err(ShipError::Journal(error));
                    break;
                }
            }
            count += 1;
            let to = reader.position();
            if next.expired && !next.discarded {
                let lane = reader.lane();
                let gap = without_payload.get_or_insert(Skipped {
                    lane,
                    from,
                    to,
                    records: 0,
                    at_most: false,
                });
                (gap.to, gap.records) = (to, gap.records + 1);
            }
            self.push_document();
        }
        self.gaps.extend(without_payload.map(|gap| (Missing::Payload, gap)));
        result.map(|()| count)
    }

    /// Queues the document of the transaction that was read last.
    fn push_document(&mut self) {
        read_keys(&self.settings.keys, &mut self.transaction);
        let mut lines = Vec::with_capacity(1024);
        write_lines(&self.transaction, &self.settings, self.settings.content, &mut lines);
        lines.shrink_to_fit();
        self.queue.push(Item {
            order: 0,
            id: u128::from_be_bytes(self.transaction.id),
            address: self.transaction.address,
            outcome: self.transaction.outcome,
            received_us: self.transaction.received_us,
            reduced: false,
            lines,
        });
    }

    fn commit(&mut self, now: Instant, at_once: bool) -> Result<(), ShipError> {
        if let Some(positions) = self.queue.settled_positions() {
            for (lane, position, sequence) in positions {
                self.uncommitted |= self.follower.position(lane) != position;
                self.follower.advance_to(lane, position, sequence);
            }
        }
        let due = at_once || now.duration_since(self.committed) >= COMMIT_INTERVAL;
        if self.uncommitted && due {
            self.follower.commit().map_err(ShipError::Journal)?;
            (self.uncommitted, self.committed) = (false, now);
        }
        Ok(())
    }
}

/// Writes the lines of a bulk request, or the value of a message, for a transaction.
fn write_lines(
    transaction: &Transaction,
    settings: &Settings,
    content: Content,
    lines: &mut Vec<u8>,
) {
    if settings.destination == Destination::Kafka {
        return write_event_data(transaction, &settings.node, content, lines);
    }
    let index = index_name(&settings.name, transaction);
    let id = TransactionId(u128::from_be_bytes(transaction.id));
    // Neither has a character that JSON escapes.
    let action = format!("{{\"create\":{{\"_index\":\"{index}\",\"_id\":\"{id}\"}}}}\n");
    lines.extend_from_slice(action.as_bytes());
    write_document(transaction, &settings.node, content, lines);
    lines.push(b'\n');
}
