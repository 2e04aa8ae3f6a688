//! Visits all hits of a query, newest parts first.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_journal::Address;

use crate::error::Error;
use crate::index::Index;
use crate::part::SealedPart;
use crate::part::bitmap::Bitmap;
use crate::part::keys::{self, Keys};
use crate::query::Query;
use crate::search::check::Subject;
use crate::search::evaluate::{View, evaluate};
use crate::search::sift::{Addresses, Sift};

/// Transactions that are read from the journal together.
const READ_BATCH: usize = 16;

/// What is done with the hits of a query.
pub(crate) trait Visitor {
    /// Whether hits that are read need their business keys.
    fn uses_keys(&self) -> bool;
    /// Rows of a part that are hits, as its columns alone show. Nothing else can change the index meanwhile: this
    /// must not take long.
    fn rows(&mut self, view: &View<'_>, rows: &Bitmap) -> Result<(), Error>;
    /// A hit that had to be read.
    fn hit(&mut self, subject: &Subject<'_>);
    /// The rows of a part are passed. Returns false if the deadline came before all of them were.
    fn part_ends(&mut self, _deadline: Instant) -> Result<bool, Error> {
        Ok(true)
    }
    /// Whether further hits are not needed.
    fn is_full(&self) -> bool {
        false
    }
}

/// How a visit has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// The budget ran out, or the visitor was full.
    pub(crate) cut: bool,
    /// As [`crate::Hits::incomplete`].
    pub(crate) incomplete: bool,
}

impl Index {
    /// Passes the hits of a query to a visitor for up to `budget`.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub(crate) fn visit(
        &self,
        query: &Query,
        budget: Duration,
        visitor: &mut dyn Visitor,
    ) -> Result<Visited, Error> {
        let deadline = Instant::now() + budget;
        let mut sift = Sift::new(query);
        let mut pending = Vec::new();
        let snapshot = self.snapshot(query, |view| {
            let known = evaluate(&query.root, view)?;
            visitor.rows(view, &known.definite)?;
            let View::Open(open) = view else { return Ok(()) };
            let by_key =
                sift.as_ref().map(|sift| sift.rows_by_key(view, &known.candidates)).transpose()?;
            let rows = known.candidates.rows().filter(|row| !known.definite.contains(*row));
            pending.extend(rows.map(|row| Pending {
                address: open.address(row),
                id: open.columns.ids[row],
                row,
                is_sifted: by_key.as_ref().is_some_and(|rows| !rows.contains(row)),
            }));
            Ok(())
        })?;
        let mut cut = !visitor.part_ends(deadline)?;
        let tail_ends = Instant::now() + budget / 2;
        let keys = query.uses_keys() || visitor.uses_keys();
        let unread = self.tail(query, &snapshot.indexed, keys, tail_ends, &mut |subject| {
            visitor.hit(&subject);
        })?;
        let mut incomplete = snapshot.incomplete || unread;
        // The keys of the open part come from the same configuration, so they need not be merged.
        let mut candidates = Candidates { index: self, query, sift: &mut sift, deadline };
        cut |= !candidates.visit(&pending, None, visitor)?;
        for part in snapshot.sealed.iter().rev() {
            cut |= visitor.is_full() || Instant::now() >= deadline;
            if cut {
                break;
            }
            match candidates.visit_part(part, visitor) {
                Ok(complete) => cut = !complete,
                Err(error) if error.is_damage() => {
                    self.shared.report(part);
                    incomplete = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Visited { cut, incomplete })
    }
}

/// A row that may be a hit.
struct Pending {
    address: Address,
    id: u128,
    row: usize,
    /// Without the words of the query in its recorded texts it is no hit.
    is_sifted: bool,
}

/// Reads the candidates of a query to visit those that are hits.
struct Candidates<'a> {
    index: &'a Index,
    query: &'a Query,
    sift: &'a mut Option<Sift>,
    deadline: Instant,
}

impl Candidates<'_> {
    /// Visits the hits of a sealed part. Returns false if the budget ran out.
    fn visit_part(&mut self, part: &SealedPart, visitor: &mut dyn Visitor) -> Result<bool, Error> {
        let view = View::sealed(part)?;
        let known = evaluate(&self.query.root, &view)?;
        visitor.rows(&view, &known.definite)?;
        if !visitor.part_ends(self.deadline)? {
            return Ok(false);
        }
        let mut candidates = known.candidates;
        let mut rest = known.definite;
        rest.invert();
        candidates.and(&rest);
        if candidates.is_empty() {
            return Ok(true);
        }
        let ids = view.ids()?;
        let by_key =
            self.sift.as_ref().map(|sift| sift.rows_by_key(&view, &candidates)).transpose()?;
        let rows: Vec<usize> = candidates.rows().collect();
        let addresses = view.addresses(&rows)?;
        let pending = rows.into_iter().zip(addresses).rev().map(|(row, address)| {
            let is_sifted = by_key.as_ref().is_some_and(|rows| !rows.contains(row));
            Pending { address, id: ids[row], row, is_sifted }
        });
        let pending: Vec<Pending> = pending.collect();
        let with_keys = self.query.uses_keys() || visitor.uses_keys();
        let stored_keys = with_keys.then(|| view.keys()).transpose()?;
        self.visit(&pending, stored_keys.as_ref(), visitor)
    }

    /// Visits the hits among candidates, with the stored keys of their part. Returns false if the budget
    /// ran out.
    fn visit(
        &mut self,
        pending: &[Pending],
        stored_keys: Option<&Keys<'_>>,
        visitor: &mut dyn Visitor,
    ) -> Result<bool, Error> {
        let mut rest = pending;
        while !rest.is_empty() {
            let batch = self.sift.as_ref().map_or(READ_BATCH, Sift::batch).min(rest.len());
            let (some, after) = rest.split_at(batch);
            rest = after;
            if visitor.is_full() || Instant::now() >= self.deadline {
                return Ok(false);
            }
            let sifted = some.iter().filter(|candidate| candidate.is_sifted);
            let sifted = sifted.map(|candidate| candidate.address);
            let lacking = match &mut self.sift {
                Some(sift) => sift.lacking(&self.index.shared, sifted, self.deadline)?,
                None => Addresses::default(),
            };
            let may_match = |candidate: &&Pending| !lacking.contains(&candidate.address);
            let some: Vec<&Pending> = some.iter().filter(may_match).collect();
            for some in some.chunks(READ_BATCH) {
                if Instant::now() >= self.deadline {
                    return Ok(false);
                }
                self.read(some, stored_keys, visitor)?;
            }
        }
        Ok(true)
    }

    fn read(
        &self,
        some: &[&Pending],
        stored_keys: Option<&Keys<'_>>,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error> {
        let shared = &self.index.shared;
        let mut addresses: Vec<_> = some.iter().map(|candidate| candidate.address).collect();
        addresses.sort_unstable();
        let mut read = shared.transactions(&addresses, true)?;
        let by_address: HashMap<_, _> =
            some.iter().map(|candidate| (candidate.address, candidate)).collect();
        for transaction in &mut read {
            let found = transaction.address.and_then(|address| by_address.get(&address));
            let Some(Pending { id, row, .. }) = found else { continue };
            shared.read_keys(transaction);
            if let Some(stored_keys) = stored_keys {
                keys::merge(transaction, stored_keys.of_row(*row));
            }
            let subject = Subject::new(transaction, shared.ledger());
            if *id == subject.row.id && subject.matches(&self.query.root) {
                visitor.hit(&subject);
            }
        }
        Ok(())
    }
}
