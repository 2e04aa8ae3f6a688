//! From the journal to requests, and from responses to the checkpoint.

mod messages;
mod settle;

pub use messages::EventMessage;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_expr::BusinessKeys;
use weir_journal::{Follower, Journal, Reader, Skipped, Transaction};
use weir_model::search_sink::Content;
use weir_tracker::document::write_event_data;
use weir_tracker::opensearch::{write_action, write_document};
use weir_tracker::read_keys;

use crate::backfill::{Backfill, BackfillOptions, BackfillProgress};
use crate::bulk;
use crate::destination::{Destination, SinkKind};
use crate::error::ShipError;
use crate::pace::{MAX_BYTES, MAX_DOCS, Pace};
use crate::queue::{Item, Queue};
use crate::records::{Missing, Records};
use crate::request::{Request, Response};
use crate::statistics::Statistics;
use crate::upkeep::{Step, Upkeep};

/// Names of followers of sinks begin with this.
pub(crate) const FOLLOWER_PREFIX: &str = "ship-";
/// Transactions that are read at a time from a lane.
const MAX_READ: usize = 500;
/// How long a bulk request waits to be full, after the last one. Each costs OpenSearch a write to its disk,
/// and searches find documents after the next refresh only, which takes longer.
const LINGER: Duration = Duration::from_millis(500);
/// Memory that is kept for the next document, in bytes.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// Shortest interval between two writes of the checkpoint.
const COMMIT_INTERVAL: Duration = Duration::from_millis(500);

/// How transactions are sent to a sink.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the sink.
    pub name: String,
    /// What it receives.
    pub content: Content,
    /// Id of this node in documents, and its display name; both are empty without a fleet.
    pub node: (String, String),
    /// Business keys of transactions.
    pub keys: Arc<BusinessKeys>,
    /// Bytes of the journal that may be held back for this sink.
    pub max_backlog: u64,
    /// What the sink is.
    pub destination: Destination,
}

/// A request that was taken from a [`Shipper`]; its response settles it.
#[derive(Debug)]
pub struct Ticket(Purpose);

#[derive(Debug)]
enum Purpose {
    Bulk(Source, Vec<Item>),
    Upkeep(Step),
}

/// Where the documents of a bulk request come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The follower.
    Live,
    /// A backfill.
    Backfill,
}

