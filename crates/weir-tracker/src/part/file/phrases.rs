//! The sections of the [filters for phrases](crate::part::pairs).

use super::{Builder, Sealed, read};
use crate::error::Error;
use crate::part::bitmap::Bitmap;
use crate::part::pairs::{CommonWords, PairFilter, blocks, stored_places};

const COMMON_WORDS: u8 = 68;
const PAIR_ENDS: u8 = 69;
const PAIRS: u8 = 70;

impl Builder {
    /// Adds the filter of each group of blocks; nothing if there is none.
    pub(super) fn filters(&mut self, filters: &[Option<&PairFilter>]) {
        let Some(common) = filters.iter().flatten().next().map(|filter| &filter.common) else {
            return;
        };
        let (mut ends, mut bits) = (Vec::new(), Vec::new());
        for filter in filters {
            let words = filter.iter().flat_map(|filter| &filter.bits);
            bits.extend(words.flat_map(|word| word.to_le_bytes()));
            ends.extend_from_slice(&((bits.len() / 8) as u32).to_le_bytes());
        }
        self.add(COMMON_WORDS, 0, (0, 0), common.as_bytes());
        self.add(PAIR_ENDS, 0, (0, 0), &ends);
        self.add(PAIRS, 0, (0, 0), &bits);
    }
}

impl Sealed<'_> {
    /// Removes the blocks that cannot have a phrase from `candidates`, by the hashes of its words.
    pub(crate) fn without_phrase(
        &self,
        hashes: &[u32],
        candidates: &mut Bitmap,
    ) -> Result<(), Error> {
        let Ok(filters) = self.head.section(PAIRS) else { return Ok(()) };
        let bad = || Error::damaged(&self.head.path, "its filters contradict each other");
        let (_, common) = self.head.bytes(&self.file, COMMON_WORDS)?;
        let pairs = CommonWords::from_bytes(common).ok_or_else(bad)?.pairs(hashes);
        if pairs.is_empty() {
            return Ok(());
        }
        let (_, ends) = self.head.bytes(&self.file, PAIR_ENDS)?;
        let mut start = 0;
        for (group, end) in ends.as_chunks::<4>().0.iter().enumerate() {
            let end = u32::from_le_bytes(*end) as usize;
            let words = end.checked_sub(start).ok_or_else(bad)?;
            if end as u64 * 8 > filters.length {
                return Err(bad());
            }
            let places = pairs.iter().filter(|_| words > 0);
            for (place, bit) in places.flat_map(|pair| stored_places(*pair, start, words)) {
                if !blocks(group).any(|block| candidates.has_block(block)) {
                    break;
                }
                let mut byte = [0];
                read(&self.file, &self.head.path, &mut byte, filters.offset + place as u64)?;
                if byte[0] & bit == 0 {
                    blocks(group).for_each(|block| candidates.remove_block(block));
                }
            }
            start = end;
        }
        Ok(())
    }
}
