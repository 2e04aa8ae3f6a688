//! Sets of rows of a part.

/// A set of row numbers. Each word is a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    rows: usize,
}

impl Bitmap {
    pub(crate) fn none(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], rows }
    }

    pub(crate) fn all(rows: usize) -> Self {
        let mut all = Self { words: vec![u64::MAX; rows.div_ceil(64)], rows };
        all.trim();
        all
    }

    /// An empty set of rows of the same part.
    pub(crate) fn same_without_rows(&self) -> Self {
        Self::none(self.rows)
    }

    /// The rows whose value `matches`.
    pub(crate) fn of<T: Copy>(values: &[T], matches: impl Fn(T) -> bool) -> Self {
        let word = |chunk: &[T]| {
            chunk
                .iter()
                .enumerate()
                .fold(0, |word, (bit, value)| word | u64::from(matches(*value)) << bit)
        };
        Self { words: values.chunks(64).map(word).collect(), rows: values.len() }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: usize) {
        if row < self.rows {
            self.words[row / 64] |= 1 << (row % 64);
        }
    }

    /// Adds all rows of a block.
    pub(crate) fn add_block(&mut self, block: usize) {
        if let Some(word) = self.words.get_mut(block) {
            *word = u64::MAX;
        }
        self.trim();
    }

    pub(crate) fn has_block(&self, block: usize) -> bool {
        self.words.get(block).is_some_and(|word| *word != 0)
    }

    /// Removes all rows of a block.
    pub(crate) fn remove_block(&mut self, block: usize) {
        if let Some(word) = self.words.get_mut(block) {
            *word = 0;
        }
    }

    fn trim(&mut self) {
        let over = self.words.len() * 64 - self.rows;
        if let Some(last) = self.words.last_mut() {
            *last &= u64::MAX >> over;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    pub(crate) fn and(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    pub(crate) fn or(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn invert(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.trim();
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Bitmap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_list_of_flags(a: Vec<bool>, seed: u64) {
            let b: Vec<bool> = (0..a.len()).map(|row| seed >> (row % 61) & 1 == 1).collect();
            let (set_a, set_b) = (Bitmap::of(&a, |flag| flag), Bitmap::of(&b, |flag| flag));
            let expected: Vec<usize> = (0..a.len()).filter(|row| a[*row]).collect();
            prop_assert_eq!(set_a.rows().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(set_a.count() as usize, expected.len());
            let mut inverse = set_a.clone();
            inverse.invert();
            let (mut both, mut either) = (set_a.clone(), set_a.clone());
            both.and(&set_b);
            either.or(&set_b);
            for row in 0..a.len() {
                prop_assert_eq!(inverse.contains(row), !a[row]);
                prop_assert_eq!(both.contains(row), a[row] && b[row]);
                prop_assert_eq!(either.contains(row), a[row] || b[row]);
            }
            inverse.or(&set_a);
            prop_assert_eq!(inverse, Bitmap::all(a.len()));
        }
    }

    #[test]
    fn a_block_is_a_word_and_ends_with_the_rows() {
        let mut set = Bitmap::none(70);
        set.add_block(1);
        set.add_block(2);
        assert_eq!(set.rows().collect::<Vec<_>>(), [64, 65, 66, 67, 68, 69]);
    }
}
