//! The rows of a part that may be hits.

use weir_journal::Address;

use super::Cursor;
use super::evaluate::{View, evaluate};
use super::sift::Sift;
use crate::error::Error;
use crate::query::Query;

/// A row that may be a hit, or is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) cursor: Cursor,
    /// Number in the list of sealed parts; none if it is in none of them.
    pub(super) part: Option<usize>,
    pub(super) row: usize,
    pub(super) definite: bool,
    /// Without the words of the query in its recorded texts it is no hit.
    pub(super) is_sifted: bool,
    pub(super) address: Option<Address>,
}

/// What a search looks for in a part.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) query: &'a Query,
    pub(super) sift: Option<&'a Sift>,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

impl Selection<'_> {
    /// The candidates of a part, in any order. If all are definite hits, no more than a page needs.
    pub(super) fn candidates(
        &self,
        view: &View<'_>,
        part: Option<usize>,
    ) -> Result<Vec<Candidate>, Error> {
        let known = evaluate(&self.query.root, view)?;
        if known.candidates.is_empty() {
            return Ok(Vec::new());
        }
        let by_key = self.sift.map(|sift| sift.rows_by_key(view, &known.candidates)).transpose()?;
        let rows: Vec<usize> = known.candidates.rows().collect();
        let mut found: Vec<Candidate> = rows
            .iter()
            .zip(view.cursors(&rows)?)
            .map(|(row, cursor)| {
                let definite = known.definite.contains(*row);
                let is_sifted =
                    !definite && by_key.as_ref().is_some_and(|rows| !rows.contains(*row));
                Candidate { cursor, part, row: *row, definite, is_sifted, address: None }
            })
            .filter(|candidate| self.after.is_none_or(|after| candidate.cursor < after))
            .collect();
        // One more than the page has, to know whether there is another page.
        if found.len() > self.limit + 1 && found.iter().all(|candidate| candidate.definite) {
            found.select_nth_unstable_by(self.limit, |one, other| other.cmp(one));
            found.truncate(self.limit + 1);
        }
        let rows: Vec<usize> = found.iter().map(|candidate| candidate.row).collect();
        let addresses = view.addresses(&rows)?;
        for (candidate, address) in found.iter_mut().zip(addresses) {
            candidate.address = Some(address);
        }
        Ok(found)
    }
}
