//! Scope of a sampler: its siblings and the siblings of its ancestors.

use super::tree::Element;

/// The levels above a sampler, the outermost first.
#[derive(Clone, Default)]
pub(super) struct Scope<'e> {
    levels: Vec<Vec<&'e Element>>,
}

impl<'e> Scope<'e> {
    /// The scope with one more level.
    pub(super) fn with(&self, elements: impl IntoIterator<Item = &'e Element>) -> Self {
        let mut levels = self.levels.clone();
        levels.push(elements.into_iter().filter(|element| element.enabled).collect());
        Self { levels }
    }

    /// From the innermost level outwards: settings, of which the first one counts.
    pub(super) fn inner_first(&self) -> impl Iterator<Item = &'e Element> {
        self.levels.iter().rev().flatten().copied()
    }

    /// From the outermost level inwards: actions in their order.
    pub(super) fn outer_first(&self) -> impl Iterator<Item = &'e Element> {
        self.levels.iter().flatten().copied()
    }

    /// Number of levels.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The elements below the outermost levels.
    pub(super) fn below(&self, levels: usize) -> impl Iterator<Item = &'e Element> {
        self.levels.iter().skip(levels).flatten().copied()
    }

    /// The innermost level.
    pub(super) fn level(&self) -> &[&'e Element] {
        self.levels.last().map_or(&[], Vec::as_slice)
    }
}
