//! Which pairs of words follow each other: a filter for phrases.
//!
//! Of two words that nearly every block has, the terms exclude no block. So each [group](GROUP) of blocks
//! also has a Bloom filter of the pairs of neighbouring words of which both are common. A pair that the group
//! does not have passes in [a sixth of the cases](BITS_PER_PAIR).
//!
//! Which words are common is learnt from the first [`LEARNT_BLOCKS`] blocks of a part; these have no
//! filter, nor has an incomplete group, or one without such pairs. In the [file of the columns](super::file):
//!
//! | section | content |
//! |---|---|
//! | 68 | a bit for each value of the upper 16 bits of a term's hash, the lowest bit first: set if such a word is common |
//! | 69 | for each group the end of its bits in section 70, in words of 8 bytes: `u32`. A group whose end is that of the one before it has no filter. |
//! | 70 | the bits of all groups: `u64` each, the lowest bit first |
//!
//! A pair has two bits. Their places are the upper halves of the products of the number of bits and the
//! [hash of the pair](pair), or that hash multiplied by 0x9E37_79B1.

use std::ops::Range;
use std::sync::Arc;

use crate::part::terms::fold;

/// Bits of a filter for each of its pairs. Two of four bits being set for each, a pair that the filter does
/// not have passes with a probability of (1 - exp(-1/2))², 0.15.
const BITS_PER_PAIR: usize = 4;
/// Blocks of a group. Candidates are read from the journal in pieces of nearly a block, so many single
/// blocks would take as long as all of them.
pub(crate) const GROUP: usize = 4;
/// Blocks from which the common words are learnt, a multiple of a group.
pub(crate) const LEARNT_BLOCKS: usize = 16;
/// Of these, so many at least have a common word.
const COMMON: usize = 4;
/// Bytes of the set of common words.
pub(crate) const COMMON_BYTES: usize = 1 << 13;
/// Most pairs of a group; one with more has no filter.
const MAX_PAIRS: usize = 1 << 19;

/// The blocks of a group.
pub(crate) fn blocks(group: usize) -> Range<usize> {
    group * GROUP..(group + 1) * GROUP
}

