//! What can be said of a piece's rows without reading the journal.
//!
//! Each part of a query gives two sets: rows for which it surely holds, and rows for which it may.
//! Columns decide; terms only narrow down, since they stand for blocks. What lies between the two
//! sets has to be checked against the transaction itself.

use std::borrow::Cow;

use crate::error::Error;
use crate::field::{Name, Number};
use crate::part::bitmap::Bitmap;
use crate::part::block::{Depth, header_term, key_term};
use crate::part::file::Sealed;
use crate::part::keys::Keys;
use crate::part::{OpenPiece, SealedPiece};
use crate::query::{Node, Scope, Term, Text};

/// A piece whose columns can be read.
#[derive(Debug)]
pub(crate) enum View<'a> {
    Open(&'a OpenPiece),
    Sealed(&'a SealedPiece, Sealed<'a>),
}

impl<'a> View<'a> {
    pub(crate) fn sealed(piece: &'a SealedPiece) -> Result<Self, Error> {
        Ok(Self::Sealed(piece, piece.head.columns()?))
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Open(open) => open.columns.len(),
            Self::Sealed(piece, _) => piece.head.rows,
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

    pub(crate) fn keys(&self) -> Result<Keys<'_>, Error> {
        match self {
            Self::Open(open) => Ok(open.columns.keys.view()),
            Self::Sealed(_, columns) => columns.keys(),
        }
    }

    fn depth(&self) -> Depth {
        match self {
            Self::Open(open) => open.depth,
            Self::Sealed(piece, _) => piece.head.about.depth,
        }
    }

    fn blocks(&self, term: &[u8]) -> Result<Bitmap, Error> {
        match self {
            Self::Open(open) => Ok(open.blocks(term)),
            Self::Sealed(piece, _) => piece.blocks(term),
        }
    }

    /// Whether no, or every, row has a number between the two; none if only the column can tell.
    fn decided(&self, number: Number, low: u64, high: u64) -> Result<Option<bool>, Error> {
        let Self::Sealed(piece, _) = self else { return Ok(None) };
        let (least, greatest) = piece.head.bounds(number)?;
        Ok(if greatest < low || least > high {
            Some(false)
        } else if low <= least && greatest <= high {
            Some(true)
        } else {
            None
        })
    }
}

/// What is known of the rows of a piece; `sure` lies within `maybe`.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) sure: Bitmap,
    pub(crate) maybe: Bitmap,
}

impl Known {
    fn exactly(rows: Bitmap) -> Self {
        Self { sure: rows.clone(), maybe: rows }
    }

    fn at_most(rows: usize, maybe: Bitmap) -> Self {
        Self { sure: Bitmap::none(rows), maybe }
    }
}

pub(crate) fn evaluate(node: &Node, view: &View<'_>) -> Result<Known, Error> {
    let rows = view.rows();
    match node {
        Node::And(nodes) => {
            let mut known = Known::exactly(Bitmap::all(rows));
            // Columns are cheaper than terms, and an empty set ends the matter.
            let (cheap, dear): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| is_column(node));
            for node in cheap.into_iter().chain(dear) {
                if known.maybe.is_empty() {
                    break;
                }
                let next = evaluate(node, view)?;
                known.sure.and(&next.sure);
                known.maybe.and(&next.maybe);
            }
            Ok(known)
        }
        Node::Or(nodes) => {
            let mut known = Known::exactly(Bitmap::none(rows));
            for node in nodes {
                let next = evaluate(node, view)?;
                known.sure.or(&next.sure);
                known.maybe.or(&next.maybe);
            }
            Ok(known)
        }
        Node::Not(node) => {
            let Known { mut sure, mut maybe } = evaluate(node, view)?;
            sure.invert();
            maybe.invert();
            Ok(Known { sure: maybe, maybe: sure })
        }
        Node::Term(term) => evaluate_term(term, view),
    }
}

fn is_column(node: &Node) -> bool {
    matches!(node, Node::Term(Term::Name(..) | Term::Number(..) | Term::Id(..)))
}

fn evaluate_term(term: &Term, view: &View<'_>) -> Result<Known, Error> {
    let rows = view.rows();
    Ok(match term {
        Term::Name(name, text) => Known::exactly(named(*name, text, view)?),
        Term::Number(number, low, high) => {
            Known::exactly(match view.decided(*number, *low, *high)? {
                Some(true) => Bitmap::all(rows),
                Some(false) => Bitmap::none(rows),
                None => Bitmap::of(&view.number(*number)?, |value| *low <= value && value <= *high),
            })
        }
        Term::Id(low, high) => Known::exactly(identified(*low, *high, view)?),
        // Only the database can tell, of what did not go well.
        Term::Resolution(_) => {
            Known::at_most(rows, Bitmap::of(&view.number(Number::State)?, |state| state > 0))
        }
        // Most pieces do not have it, and say so without all of their keys being read.
        Term::Key(name, value) if view.blocks(&key_term(name, value.as_deref()))?.is_empty() => {
            Known::exactly(Bitmap::none(rows))
        }
        Term::Key(name, value) => Known::exactly(view.keys()?.rows(rows, name, value.as_deref())),
        Term::Has(Scope::Header(name)) if view.depth() == Depth::Payload => {
            Known::at_most(rows, view.blocks(&header_term(name.as_bytes()))?)
        }
        Term::Words(_, words) if view.depth() == Depth::Payload => {
            let mut maybe = Bitmap::all(rows);
            for word in words {
                if maybe.is_empty() {
                    break;
                }
                maybe.and(&view.blocks(word.as_bytes())?);
            }
            Known::at_most(rows, maybe)
        }
        Term::Words(..) | Term::Has(_) => Known::at_most(rows, Bitmap::all(rows)),
    })
}

fn named(name: Name, text: &Text, view: &View<'_>) -> Result<Bitmap, Error> {
    let rows = view.rows();
    let values = view.values(name)?;
    let hits: Vec<bool> = values.iter().map(|value| text.holds(value)).collect();
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
    if let View::Sealed(piece, _) = view {
        let (least, greatest) = piece.head.id_bounds()?;
        if greatest < (low >> 64) as u64 || least > (high >> 64) as u64 {
            return Ok(Bitmap::none(view.rows()));
        }
    }
    Ok(Bitmap::of(&view.ids()?, |id| low <= id && id <= high))
}
