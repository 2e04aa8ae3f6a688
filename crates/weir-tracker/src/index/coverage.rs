//! Which stretches of the journal the pieces cover, and which they leave out.

use std::sync::Arc;

use weir_journal::{Journal, Position};

use crate::part::SealedPiece;
use crate::part::file::Span;

/// A stretch of the journal that no piece covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: Vec<Position>,
    pub(crate) to: Vec<Position>,
}

/// Where what the journal still has begins, in each lane.
pub(crate) fn begins(journal: &Journal) -> Vec<Position> {
    (0..journal.lanes()).map(|lane| journal.begin(lane)).collect()
}

/// Whether the journal has nothing left of a piece.
pub(crate) fn is_gone(piece: &SealedPiece, begins: &[Position]) -> bool {
    let spans = spans(piece, begins.len());
    spans.iter().zip(begins).all(|((from, to), begin)| from == to || to <= begin)
}

/// Puts pieces in the order of the journal, and finds what they leave out of what it still has.
pub(super) fn chain(
    mut pieces: Vec<SealedPiece>,
    begins: Vec<Position>,
) -> (Vec<Arc<SealedPiece>>, Vec<Gap>, Vec<Position>) {
    let lanes = begins.len();
    // Pieces follow each other in every lane, so the sum of their beginnings orders them.
    pieces.sort_by_key(|piece| {
        piece.head.about.spans.iter().map(|(from, _)| u128::from(from.to_bits())).sum::<u128>()
    });
    let (mut sealed, mut gaps) = (Vec::new(), Vec::new());
    let mut reached = begins;
    for piece in pieces {
        let spans: Vec<Span> = spans(&piece, lanes);
        let from: Vec<_> = spans.iter().map(|(from, _)| *from).collect();
        if from.iter().zip(&reached).any(|(from, reached)| from > reached) {
            gaps.push(Gap { from: reached.clone(), to: from });
        }
        for (reached, (_, to)) in reached.iter_mut().zip(&spans) {
            *reached = (*reached).max(*to);
        }
        sealed.push(Arc::new(piece));
    }
    (sealed, gaps, reached)
}

/// Where a piece begins and ends in each of `lanes`; lanes it does not know did not exist.
fn spans(piece: &SealedPiece, lanes: usize) -> Vec<Span> {
    let mut spans = piece.head.about.spans.clone();
    spans.resize(lanes, (Position::START, Position::START));
    spans
}

/// The gap that a piece leaves behind.
pub(crate) fn gap_of(piece: &SealedPiece, lanes: usize) -> Gap {
    let (from, to) = spans(piece, lanes).into_iter().unzip();
    Gap { from, to }
}
