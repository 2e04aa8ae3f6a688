//! Search: hits newest first, page by page.

pub(crate) mod check;
mod count;
mod difference;
pub(crate) mod evaluate;
mod profile;
mod selection;
mod sift;
mod tail;
mod visit;

pub use count::{Bucket, Counted, Counts, Facet};
pub use difference::{Attribute, Difference, Share};
pub use profile::{Durations, Interval, Profile, SlowTransaction, StageMean};
pub use tail::{InvalidTailCursor, Tail, TailCursor};

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_journal::{Absence, Position, Transaction};

pub use self::check::Highlight;
use self::check::Subject;
use self::evaluate::View;
use self::selection::{Candidate, Selection};
use self::sift::Sift;
use crate::content::payload_bytes;
use crate::error::Error;
use crate::index::Index;
use crate::part::SealedPart;
use crate::part::keys::{self, Keys};
use crate::part::row::Row;
use crate::query::{Node, Query, Term};

/// Most hits of a page.
pub const MAX_PAGE_HITS: usize = 1000;
/// Bytes of bodies after which a page ends, and after which a batch of candidates does not grow.
const PAGE_BYTES: usize = 16 << 20;
const BATCH_BYTES: usize = 1 << 20;
/// Most candidates that are read from the journal together.
const MAX_BATCH: usize = 64;

/// Longest time of a search that may have to fetch parts and segments, if nothing else is requested.
pub(crate) const REMOTE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Difference between the time in an id and the time at which its transaction was received, at most.
const ID_TIME_MARGIN: Duration = Duration::from_secs(60);

/// The times at which transactions with these ids were received, in microseconds since 1970: an id has
/// the milliseconds in its first 48 bits (UUIDv7).
fn received((low, high): (u128, u128)) -> (u64, u64) {
    let margin = ID_TIME_MARGIN.as_micros() as u64;
    let time = |id: u128| ((id >> 80) as u64).saturating_mul(1000);
    (time(low).saturating_sub(margin), time(high).saturating_add(1000 + margin))
}

/// A position in the order of hits: by time received, then by id. It is stable while records
/// arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(crate) time: u64,
    pub(crate) id: u128,
}

impl Cursor {
    /// The position of a transaction: its time in microseconds, and its id.
    #[must_use]
    pub fn new(time: u64, id: u128) -> Self {
        Self { time, id }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:032x}", self.time, self.id)
    }
}

/// The text is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of a page")]
pub struct InvalidCursor;

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let (time, id) = text.split_at_checked(16).ok_or(InvalidCursor)?;
        if id.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidCursor);
        }
        Ok(Self {
            time: u64::from_str_radix(time, 16).map_err(|_| InvalidCursor)?,
            id: u128::from_str_radix(id, 16).map_err(|_| InvalidCursor)?,
        })
    }
}

/// The hits to return.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Most hits; at most [`MAX_PAGE_HITS`].
    pub limit: usize,
    /// Start after this position.
    pub after: Option<Cursor>,
    /// Longest time to search.
    pub budget: Duration,
    /// Return hits with heads, bodies, properties and logs. Otherwise they may be missing if the
    /// query has no words: they need not be read then.
    pub payload: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 50, after: None, budget: Duration::from_secs(2), payload: true }
    }
}

/// A transaction that matches.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Its metadata.
    pub row: Row,
    /// The transaction; none if the journal no longer has it.
    pub transaction: Option<Transaction>,
    /// Why the journal does not have it.
    pub absence: Absence,
    /// Occurrences of the words of the query.
    pub highlights: Vec<Highlight>,
}

impl Hit {
    /// Its position in the order of hits.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { time: self.row.time, id: self.row.id }
    }

    fn bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, payload_bytes)
    }
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    /// Newest first.
    pub hits: Vec<Hit>,
    /// Position to continue from; none if there are no more hits.
    pub next: Option<Cursor>,
    /// The budget ran out: there may be more hits between the last one and `next`, and after it.
    pub cut: bool,
    /// Hits may be missing: parts of the index are being repaired, or the journal is too far ahead
    /// to be read, or the query has business keys that a part was built without.
    pub incomplete: bool,
}

/// The index at one moment.
pub(crate) struct Snapshot {
    /// Sealed parts that may have hits, newest last.
    pub(crate) sealed: Vec<Arc<SealedPart>>,
    pub(crate) indexed: Vec<Position>,
    pub(crate) incomplete: bool,
}

