//! Evaluates a query on a part without reading the journal.
//!
//! Each node of a query gives two sets of rows: definite matches, and candidates, which include
//! them. Columns decide exactly; terms only narrow down the candidates, since they are stored by
//! block. Other candidates have to be checked against the transaction itself.

use std::borrow::Cow;

use weir_journal::Address;

use crate::error::Error;
use crate::field::{Name, Number};
use crate::part::bitmap::Bitmap;
use crate::part::block::{Depth, header_term, key_term};
use crate::part::file::Sealed;
use crate::part::keys::Keys;
use crate::part::{OpenPart, SealedPart};
use crate::query::{NameMatch, Node, Scope, Term};
use crate::search::Cursor;

/// A part whose columns can be read.
#[derive(Debug)]
pub(crate) enum View<'a> {
    Open(&'a OpenPart),
    Sealed(&'a SealedPart, Sealed<'a>),
}

impl<'a> View<'a> {
    pub(crate) fn sealed(part: &'a SealedPart) -> Result<Self, Error> {
        Ok(Self::Sealed(part, part.head.columns()?))
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Open(open) => open.columns.len(),
            Self::Sealed(part, _) => part.head.rows,
        }
    }

    pub(crate) fn number(&self, number: Number) -> Result<Cow<'a, [u64]>, Error> {
        match self {
            Self::Open(open) => Ok(Cow::Borrowed(&open.columns.numbers[number as usize])),
            Self::Sealed(_, columns) => columns.number(number).map(Cow::Owned),
        }
    }

    pub(crate) fn ids(&self) -> Result<Cow<'a, [u128]>, Error> {
        match self {
            Self::Open(open) => Ok(Cow::Borrowed(&open.columns.ids)),
            Self::Sealed(_, columns) => columns.ids().map(Cow::Owned),
        }
    }

    pub(crate) fn codes(&self, name: Name) -> Result<Cow<'a, [u32]>, Error> {
        match self {
            Self::Open(open) => Ok(Cow::Borrowed(&open.columns.names[name as usize].codes)),
            Self::Sealed(_, columns) => columns.codes(name).map(Cow::Owned),
        }
    }

    pub(crate) fn values(&self, name: Name) -> Result<Cow<'a, [String]>, Error> {
        match self {
            Self::Open(open) => Ok(Cow::Borrowed(&open.columns.names[name as usize].values)),
            Self::Sealed(_, columns) => columns.values(name).map(Cow::Owned),
        }
    }

    /// Whether the part has the column, or records had no such field when it was made; otherwise only the journal
    /// knows.
    fn knows(&self, name: Name) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Sealed(_, columns) => {
                columns.has(name) || matches!(name, Name::UpstreamTarget | Name::Configuration)
            }
        }
    }

    pub(crate) fn keys(&self) -> Result<Keys<'_>, Error> {
        match self {
            Self::Open(open) => Ok(open.columns.keys.view()),
            Self::Sealed(_, columns) => columns.keys(),
        }
    }

    /// Addresses of rows in the journal, in the same order.
    pub(crate) fn addresses(&self, rows: &[usize]) -> Result<Vec<Address>, Error> {
        match self {
            Self::Open(open) => Ok(rows.iter().map(|row| open.address(*row)).collect()),
            Self::Sealed(_, columns) => columns.addresses(rows),
        }
    }

    /// Positions of rows in the order of hits, in the order of the rows.
    pub(crate) fn cursors(&self, rows: &[usize]) -> Result<Vec<Cursor>, Error> {
        match self {
            Self::Open(open) => {
                let (times, ids) =
                    (&open.columns.numbers[Number::Time as usize], &open.columns.ids);
                Ok(rows.iter().map(|row| Cursor::new(times[*row], ids[*row])).collect())
            }
            Self::Sealed(_, columns) => {
                let found = columns.times_and_ids(rows)?;
                Ok(found.into_iter().map(|(time, id)| Cursor::new(time, id)).collect())
            }
        }
    }

    pub(crate) fn depth(&self) -> Depth {
        match self {
            Self::Open(open) => open.depth,
            Self::Sealed(part, _) => part.head.metadata.depth,
        }
    }

    fn blocks(&self, term: &[u8]) -> Result<Bitmap, Error> {
        match self {
            Self::Open(open) => Ok(open.blocks(term)),
            Self::Sealed(part, _) => part.blocks(term),
        }
    }

    /// Removes the blocks that cannot have a phrase from `candidates`.
    fn without_phrase(&self, phrase: &[String], candidates: &mut Bitmap) -> Result<(), Error> {
        match self {
            Self::Open(open) => {
                open.without_phrase(phrase, candidates);
                Ok(())
            }
            Self::Sealed(part, columns) => {
                columns.without_phrase(&part.hashes(phrase)?, candidates)
            }
        }
    }

    /// Whether no row, or every row, has a number in the range, by the bounds of the column; none if
    /// they do not decide.
    fn decided_by_bounds(
        &self,
        number: Number,
        low: u64,
        high: u64,
    ) -> Result<Option<bool>, Error> {
        let Self::Sealed(part, _) = self else { return Ok(None) };
        let (min, max) = part.head.bounds(number)?;
        Ok(if max < low || min > high {
            Some(false)
        } else if low <= min && max <= high {
            Some(true)
        } else {
            None
        })
    }
}

