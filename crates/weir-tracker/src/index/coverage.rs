//! The ranges of the journal that the parts cover, and the gaps between them.

use std::sync::Arc;

use weir_journal::{Journal, Position};

use crate::part::SealedPart;
use crate::part::file::Span;

/// A range of the journal that no part covers, in each lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: Vec<Position>,
    pub(crate) to: Vec<Position>,
}

/// Start of what the journal still has, in each lane.
pub(crate) fn starts(journal: &Journal) -> Vec<Position> {
    (0..journal.lanes()).map(|lane| journal.begin(lane)).collect()
}

/// Whether the journal has nothing left of a part.
pub(crate) fn is_expired(part: &SealedPart, starts: &[Position]) -> bool {
    let spans = spans(part, starts.len());
    spans.iter().zip(starts).all(|((from, to), begin)| from == to || to <= begin)
}

/// Sorts parts in the order of the journal. Returns them, the gaps, and the end of the last part.
pub(super) fn chain(
    mut parts: Vec<SealedPart>,
    starts: Vec<Position>,
) -> (Vec<Arc<SealedPart>>, Vec<Gap>, Vec<Position>) {
    let lanes = starts.len();
    // The order is the same in every lane, so the sum of the starts gives it.
    parts.sort_by_key(|part| {
        part.head.metadata.spans.iter().map(|(from, _)| u128::from(from.to_bits())).sum::<u128>()
    });
    let (mut sealed, mut gaps) = (Vec::new(), Vec::new());
    let mut reached = starts;
    for part in parts {
        let spans: Vec<Span> = spans(&part, lanes);
        let from: Vec<_> = spans.iter().map(|(from, _)| *from).collect();
        if from.iter().zip(&reached).any(|(from, reached)| from > reached) {
            gaps.push(Gap { from: reached.clone(), to: from });
        }
        for (reached, (_, to)) in reached.iter_mut().zip(&spans) {
            *reached = (*reached).max(*to);
        }
        sealed.push(Arc::new(part));
    }
    (sealed, gaps, reached)
}

/// The range of a part in each of `lanes`; empty in lanes that did not exist.
fn spans(part: &SealedPart, lanes: usize) -> Vec<Span> {
    let mut spans = part.head.metadata.spans.clone();
    spans.resize(lanes, (Position::START, Position::START));
    spans
}

/// The gap that remains when a part is removed.
pub(crate) fn gap_from(part: &SealedPart, lanes: usize) -> Gap {
    let (from, to) = spans(part, lanes).into_iter().unzip();
    Gap { from, to }
}