impl Index {
    /// Finds transactions.
    ///
    /// # Errors
    /// Files of the index or of the journal cannot be read. Damage is not an error: it is repaired,
    /// and hits are [`Hits::incomplete`] until then.
    pub fn search(&self, query: &Query, page: &Page) -> Result<Hits, Error> {
        let deadline = Instant::now() + page.budget;
        let limit = page.limit.clamp(1, MAX_PAGE_HITS);
        let mut open = Vec::new();
        let sift = Sift::new(query);
        let selection = Selection { query, sift: sift.as_ref(), after: page.after, limit };
        let snapshot = self.snapshot(query, |view| {
            open = selection.candidates(view, None)?;
            Ok(())
        })?;
        let mut sealed = snapshot.sealed;
        // Newer parts were finished by previous pages.
        sealed.retain(|part| page.after.is_none_or(|after| part.times().0 <= after.time));
        let mut heap = BinaryHeap::from(open);
        // Half of the budget is left for the index.
        let tail_ends = Instant::now() + page.budget / 2;
        let keys = query.uses_keys();
        let unread = self.tail(query, &snapshot.indexed, keys, tail_ends, &mut |subject| {
            let row = subject.row;
            let cursor = Cursor { time: row.time, id: row.id };
            if page.after.is_none_or(|after| cursor < after) {
                heap.push(Candidate {
                    cursor,
                    definite: true,
                    is_sifted: false,
                    part: None,
                    row: 0,
                    address: row.address,
                });
            }
        })?;
        let mut search = Search {
            index: self,
            query,
            page,
            limit,
            sift,
            deadline,
            remaining: sealed.len(),
            sealed,
            heap,
            passed: VecDeque::new(),
            ready: VecDeque::new(),
            batch: 1,
            keys: None,
            found: Hits { incomplete: snapshot.incomplete || unread, ..Hits::default() },
        };
        search.run()?;
        Ok(search.found)
    }

    /// The transaction with an id; none if the journal does not have it.
    ///
    /// # Errors
    /// As [`Index::find`].
    pub fn show(&self, id: u128) -> Result<Option<Transaction>, Error> {
        Ok(self.find(id)?.and_then(|hit| hit.transaction))
    }

    /// What is known of the transaction with an id; none if there is none, or it expired long ago.
    ///
    /// # Errors
    /// As [`Index::search`], and [`Error::Behind`] if it is not certain that there is none.
    pub fn find(&self, id: u128) -> Result<Option<Hit>, Error> {
        let query = Query { root: Node::Term(Term::Id(id, id)) };
        let mut page = Page { limit: 1, ..Page::default() };
        if self.is_remote() {
            page.budget = REMOTE_TIMEOUT;
        }
        let found = self.search(&query, &page)?;
        match found.hits.into_iter().next() {
            Some(hit) => Ok(Some(hit)),
            None if found.incomplete || found.cut => Err(Error::Behind),
            None => Ok(None),
        }
    }