/// Name of the follower of a sink.
fn follower_name(sink: &str) -> String {
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
    backfill: Option<Backfill>,
    /// Source of the last bulk request: while both have documents, they alternate.
    last: Source,
    pace: Pace,
    /// That of the indexes of OpenSearch.
    upkeep: Option<Upkeep>,
    in_flight: usize,
    /// When the last bulk request was taken.
    sent: Option<Instant>,
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
    scratch: Vec<u8>,
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
            Destination::OpenSearch { keep_completed, keep_failed, deletes_indexes } => {
                Some(Upkeep::new(&settings.name, [keep_completed, keep_failed], deletes_indexes))
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
            backfill: None,
            last: Source::Backfill,
            pace: Pace::new(),
            in_flight: 0,
            sent: None,
            keeping_up: false,
            gaps: Vec::new(),
            uncommitted: false,
            committed: Instant::now(),
            statistics: Statistics::default(),
            notes: Vec::new(),
            reported: None,
            template_at_fault: false,
            transaction: Transaction::default(),
            scratch: Vec::new(),
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
        self.read_backfill()?;
        self.commit(now, false)
    }

    /// Starts a backfill, unless one runs.
    ///
    /// # Errors
    /// The database cannot be read, or the sink is Kafka.
    pub fn start_backfill(&mut self, options: &BackfillOptions) -> Result<(), ShipError> {
        if self.settings.destination.kind() == SinkKind::Kafka {
            return Err(ShipError::NoBackfill);
        }
        if self.backfill.as_ref().is_none_or(|one| !one.progress().is_running()) {
            let gaps = self.records.gaps()?;
            self.backfill = Some(Backfill::new(options, gaps, &self.journal));
        }
        Ok(())
    }

    /// Progress of the last backfill, if there was one.
    #[must_use]
    pub fn backfill(&self) -> Option<&BackfillProgress> {
        self.backfill.as_ref().map(Backfill::progress)
    }

    /// Deletes indexes whose retention has ended, with the next requests.
    pub fn delete_old_indexes(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.delete_old();
        }
    }

    /// Whether the next call of [`Shipper::work`] has something to read at once.
    #[must_use]
    pub fn is_backfilling(&self) -> bool {
        self.backfill.as_ref().is_some_and(|one| one.progress().is_running())
    }

    /// The next request to OpenSearch to be sent, if any may be sent now.
    #[must_use]
    pub fn next_request(&mut self, now: Instant) -> Option<(Ticket, Request)> {
        if !self.may_send(now) {
            return None;
        }
        let source = self.next_source(now);
        let upkeep = self.upkeep.as_mut()?;
        // Documents wait for the template: without it, fields would be created by content.
        let step = if self.keeping_up { None } else { upkeep.next(now) };
        let (ticket, request) = if let Some(step) = step {
            self.keeping_up = true;
            let request = upkeep.request(&step);
            (Ticket(Purpose::Upkeep(step)), request)
        } else if let Some(source) = source.filter(|_| upkeep.is_ready()) {
            let (docs, bytes) = self.pace.limits();
            self.sent = Some(now);
            let items = self.queue_of(source).map(|queue| queue.take(docs, bytes));
            let items = items.unwrap_or_default();
            self.last = source;
            let request = bulk::request(&items);
            (Ticket(Purpose::Bulk(source, items)), request)
        } else {
            return None;
        };
        self.in_flight += 1;
        Some((ticket, request))
    }

    fn may_send(&self, now: Instant) -> bool {
        self.in_flight < self.pace.max_in_flight() && self.pace.wait(now).is_zero()
    }

    /// Where the next bulk request comes from: one that is full, or after [`LINGER`]. A backfill has at most
    /// every second one.
    fn next_source(&self, now: Instant) -> Option<Source> {
        let rests = self.sent.is_some_and(|sent| now.duration_since(sent) < LINGER);
        let (docs, bytes) = self.pace.limits();
        let is_due = |queue: &Queue| queue.fills(docs, bytes) || !rests && queue.waiting_docs() > 0;
        let live = is_due(&self.queue);
        let backfill = self.backfill.as_ref().is_some_and(|one| is_due(&one.queue));
        match (live, backfill, self.last) {
            (false, false, _) => None,
            (true, false, _) | (true, true, Source::Backfill) => Some(Source::Live),
            (false, true, _) | (true, true, Source::Live) => Some(Source::Backfill),
        }
    }

    fn queue_of(&mut self, source: Source) -> Option<&mut Queue> {
        match source {
            Source::Live => Some(&mut self.queue),
            Source::Backfill => self.backfill.as_mut().map(|one| &mut one.queue),
        }
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
            Purpose::Bulk(source, items) => self.settle_bulk(source, items, response, now),
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
        let mut empty = 0;
        while empty < self.readers.len() && !self.queue.fills(MAX_DOCS, MAX_BYTES) {
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
        let item = item(&mut self.transaction, &self.settings, &mut self.scratch);
        self.queue.push(item);
    }

    /// Reads some transactions of a backfill, and notes in the database what has become of a gap.
    fn read_backfill(&mut self) -> Result<(), ShipError> {
        let Some(backfill) = &mut self.backfill else { return Ok(()) };
        let (transaction, mut read) = (&mut self.transaction, 0);
        while read < MAX_READ && !backfill.queue.fills(MAX_DOCS, MAX_BYTES) {
            let next = backfill.next_into(&self.journal, transaction);
            if next.map_err(ShipError::Journal)? {
                backfill.queue.push(item(transaction, &self.settings, &mut self.scratch));
                read += 1;
            } else if backfill.is_range_over() {
                if let Some(filled) = backfill.filled() {
                    self.records.mark_filled(&filled)?;
                }
                backfill.go_on();
            } else {
                break;
            }
        }
        Ok(())
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

/// The document of a transaction.
fn item(transaction: &mut Transaction, settings: &Settings, scratch: &mut Vec<u8>) -> Item {
    read_keys(&settings.keys, transaction);
    Item {
        order: 0,
        id: u128::from_be_bytes(transaction.id),
        address: transaction.address,
        outcome: transaction.outcome,
        received_us: transaction.received_us,
        reduced: false,
        lines: lines(transaction, settings, settings.content, scratch),
    }
}

/// The lines of a bulk request, or the value of a message, for a transaction. `scratch` is reused memory:
/// the length is known only when they are written.
fn lines(
    transaction: &Transaction,
    settings: &Settings,
    content: Content,
    scratch: &mut Vec<u8>,
) -> Box<[u8]> {
    scratch.clear();
    scratch.shrink_to(MAX_KEPT_BYTES);
    let (node, node_name) = &settings.node;
    if settings.destination == Destination::Kafka {
        write_event_data(transaction, node_name, content, scratch);
    } else {
        write_action(&settings.name, transaction, scratch);
        write_document(transaction, (node, node_name), content, scratch);
        scratch.push(b'\n');
    }
    scratch.as_slice().into()
}
