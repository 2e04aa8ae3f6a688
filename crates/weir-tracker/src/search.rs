//! Finding transactions: newest first, page by page.

pub(crate) mod check;
mod evaluate;
mod summary;
mod tail;

pub use summary::{Facet, Summary};
pub use tail::Tail;

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_journal::{Absence, Address, Position, Transaction};

pub use self::check::Highlight;
use self::check::Subject;
use self::evaluate::{View, evaluate};
use crate::content::payload_bytes;
use crate::error::Error;
use crate::field::Number;
use crate::index::Index;
use crate::part::SealedPiece;
use crate::part::keys::{self, Keys};
use crate::part::row::Row;
use crate::query::{Node, Query, Term};

/// Most hits of a page.
pub const LONGEST_PAGE: usize = 1000;
/// Bytes of bodies after which a page ends, and a batch of candidates is not made longer.
const PAGE_BYTES: usize = 16 << 20;
const BATCH_BYTES: usize = 1 << 20;
/// Most candidates that are read from the journal at once.
const MOST_BATCH: usize = 64;

/// A place in the order of hits: by time received, then by id. It stays the same while records
/// arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    time: u64,
    id: u128,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:032x}", self.time, self.id)
    }
}

/// The text is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of a page")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (time, id) = text.split_at_checked(16).ok_or(BadCursor)?;
        if id.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(BadCursor);
        }
        Ok(Self {
            time: u64::from_str_radix(time, 16).map_err(|_| BadCursor)?,
            id: u128::from_str_radix(id, 16).map_err(|_| BadCursor)?,
        })
    }
}

/// Which hits to give.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Most hits; at most [`LONGEST_PAGE`] are given.
    pub limit: usize,
    /// Begin behind this place.
    pub after: Option<Cursor>,
    /// Longest time to search.
    pub budget: Duration,
    /// Hits are wanted with heads, bodies, properties and logs. Else they may have none, where the
    /// query does not ask for words: that saves reading them.
    pub payload: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 50, after: None, budget: Duration::from_secs(2), payload: true }
    }
}

/// A transaction that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Its metadata.
    pub row: Row,
    /// The transaction; none if the journal does not have it any more.
    pub transaction: Option<Transaction>,
    /// Why it does not, if it does not.
    pub absence: Absence,
    /// Where the words of the query stand in it.
    pub highlights: Vec<Highlight>,
}

impl Hit {
    /// Its place in the order.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { time: self.row.time, id: self.row.id }
    }

    fn bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, payload_bytes)
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    /// Newest first.
    pub hits: Vec<Hit>,
    /// Where to go on; none if there is nothing more.
    pub next: Option<Cursor>,
    /// The time ran out: there may be more between the last hit and `next`, and behind it.
    pub cut: bool,
    /// Parts of the index are being made again, or the journal is too far ahead to be read
    /// through, or the query asks for business keys and of a part nobody knows them: hits may be
    /// missing.
    pub incomplete: bool,
}

/// A row that may be a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    place: Cursor,
    /// Number in the list of pieces; none if it is not in a sealed one.
    piece: Option<usize>,
    row: usize,
    sure: bool,
    address: Option<Address>,
}

/// What a search looks at: the state at one moment.
pub(crate) struct Snapshot {
    /// Those that may have hits, newest last.
    pub(crate) sealed: Vec<Arc<SealedPiece>>,
    pub(crate) indexed: Vec<Position>,
    pub(crate) incomplete: bool,
}