/// The rows of a part that match; `candidates` include `definite`.
#[derive(Clone, Debug)]
pub(crate) struct Matches {
    pub(crate) definite: Bitmap,
    pub(crate) candidates: Bitmap,
}

impl Matches {
    fn exact(rows: Bitmap) -> Self {
        Self { definite: rows.clone(), candidates: rows }
    }

    fn candidates(rows: usize, candidates: Bitmap) -> Self {
        Self { definite: Bitmap::none(rows), candidates }
    }
}

pub(crate) fn evaluate(node: &Node, view: &View<'_>) -> Result<Matches, Error> {
    let rows = view.rows();
    match node {
        Node::And(nodes) => {
            let mut found = Matches::exact(Bitmap::all(rows));
            // Columns first, which are cheaper than terms; an empty set ends the evaluation.
            let (columns, terms): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| is_column(node));
            for node in columns.into_iter().chain(terms) {
                if found.candidates.is_empty() {
                    break;
                }
                let next = evaluate(node, view)?;
                found.definite.and(&next.definite);
                found.candidates.and(&next.candidates);
            }
            Ok(found)
        }
        Node::Or(nodes) => {
            let mut found = Matches::exact(Bitmap::none(rows));
            for node in nodes {
                let next = evaluate(node, view)?;
                found.definite.or(&next.definite);
                found.candidates.or(&next.candidates);
            }
            Ok(found)
        }
        Node::Not(node) => {
            let Matches { mut definite, mut candidates } = evaluate(node, view)?;
            definite.invert();
            candidates.invert();
            Ok(Matches { definite: candidates, candidates: definite })
        }
        Node::Term(term) => evaluate_term(term, view),
    }
}

fn is_column(node: &Node) -> bool {
    matches!(node, Node::Term(Term::Name(..) | Term::Number(..) | Term::Id(..)))
}

fn evaluate_term(term: &Term, view: &View<'_>) -> Result<Matches, Error> {
    let rows = view.rows();
    Ok(match term {
        Term::Name(name, _) if !view.knows(*name) => Matches::candidates(rows, Bitmap::all(rows)),
        Term::Name(name, text) => Matches::exact(named(*name, text, view)?),
        Term::Number(number, low, high) => {
            Matches::exact(match view.decided_by_bounds(*number, *low, *high)? {
                Some(true) => Bitmap::all(rows),
                Some(false) => Bitmap::none(rows),
                None => Bitmap::of(&view.number(*number)?, |value| *low <= value && value <= *high),
            })
        }
        Term::Id(low, high) => Matches::exact(identified(*low, *high, view)?),
        // Only the database has resolutions, and only of transactions that did not complete.
        Term::Resolution(_) => {
            Matches::candidates(rows, Bitmap::of(&view.number(Number::State)?, |state| state > 0))
        }
        Term::Key(name, value) => {
            let blocks = view.blocks(&key_term(name, value.as_deref()))?;
            // Most parts do not have the key, which their terms show without reading all keys.
            Matches::exact(match blocks.is_empty() {
                true => blocks,
                false => view.keys()?.rows(&blocks, name, value.as_deref()),
            })
        }
        Term::Exists(Scope::Header(name)) if view.depth() == Depth::Payload => {
            Matches::candidates(rows, view.blocks(&header_term(name.as_bytes()))?)
        }
        Term::Words(_, words) if view.depth() == Depth::Payload => {
            let mut candidates = Bitmap::all(rows);
            for word in words {
                if candidates.is_empty() {
                    break;
                }
                candidates.and(&view.blocks(word.as_bytes())?);
            }
            if words.len() > 1 && !candidates.is_empty() {
                view.without_phrase(words, &mut candidates)?;
            }
            Matches::candidates(rows, candidates)
        }
        Term::Words(..) | Term::Exists(_) => Matches::candidates(rows, Bitmap::all(rows)),
    })
}

fn named(name: Name, text: &NameMatch, view: &View<'_>) -> Result<Bitmap, Error> {
    let rows = view.rows();
    let values = view.values(name)?;
    let hits: Vec<bool> = values.iter().map(|value| text.matches(value)).collect();
    if !hits.contains(&true) {
        return Ok(Bitmap::none(rows));
    }
    if !hits.contains(&false) {
        return Ok(Bitmap::all(rows));
    }
    let hit = |code: u32| hits.get(code as usize).is_some_and(|hit| *hit);
    Ok(Bitmap::of(&view.codes(name)?, hit))
}

fn identified(low: u128, high: u128, view: &View<'_>) -> Result<Bitmap, Error> {
    if let View::Sealed(part, _) = view {
        let (min, max) = part.head.id_bounds()?;
        if max < (low >> 64) as u64 || min > (high >> 64) as u64 {
            return Ok(Bitmap::none(view.rows()));
        }
    }
    Ok(Bitmap::of(&view.ids()?, |id| low <= id && id <= high))
}