/// The hash of two words that follow each other: the upper half of the [`fold`] of the hashes of the words.
fn pair(first: u32, second: u32) -> u32 {
    (fold(u64::from(first) << 32 | u64::from(second), 0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// The places of the bits of a pair in so many words of bits.
fn places(pair: u32, words: usize) -> [usize; 2] {
    let place = |hash: u32| ((u64::from(hash) * (words as u64 * 64)) >> 32) as usize;
    [place(pair), place(pair.wrapping_mul(0x9E37_79B1))]
}

/// The words that are common in a part, by their hashes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommonWords(Box<[u8]>);

impl CommonWords {
    /// From the hashes of the terms of some blocks, each once for a block.
    fn learn(hashes: &mut [u32]) -> Self {
        let mut bits = vec![0; COMMON_BYTES];
        hashes.sort_unstable();
        for same in hashes.chunk_by(|one, other| one == other).filter(|same| same.len() >= COMMON) {
            let place = (same[0] >> 16) as usize;
            bits[place / 8] |= 1 << (place % 8);
        }
        Self(bits.into())
    }

    /// As stored; none if the length is wrong.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == COMMON_BYTES).then(|| Self(bytes.into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn has(&self, hash: u32) -> bool {
        let place = (hash >> 16) as usize;
        self.0[place / 8] >> (place % 8) & 1 == 1
    }

    /// The hashes of the pairs of a phrase that filters have, by the hashes of its words.
    pub(crate) fn pairs(&self, phrase: &[u32]) -> Vec<u32> {
        let both = phrase.windows(2).filter(|both| both.iter().all(|hash| self.has(*hash)));
        both.map(|both| pair(both[0], both[1])).collect()
    }
}

/// The filter of a group of blocks.
#[derive(Debug)]
pub(crate) struct PairFilter {
    pub(crate) common: Arc<CommonWords>,
    pub(crate) bits: Box<[u64]>,
}

impl PairFilter {
    /// Its size in hashes of terms, 4 bytes each.
    pub(crate) fn size(&self) -> usize {
        2 * self.bits.len()
    }

    /// Whether the group may have all of these pairs.
    pub(crate) fn may_have(&self, pairs: &[u32]) -> bool {
        let mut places = pairs.iter().flat_map(|pair| places(*pair, self.bits.len()));
        places.all(|place| self.bits[place / 64] >> (place % 64) & 1 == 1)
    }
}

/// The bits of a pair among the stored filters of all groups, of which one begins at the word `start` and has
/// so many words: for each the number of its byte, and the bit.
pub(crate) fn stored_places(pair: u32, start: usize, words: usize) -> [(usize, u8); 2] {
    places(pair, words).map(|place| (start * 8 + place / 8, 1 << (place % 8)))
}

/// Collects the pairs of a group, and the common words of a part.
#[derive(Debug, Default)]
pub(crate) struct PairBuild {
    common: Option<Arc<CommonWords>>,
    /// Hashes of the terms of the blocks so far, until the common words are known.
    learnt: Vec<u32>,
    /// Number of blocks so far.
    blocks: usize,
    pairs: Vec<u32>,
    /// To count different pairs.
    seen: Vec<u64>,
}

impl PairBuild {
    /// Adds the next word of a text, by its hash. `before` is the word before it if that is common; it
    /// becomes this word.
    pub(crate) fn add(&mut self, before: &mut Option<u32>, hash: u32) {
        let Some(common) = &self.common else { return };
        let word = Some(hash).filter(|hash| common.has(*hash));
        if let (Some(first), Some(second)) = (*before, word)
            && self.pairs.len() <= MAX_PAIRS
        {
            self.pairs.push(pair(first, second));
        }
        *before = word;
    }

    /// Ends a block; `hashes` are those of its terms. Returns the filter of the group that ends with it, if
    /// there is one.
    pub(crate) fn finish(&mut self, hashes: &[u32]) -> Option<PairFilter> {
        self.blocks += 1;
        let Some(common) = self.common.clone() else {
            self.learnt.extend_from_slice(hashes);
            if self.blocks == LEARNT_BLOCKS {
                self.common = Some(Arc::new(CommonWords::learn(&mut self.learnt)));
                self.learnt = Vec::new();
            }
            return None;
        };
        if !self.blocks.is_multiple_of(GROUP) {
            return None;
        }
        // Without words, as with business keys alone, there is nothing to store.
        let has_filter = (1..=MAX_PAIRS).contains(&self.pairs.len());
        let filter = has_filter.then(|| {
            let words = (self.different() * BITS_PER_PAIR).div_ceil(64).max(1);
            let mut bits = vec![0; words];
            for pair in &self.pairs {
                places(*pair, words).into_iter().for_each(|place| set(&mut bits, place));
            }
            PairFilter { common, bits: bits.into() }
        });
        self.pairs.clear();
        filter
    }

    /// About how many of the pairs are different: of a set of random numbers in so many cells, the
    /// share of the cells that stay empty is exp(-numbers / cells).
    fn different(&mut self) -> usize {
        let cells = (self.pairs.len() / 16).max(1);
        self.seen.clear();
        self.seen.resize(cells, 0);
        for pair in &self.pairs {
            set(&mut self.seen, places(*pair, cells)[0]);
        }
        let cells = cells as f64 * 64.0;
        let empty: u32 = self.seen.iter().map(|word| word.count_zeros()).sum();
        (-cells * (f64::from(empty.max(1)) / cells).ln()).ceil() as usize
    }
}

fn set(words: &mut [u64], place: usize) {
    words[place / 64] |= 1 << (place % 64);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        COMMON_BYTES, CommonWords, GROUP, LEARNT_BLOCKS, PairBuild, PairFilter, places,
        stored_places,
    };

    /// A build for which every word is common.
    fn learnt() -> PairBuild {
        let common = CommonWords([u8::MAX; COMMON_BYTES].into());
        PairBuild { common: Some(common.into()), blocks: LEARNT_BLOCKS, ..PairBuild::default() }
    }

    fn hash(word: u32) -> u32 {
        word.wrapping_mul(0x9E37_79B9)
    }

    /// The filter of a group of blocks, one of which has some texts.
    fn group(build: &mut PairBuild, texts: &[Vec<u32>]) -> Option<PairFilter> {
        for text in texts {
            let mut before = None;
            text.iter().for_each(|word| build.add(&mut before, hash(*word)));
        }
        (1..GROUP).for_each(|_| assert!(build.finish(&[]).is_none()));
        build.finish(&[])
    }

    proptest! {
        #[test]
        fn pairs_of_neighbours_are_always_found(
            texts in prop::collection::vec(prop::collection::vec(0u32..60_000, 0..40), 0..20),
        ) {
            let filter = group(&mut learnt(), &texts);
            prop_assert_eq!(filter.is_some(), texts.iter().any(|text| text.len() > 1));
            let Some(filter) = filter else { return Ok(()) };
            for text in &texts {
                let hashes: Vec<u32> = text.iter().map(|word| hash(*word)).collect();
                let pairs = filter.common.pairs(&hashes);
                prop_assert_eq!(pairs.len(), text.len().saturating_sub(1));
                prop_assert!(filter.may_have(&pairs));
                for pair in pairs {
                    let bits = &filter.bits;
                    prop_assert!(places(pair, bits.len()).iter().all(|place| *place < bits.len() * 64));
                    let stored: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
                    let places = stored_places(pair, 0, bits.len());
                    prop_assert!(places.iter().all(|(byte, bit)| stored[*byte] & bit != 0));
                }
            }
        }
    }

    #[test]
    fn most_other_pairs_are_excluded_however_often_some_occur() {
        for repeated in [1, 10] {
            let words =
                |seed: u32| (0..300).map(|n| (n * 7919 + seed * 104_729) % 60_000).collect();
            let texts: Vec<Vec<u32>> = (0..64 * repeated).map(|n| words(n % 64)).collect();
            let filter = group(&mut learnt(), &texts).unwrap();
            let may_have =
                |word: &u32| filter.may_have(&filter.common.pairs(&[hash(*word), hash(*word)]));
            let mistaken = (0..10_000).filter(may_have).count();
            assert!((1_000..2_000).contains(&mistaken), "{mistaken}");
        }
    }

    #[test]
    fn only_words_that_many_blocks_have_are_common() {
        let mut build = PairBuild::default();
        for block in 0..LEARNT_BLOCKS as u32 {
            assert!(build.common.is_none() && build.finish(&[8 << 16, block << 20]).is_none());
        }
        let learnt = build.common.unwrap();
        assert!(learnt.has(8 << 16) && !learnt.has(3 << 20));

        let mut hashes = [[7 << 16; 4], [9 << 16; 4]].concat();
        hashes[7] = 11 << 16;
        let common = CommonWords::learn(&mut hashes);
        assert!(common.has(7 << 16 | 5) && !common.has(9 << 16) && !common.has(11 << 16));
        assert_eq!(common.pairs(&[7 << 16, 7 << 16, 9 << 16]).len(), 1);
        let stored = CommonWords::from_bytes(common.as_bytes().to_vec()).unwrap();
        assert_eq!(stored, common);
        assert_eq!(CommonWords::from_bytes(vec![0; 9]), None);
    }
}
