//! Finding transactions: newest first, page by page.

use std::collections::BinaryHeap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_journal::{Address, Position, Transaction};

use crate::check::{Highlight, Subject};
use crate::error::Error;
use crate::evaluate::{View, evaluate};
use crate::index::{Index, is_damage, times};
use crate::piece::SealedPiece;
use crate::query::{Node, Number, Query, Term};
use crate::row::Row;

/// Most hits of a page.
pub const LONGEST_PAGE: usize = 1000;
/// Candidates that are looked at between two glances at the clock.
const GLANCE: usize = 16;

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
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 50, after: None, budget: Duration::from_secs(2) }
    }
}

/// A transaction that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Its metadata.
    pub row: Row,
    /// The transaction; none if the journal keeps it no longer.
    pub transaction: Option<Transaction>,
    /// Where the words of the query stand in it.
    pub highlights: Vec<Highlight>,
}

impl Hit {
    /// Its place in the order.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { time: self.row.time, id: self.row.id }
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
    /// through: hits may be missing.
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
        let mut snapshot = self.snapshot(query, |view| {
            open = candidates(query, view, None, page.after, limit)?;
            Ok(())
        })?;
        let (tail, unread) = self.tail(query, &snapshot.indexed, deadline)?;
        let mut hits = Hits { incomplete: snapshot.incomplete || unread, ..Hits::default() };
        let mut heap = BinaryHeap::from(open);
        let before = |place: Cursor| page.after.is_none_or(|after| place < after);
        let mut tail: Vec<Hit> = tail.into_iter().filter(|hit| before(hit.cursor())).collect();
        tail.sort_by_key(Hit::cursor);
        let mut left = snapshot.sealed.len();
        let (mut looked, mut loaded) = (0, 0);
        loop {
            // A piece is opened once nothing newer than its newest row is left.
            let best = heap.peek().map(|candidate: &Candidate| candidate.place);
            let best = best.max(tail.last().map(Hit::cursor));
            if left > 0 {
                let newest = times(&snapshot.sealed[left - 1]).1;
                if best.is_none_or(|best| best.time <= newest) {
                    if loaded > 0 && Instant::now() >= deadline {
                        let place = Cursor { time: newest.saturating_add(1), id: 0 };
                        hits.next = Some(page.after.map_or(place, |after| after.min(place)));
                        hits.cut = true;
                        return Ok(hits);
                    }
                    left -= 1;
                    loaded += 1;
                    self.load(query, &mut snapshot, left, page, limit, &mut heap, &mut hits)?;
                    continue;
                }
            }
            let Some(best) = best else { return Ok(hits) };
            if hits.hits.len() == limit {
                hits.next = hits.hits.last().map(Hit::cursor);
                return Ok(hits);
            }
            looked += 1;
            if looked % GLANCE == 0 && Instant::now() >= deadline {
                // Everything down to here was looked at; `best` itself was not.
                hits.next = Some(Cursor { time: best.time, id: best.id.saturating_add(1) });
                hits.cut = true;
                return Ok(hits);
            }
            if tail.last().is_some_and(|hit| hit.cursor() == best) {
                hits.hits.extend(tail.pop());
            } else if let Some(candidate) = heap.pop() {
                hits.hits.extend(self.hit(query, &snapshot, &candidate)?);
            }
        }
    }

    /// The whole transaction with an id; none if the journal does not have it.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn show(&self, id: u128) -> Result<Option<Transaction>, Error> {
        let query = Query { root: Node::Term(Term::Id(id, id)) };
        let found = self.search(&query, &Page { limit: 1, ..Page::default() })?;
        Ok(found.hits.into_iter().find_map(|hit| hit.transaction))
    }

    /// All hits, page after page, newest first, however long that takes.
    pub fn export<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = Result<Hit, Error>> + 'a {
        let mut after = None;
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let page = Page { limit: LONGEST_PAGE, after, ..Page::default() };
            let found = self.search(query, &page);
            let hits = found.map(|found| {
                after = found.next;
                ended = after.is_none();
                found.hits
            });
            Some(match hits {
                Ok(hits) => hits.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => {
                    ended = true;
                    vec![Err(error)]
                }
            })
        })
        .flatten()
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
        let incomplete = !state.gaps.is_empty();
        drop(state);
        let (low, high) = query.times();
        sealed.retain(|piece| {
            let (least, greatest) = times(piece);
            least <= high && low <= greatest
        });
        sealed.sort_by_key(|piece| times(piece).1);
        Ok(Snapshot { sealed, indexed, incomplete })
    }

    /// Adds the candidates of a sealed piece.
    #[expect(clippy::too_many_arguments, reason = "the state of one search, taken apart once")]
    fn load(
        &self,
        query: &Query,
        snapshot: &mut Snapshot,
        at: usize,
        page: &Page,
        limit: usize,
        heap: &mut BinaryHeap<Candidate>,
        hits: &mut Hits,
    ) -> Result<(), Error> {
        let piece = &snapshot.sealed[at];
        let found = View::sealed(piece)
            .and_then(|view| candidates(query, &view, Some(at), page.after, limit));
        match found {
            Ok(found) => heap.extend(found),
            Err(error) if is_damage(&error) => {
                self.shared.report(piece);
                hits.incomplete = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The candidate as a hit, if it is one.
    fn hit(
        &self,
        query: &Query,
        snapshot: &Snapshot,
        candidate: &Candidate,
    ) -> Result<Option<Hit>, Error> {
        let sealed = match candidate.piece {
            Some(piece) => Some(snapshot.sealed[piece].head.columns()?),
            None => None,
        };
        let address = match &sealed {
            Some(sealed) => Some(sealed.address(candidate.row)?),
            None => candidate.address,
        };
        let transaction = self.read(address, candidate.place.id)?;
        if let Some(transaction) = transaction {
            return Ok(self.checked(query, transaction, candidate.sure));
        }
        match sealed {
            Some(sealed) if candidate.sure => {
                let row = sealed.row(candidate.row)?;
                Ok(Some(Hit { row, transaction: None, highlights: Vec::new() }))
            }
            _ => Ok(None),
        }
    }

    /// The transaction at an address, if it still has this id.
    pub(crate) fn read(
        &self,
        address: Option<Address>,
        id: u128,
    ) -> Result<Option<Transaction>, Error> {
        let Some(address) = address else { return Ok(None) };
        let found = self.shared.journal.get(address).map_err(Error::Journal)?;
        Ok(found.filter(|transaction| u128::from_be_bytes(transaction.id) == id))
    }

    fn checked(&self, query: &Query, transaction: Transaction, sure: bool) -> Option<Hit> {
        let subject = Subject::new(&transaction, self.shared.settings.whole_stage);
        if !sure && !subject.holds(&query.root) {
            return None;
        }
        let highlights = subject.highlights(query);
        let row = subject.row;
        Some(Hit { row, transaction: Some(transaction), highlights })
    }

    /// Hits among what is not indexed yet, and whether some of it was left unread.
    pub(crate) fn tail(
        &self,
        query: &Query,
        indexed: &[Position],
        deadline: Instant,
    ) -> Result<(Vec<Hit>, bool), Error> {
        let mut hits = Vec::new();
        let mut looked = 0;
        for (lane, from) in indexed.iter().enumerate() {
            let mut reader = self.shared.journal.reader(lane as u16, *from);
            while let Some(transaction) = reader.next_transaction().map_err(Error::Journal)? {
                looked += 1;
                if looked % GLANCE == 0 && (looked > MOST_TAIL || Instant::now() >= deadline) {
                    return Ok((hits, true));
                }
                hits.extend(self.checked(query, transaction, false));
            }
        }
        Ok((hits, false))
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