    /// Calls `read` with the open part, and returns the sealed parts that may have hits.
    pub(crate) fn snapshot(
        &self,
        query: &Query,
        read: impl FnOnce(&View<'_>) -> Result<(), Error>,
    ) -> Result<Snapshot, Error> {
        let ids = query.ids();
        let (low, high) = query.times();
        let (first, last) = ids.map_or((0, u64::MAX), received);
        self.shared.add_remote_parts((low.max(first), high.min(last)))?;
        let state = self.shared.state.read();
        read(&View::Open(&state.open))?;
        let mut sealed = state.sealed.clone();
        let indexed = state.indexed.clone();
        let mut incomplete = !state.gaps.is_empty();
        if query.uses_keys() && self.shared.settings.provisional {
            let without = |part: &Arc<SealedPart>| part.head.metadata.provisional;
            incomplete |= state.open.columns.len() > 0 || sealed.iter().any(without);
        }
        drop(state);
        sealed.retain(|part| {
            let (min, max) = part.times();
            let has_ids = ids.is_none_or(|ids| part.may_have(ids));
            min <= high && low <= max && has_ids
        });
        sealed.sort_by_key(|part| part.times().1);
        Ok(Snapshot { sealed, indexed, incomplete })
    }

    /// Calls `hit` with the matches among transactions that are not indexed yet, with their business
    /// keys if `keys`. Returns whether some were left unread.
    pub(crate) fn tail(
        &self,
        query: &Query,
        indexed: &[Position],
        keys: bool,
        deadline: Instant,
        hit: &mut dyn FnMut(Subject<'_>),
    ) -> Result<bool, Error> {
        self.shared.counts.search();
        let (mut read, mut transaction) = (0, Transaction::default());
        for (lane, from) in indexed.iter().enumerate() {
            let mut reader = self.shared.journal.reader(lane as u16, *from);
            if !keys && !query.needs_payload() {
                reader = reader.metadata_only();
            }
            while reader.next_visible_into(&mut transaction).map_err(Error::Journal)? {
                if keys {
                    self.shared.read_keys(&mut transaction);
                }
                read += 1;
                if read > MAX_TAIL || Instant::now() >= deadline {
                    return Ok(true);
                }
                let subject = Subject::new(&transaction, self.shared.ledger());
                if subject.matches(&query.root) {
                    hit(subject);
                }
            }
        }
        Ok(false)
    }
}

/// Most transactions that are read after the end of the index.
const MAX_TAIL: usize = 8192;

/// A running search.
struct Search<'a> {
    index: &'a Index,
    query: &'a Query,
    page: &'a Page,
    limit: usize,
    /// The words that every hit has.
    sift: Option<Sift>,
    deadline: Instant,
    /// Sealed parts that may have hits, newest last, and how many of them are not read yet.
    sealed: Vec<Arc<SealedPart>>,
    remaining: usize,
    heap: BinaryHeap<Candidate>,
    /// Candidates whose texts may have the words of the query, newest first: newer than all in the heap.
    passed: VecDeque<Candidate>,
    /// Candidates with their transactions: newer than all others.
    ready: VecDeque<(Candidate, Option<Transaction>)>,
    /// Size of the next batch of candidates.
    batch: usize,
    /// Number of the part whose business keys were read last, and these keys.
    keys: Option<(usize, Keys<'static>)>,
    found: Hits,
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let (mut loaded, mut checked, mut bytes) = (0_usize, 0_usize, 0);
        loop {
            let ready = self.ready.front().map(|(candidate, _)| candidate.cursor);
            let passed = || self.passed.front().map(|candidate| candidate.cursor);
            let heap = || self.heap.peek().map(|candidate| candidate.cursor);
            let best = ready.or_else(passed).or_else(heap);
            // A part is read once no candidate is newer than its newest row.
            let newest = self.remaining.checked_sub(1).map(|next| self.sealed[next].times().1);
            if let Some(newest) = newest
                && best.is_none_or(|best| best.time <= newest)
            {
                if loaded > 0 && self.is_out_of_time() {
                    let cursor = Cursor { time: newest.saturating_add(1), id: 0 };
                    self.cut(self.page.after.map_or(cursor, |after| after.min(cursor)));
                    return Ok(());
                }
                loaded += 1;
                self.load()?;
                continue;
            }
            let Some(best) = best else { return Ok(()) };
            if self.found.hits.len() == self.limit || bytes > PAGE_BYTES {
                self.found.next = self.found.hits.last().map(Hit::cursor);
                return Ok(());
            }
            checked += 1;
            // At least one, so that a sequence of pages ends.
            if checked > 1 && self.is_out_of_time() {
                // All newer candidates were checked; `best` itself was not.
                self.cut(Cursor { time: best.time, id: best.id.saturating_add(1) });
                return Ok(());
            }
            if self.ready.is_empty() {
                self.sift(newest)?;
                self.read(newest)?;
            }
            if let Some((candidate, transaction)) = self.ready.pop_front() {
                let hit = self.hit(&candidate, transaction)?;
                bytes += hit.as_ref().map_or(0, Hit::bytes);
                self.found.hits.extend(hit);
            }
        }
    }

    fn is_out_of_time(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn cut(&mut self, next: Cursor) {
        self.found.next = Some(next);
        self.found.cut = true;
    }

    /// Adds the candidates of the newest remaining part.
    fn load(&mut self) -> Result<(), Error> {
        self.remaining -= 1;
        // Candidates that were read ahead return to the heap.
        self.heap.extend(self.ready.drain(..).map(|(candidate, _)| candidate));
        self.heap.extend(self.passed.drain(..));
        let part = &self.sealed[self.remaining];
        let Self { query, limit, .. } = *self;
        let selection =
            Selection { query, sift: self.sift.as_ref(), after: self.page.after, limit };
        let found =
            View::sealed(part).and_then(|view| selection.candidates(&view, Some(self.remaining)));
        match found {
            Ok(found) => self.heap.extend(found),
            Err(error) if error.is_damage() => {
                self.index.shared.report(part);
                self.found.incomplete = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next candidate that is newer than the remaining parts.
    fn next(&mut self, newest: Option<u64>) -> Option<Candidate> {
        let next = self.heap.peek()?;
        newest.is_none_or(|newest| next.cursor.time > newest).then(|| self.heap.pop()).flatten()
    }

    /// Looks which of the next candidates may have the words of the query.
    fn sift(&mut self, newest: Option<u64>) -> Result<(), Error> {
        let Some(batch) = self.sift.as_ref().map(Sift::batch).filter(|_| self.passed.is_empty())
        else {
            return Ok(());
        };
        while self.passed.len() < batch
            && let Some(next) = self.next(newest)
        {
            self.passed.push_back(next);
        }
        if let Some(sift) = &mut self.sift {
            let sifted = self.passed.iter().filter(|candidate| candidate.is_sifted);
            let sifted = sifted.filter_map(|candidate| candidate.address);
            let lacking = sift.lacking(&self.index.shared, sifted, self.deadline)?;
            self.passed.retain(|candidate| {
                candidate.address.is_none_or(|address| !lacking.contains(&address))
            });
            // They need not be looked at again.
            self.passed.iter_mut().for_each(|candidate| candidate.is_sifted = false);
        }
        Ok(())
    }

    /// Reads the next candidates that are newer than the remaining parts from the journal.
    fn read(&mut self, newest: Option<u64>) -> Result<(), Error> {
        let mut addresses = Vec::new();
        while addresses.len() < self.batch {
            let next = match self.passed.pop_front() {
                // The rest has to be sifted first.
                None if self.sift.is_some() => None,
                None => self.next(newest),
                passed => passed,
            };
            let Some(next) = next else { break };
            addresses.extend(next.address);
            self.ready.push_back((next, None));
        }
        if addresses.is_empty() {
            return Ok(());
        }
        addresses.sort_unstable();
        let pending = self.ready.iter().any(|(candidate, _)| !candidate.definite);
        let payload = self.page.payload || pending || self.query.uses_words();
        let read = self.index.shared.transactions(&addresses, payload)?;
        let bytes: usize = read.iter().map(payload_bytes).sum();
        self.batch = if bytes < BATCH_BYTES { (self.batch * 4).min(MAX_BATCH) } else { 1 };
        let mut read: HashMap<_, _> = read
            .into_iter()
            .map(|mut transaction| {
                self.index.shared.read_keys(&mut transaction);
                (transaction.address, transaction)
            })
            .collect();
        for (candidate, transaction) in &mut self.ready {
            let found = read.remove(&candidate.address);
            let id = candidate.cursor.id.to_be_bytes();
            *transaction = found.filter(|transaction| transaction.id == id);
        }
        Ok(())
    }

    /// The business keys of a row, as stored in the index.
    fn keys(&mut self, part: usize, row: usize) -> Result<Vec<(String, String)>, Error> {
        if self.keys.as_ref().is_none_or(|(read, _)| *read != part) {
            self.keys = Some((part, self.sealed[part].head.columns()?.keys()?));
        }
        Ok(self.keys.as_ref().map(|(_, keys)| keys.of_row(row)).unwrap_or_default())
    }

    /// The hit of a candidate, if it is one.
    fn hit(
        &mut self,
        candidate: &Candidate,
        transaction: Option<Transaction>,
    ) -> Result<Option<Hit>, Error> {
        if let Some(mut transaction) = transaction {
            // Their body may have expired, or their configuration may have changed.
            let shared = &self.index.shared;
            let unread =
                transaction.expired || shared.settings.keys.is_empty() || self.query.uses_keys();
            if let Some(part) = candidate.part.filter(|_| unread) {
                keys::merge(&mut transaction, self.keys(part, candidate.row)?);
            }
            let subject = Subject::new(&transaction, self.index.shared.ledger());
            if !candidate.definite && !subject.matches(&self.query.root) {
                return Ok(None);
            }
            let highlights = subject.highlights(self.query);
            let row = subject.row;
            let absence = Absence::default();
            return Ok(Some(Hit { row, transaction: Some(transaction), absence, highlights }));
        }
        let Some(part) = candidate.part.filter(|_| candidate.definite) else { return Ok(None) };
        let row = self.sealed[part].head.columns()?.row(candidate.row)?;
        let address = candidate.address;
        let absence = address.map(|address| self.index.shared.journal.absence(address));
        let absence = absence.unwrap_or_default();
        Ok(Some(Hit { row, transaction: None, absence, highlights: Vec::new() }))
    }
}
