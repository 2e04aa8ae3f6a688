//! What applies to a sampler: everything beside it and beside what it stands in.

use super::tree::Element;

/// The levels above a sampler, the outermost first.
#[derive(Clone, Default)]
pub(super) struct Scope<'e> {
    levels: Vec<Vec<&'e Element>>,
}

impl<'e> Scope<'e> {
    /// With one more level.
    pub(super) fn with(&self, elements: impl IntoIterator<Item = &'e Element>) -> Self {
        let mut levels = self.levels.clone();
        levels.push(elements.into_iter().filter(|element| element.enabled).collect());
        Self { levels }
    }

    /// From the innermost level outwards: settings, of which the first holds.
    pub(super) fn inner_first(&self) -> impl Iterator<Item = &'e Element> {
        self.levels.iter().rev().flatten().copied()
    }

    /// From the outermost level inwards: what is done one after the other.
    pub(super) fn outer_first(&self) -> impl Iterator<Item = &'e Element> {
        self.levels.iter().flatten().copied()
    }

    /// The innermost level.
    pub(super) fn level(&self) -> &[&'e Element] {
        self.levels.last().map_or(&[], Vec::as_slice)
    }
}