impl Index {
    /// Finds transactions.
    ///
    /// # Errors
    /// If files of the index or of the journal cannot be read. Damage is no error: it is put
    /// right, and [`Hits::incomplete`] until then.
    pub fn search(&self, query: &Query, page: &Page) -> Result<Hits, Error> {
        let deadline = Instant::now() + page.budget;
        let limit = page.limit.clamp(1, LONGEST_PAGE);
        let mut open = Vec::new();
        let snapshot = self.snapshot(query, |view| {
            open = candidates(query, view, None, page.after, limit)?;
            Ok(())
        })?;
        let mut sealed = snapshot.sealed;
        // Pages before this one have come to the end of those.
        sealed.retain(|piece| page.after.is_none_or(|after| piece.times().0 <= after.time));
        let mut tail = Vec::new();
        // Half of the time is left for what is indexed.
        let tail_ends = Instant::now() + page.budget / 2;
        let keys = query.names_keys();
        let unread = self.tail(query, &snapshot.indexed, keys, tail_ends, &mut |subject| {
            let row = subject.row;
            let place = Cursor { time: row.time, id: row.id };
            if page.after.is_none_or(|after| place < after) {
                tail.push(Candidate {
                    place,
                    sure: true,
                    piece: None,
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
            deadline,
            left: sealed.len(),
            sealed,
            heap: BinaryHeap::from(open),
            ready: VecDeque::new(),
            batch: 1,
            keys: None,
            found: Hits { incomplete: snapshot.incomplete || unread, ..Hits::default() },
        };
        search.heap.extend(tail);
        search.run()?;
        Ok(search.found)
    }

    /// The whole transaction with an id; none if the journal does not have it.
    ///
    /// # Errors
    /// As [`Index::find`].
    pub fn show(&self, id: u128) -> Result<Option<Transaction>, Error> {
        Ok(self.find(id)?.and_then(|hit| hit.transaction))
    }

    /// What is known of the transaction with an id; none if there was none, or long ago.
    ///
    /// # Errors
    /// As [`Index::search`], and [`Error::Behind`] if it cannot be said that there is none.
    pub fn find(&self, id: u128) -> Result<Option<Hit>, Error> {
        let query = Query { root: Node::Term(Term::Id(id, id)) };
        let found = self.search(&query, &Page { limit: 1, ..Page::default() })?;
        match found.hits.into_iter().next() {
            Some(hit) => Ok(Some(hit)),
            None if found.incomplete || found.cut => Err(Error::Behind),
            None => Ok(None),
        }
    }

    /// Lets `look` at the open piece, and gives the others that may have hits.
    pub(crate) fn snapshot(
        &self,
        query: &Query,
        look: impl FnOnce(&View<'_>) -> Result<(), Error>,
    ) -> Result<Snapshot, Error> {
        let state = self.shared.read();
        look(&View::Open(&state.open))?;
        let mut sealed = state.sealed.clone();
        let indexed = state.indexed.clone();
        let mut incomplete = !state.gaps.is_empty();
        if query.names_keys() && self.shared.settings.provisional {
            let without = |piece: &Arc<SealedPiece>| piece.head.about.provisional;
            incomplete |= state.open.columns.len() > 0 || sealed.iter().any(without);
        }
        drop(state);
        let (low, high) = query.times();
        sealed.retain(|piece| {
            let (least, greatest) = piece.times();
            least <= high && low <= greatest
        });
        sealed.sort_by_key(|piece| piece.times().1);
        Ok(Snapshot { sealed, indexed, incomplete })
    }

    /// Tells the rows of hits among what is not indexed yet, with their business keys if `keys` are
    /// wanted; gives whether some of it was left unread.
    pub(crate) fn tail(
        &self,
        query: &Query,
        indexed: &[Position],
        keys: bool,
        deadline: Instant,
        hit: &mut dyn FnMut(Subject<'_>),
    ) -> Result<bool, Error> {
        self.shared.counts.search();
        let (mut looked, mut transaction) = (0, Transaction::default());
        for (lane, from) in indexed.iter().enumerate() {
            let mut reader = self.shared.journal.reader(lane as u16, *from);
            if !keys && !query.reads_payload() {
                reader = reader.metadata_only();
            }
            while reader.next_shown_into(&mut transaction).map_err(Error::Journal)? {
                if keys {
                    self.shared.read_keys(&mut transaction);
                }
                looked += 1;
                if looked > MOST_TAIL || Instant::now() >= deadline {
                    return Ok(true);
                }
                let whole = self.shared.settings.whole_stage;
                let subject = Subject::new(&transaction, whole).told_by(self.shared.ledger());
                if subject.holds(&query.root) {
                    hit(subject);
                }
            }
        }
        Ok(false)
    }
}

/// Most transactions that are read past the end of the index.
const MOST_TAIL: usize = 8192;

/// The rows of a piece that may be hits, in any order. If all of them are, no more than needed.
fn candidates(
    query: &Query,
    view: &View<'_>,
    piece: Option<usize>,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Vec<Candidate>, Error> {
    let known = evaluate(&query.root, view)?;
    if known.maybe.is_empty() {
        return Ok(Vec::new());
    }
    let (times, ids) = (view.number(Number::Time)?, view.ids()?);
    let address = |row: usize| match view {
        View::Open(open) => Some(open.address(row)),
        View::Sealed(..) => None,
    };
    let mut found: Vec<Candidate> = known
        .maybe
        .rows()
        .map(|row| Candidate {
            place: Cursor { time: times[row], id: ids[row] },
            piece,
            row,
            sure: known.sure.contains(row),
            address: address(row),
        })
        .filter(|candidate| after.is_none_or(|after| candidate.place < after))
        .collect();
    // One more than the page tells whether there is another.
    if found.len() > limit + 1 && found.iter().all(|candidate| candidate.sure) {
        found.select_nth_unstable_by(limit, |one, other| other.cmp(one));
        found.truncate(limit + 1);
    }
    Ok(found)
}

/// One search under way.
struct Search<'a> {
    index: &'a Index,
    query: &'a Query,
    page: &'a Page,
    limit: usize,
    deadline: Instant,
    /// Those that may have hits, newest last, and how many of them were not looked at.
    sealed: Vec<Arc<SealedPiece>>,
    left: usize,
    heap: BinaryHeap<Candidate>,
    /// Candidates whose transactions were read: newer than all in the heap.
    ready: VecDeque<(Candidate, Option<Transaction>)>,
    /// Candidates to read at once next time.
    batch: usize,
    /// The business keys of the piece that they were read from last.
    keys: Option<(usize, Keys<'static>)>,
    found: Hits,
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let (mut loaded, mut looked, mut bytes) = (0_usize, 0_usize, 0);
        loop {
            let ready = self.ready.front().map(|(candidate, _)| candidate.place);
            let best = ready.or_else(|| self.heap.peek().map(|candidate| candidate.place));
            // A piece is opened once nothing newer than its newest row is left.
            let newest = self.left.checked_sub(1).map(|next| self.sealed[next].times().1);
            if let Some(newest) = newest
                && best.is_none_or(|best| best.time <= newest)
            {
                if loaded > 0 && self.is_late() {
                    let place = Cursor { time: newest.saturating_add(1), id: 0 };
                    self.cut(self.page.after.map_or(place, |after| after.min(place)));
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
            looked += 1;
            // One at least, so that whoever asks on comes to an end.
            if looked > 1 && self.is_late() {
                // Everything down to here was looked at; `best` itself was not.
                self.cut(Cursor { time: best.time, id: best.id.saturating_add(1) });
                return Ok(());
            }
            if self.ready.is_empty() {
                self.read(newest)?;
            }
            if let Some((candidate, transaction)) = self.ready.pop_front() {
                let hit = self.hit(&candidate, transaction)?;
                bytes += hit.as_ref().map_or(0, Hit::bytes);
                self.found.hits.extend(hit);
            }
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn cut(&mut self, next: Cursor) {
        self.found.next = Some(next);
        self.found.cut = true;
    }

    /// Adds the candidates of the newest piece that is left.
    fn load(&mut self) -> Result<(), Error> {
        self.left -= 1;
        // What was read ahead takes its place among the others again.
        self.heap.extend(self.ready.drain(..).map(|(candidate, _)| candidate));
        let piece = &self.sealed[self.left];
        let found = View::sealed(piece).and_then(|view| {
            candidates(self.query, &view, Some(self.left), self.page.after, self.limit)
        });
        match found {
            Ok(found) => self.heap.extend(found),
            Err(error) if error.is_damage() => {
                self.index.shared.report(piece);
                self.found.incomplete = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads the next candidates from the journal, as long as they are newer than the pieces left.
    fn read(&mut self, newest: Option<u64>) -> Result<(), Error> {
        let mut addresses = Vec::new();
        while addresses.len() < self.batch {
            let Some(mut next) = self.heap.pop() else { break };
            if newest.is_some_and(|newest| next.place.time <= newest) {
                self.heap.push(next);
                break;
            }
            if let Some(piece) = next.piece {
                next.address = Some(self.sealed[piece].head.columns()?.address(next.row)?);
            }
            addresses.extend(next.address);
            self.ready.push_back((next, None));
        }
        addresses.sort_unstable();
        let unsure = self.ready.iter().any(|(candidate, _)| !candidate.sure);
        let payload = self.page.payload || unsure || self.query.names_words();
        let read =
            self.index.shared.journal.get_many(&addresses, payload).map_err(Error::Journal)?;
        let bytes: usize = read.iter().map(payload_bytes).sum();
        self.batch = if bytes < BATCH_BYTES { (self.batch * 4).min(MOST_BATCH) } else { 1 };
        let mut read: HashMap<_, _> = read
            .into_iter()
            .map(|mut transaction| {
                self.index.shared.read_keys(&mut transaction);
                (transaction.address, transaction)
            })
            .collect();
        for (candidate, transaction) in &mut self.ready {
            let found = read.remove(&candidate.address);
            let id = candidate.place.id.to_be_bytes();
            *transaction = found.filter(|transaction| transaction.id == id);
        }
        Ok(())
    }

    /// The business keys of a row as the index has them.
    fn keys(&mut self, piece: usize, row: usize) -> Result<Vec<(String, String)>, Error> {
        if self.keys.as_ref().is_none_or(|(read, _)| *read != piece) {
            self.keys = Some((piece, self.sealed[piece].head.columns()?.keys()?));
        }
        Ok(self.keys.as_ref().map(|(_, keys)| keys.of(row)).unwrap_or_default())
    }

    /// The candidate as a hit, if it is one.
    fn hit(
        &mut self,
        candidate: &Candidate,
        transaction: Option<Transaction>,
    ) -> Result<Option<Hit>, Error> {
        if let Some(mut transaction) = transaction {
            // What they were read from may be gone, and what is a key may have been another thing.
            let shared = &self.index.shared;
            let unread =
                transaction.expired || shared.settings.keys.is_empty() || self.query.names_keys();
            if let Some(piece) = candidate.piece.filter(|_| unread) {
                keys::merge(&mut transaction, self.keys(piece, candidate.row)?);
            }
            let whole = self.index.shared.settings.whole_stage;
            let subject = Subject::new(&transaction, whole).told_by(self.index.shared.ledger());
            if !candidate.sure && !subject.holds(&self.query.root) {
                return Ok(None);
            }
            let highlights = subject.highlights(self.query);
            let row = subject.row;
            let absence = Absence::default();
            return Ok(Some(Hit { row, transaction: Some(transaction), absence, highlights }));
        }
        let Some(piece) = candidate.piece.filter(|_| candidate.sure) else { return Ok(None) };
        let row = self.sealed[piece].head.columns()?.row(candidate.row)?;
        let address = candidate.address;
        let absence = address.map(|address| self.index.shared.journal.absence(address));
        let absence = absence.unwrap_or_default();
        Ok(Some(Hit { row, transaction: None, absence, highlights: Vec::new() }))
    }
}
