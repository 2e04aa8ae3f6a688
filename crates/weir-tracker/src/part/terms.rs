//! The blocks of a part that may have a term, and version 1 of their file.
//!
//! A term is identified by 32 bits of a [hash]. An absent term collides with a present one with a
//! probability of about 1 in 10,000. A collision costs a read of the journal, where candidates are
//! checked anyway. So the file needs no dictionary of terms.
//!
//! All numbers are little-endian. The file starts with the magic `WEIRTRM1`, the seed of the hash
//! `u64`, the number of blocks `u32`, and the number of buckets `u32`, a power of two. Then follow
//! the offset of each bucket from the start of the file, and the end of the last one: `u32` each.
//! The upper bits of a hash are the number of its bucket. In a bucket, in the order of hashes:
//!
//! - a varint (LEB128): the difference to the previous hash (for the first: to the lowest hash of
//!   the bucket),
//! - a varint: the number of blocks, or 0,
//! - for each block a varint: the difference to the previous block (the first: its number); or,
//!   after 0, a bit for each block, the lowest bit first, in as few bytes as necessary.
//!
//! Blocks that overflowed are listed under the hash `0xFFFF_FFFF`, which no term has.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use integer_encoding::VarInt;

use crate::part::pairs::PairFilter;

/// Average number of hashes in a bucket.
const BUCKET: usize = 32;
const MAGIC: &[u8; 8] = b"WEIRTRM1";
const HEAD: usize = 24;
/// Hash that stands for every term.
const ANY_TERM: u32 = u32::MAX;
/// Partitions of the hashes by their upper 8 bits. The pairs of hash and block are sorted one partition after
/// the other: each fits into the CPU cache.
const PARTITIONS: usize = 256;

/// The hash of a term. `state` starts as the sum of seed and length. For each 8 bytes, the last ones
/// padded with zeros, it is multiplied by an odd constant to 128 bits, and both halves are combined.
/// Each part has a random seed, so that no payload can aim at a hash.
pub(crate) fn hash(seed: u64, term: &[u8]) -> u64 {
    let mut state = seed.wrapping_add(term.len() as u64);
    let (chunks, rest) = term.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state ^ u64::from_le_bytes(*chunk), 0x9E37_79B9_7F4A_7C15);
    }
    if !rest.is_empty() {
        state = fold(state ^ zero_padded(rest), 0x9E37_79B9_7F4A_7C15);
    }
    fold(state ^ seed.rotate_left(32), 0xD6E8_FEB8_6659_FD93)
}

/// Both halves of the product, combined.
pub(crate) fn fold(state: u64, factor: u64) -> u64 {
    let product = u128::from(state) * u128::from(factor);
    product as u64 ^ (product >> 64) as u64
}

/// Up to 7 bytes, padded with zeros. Overlapping reads are several times faster than a copy.
fn zero_padded(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high));
        return u64::from(u32::from_le_bytes(*low)) | high << (8 * (length - 4));
    }
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    at(0) | at(length / 2) | at(length - 1)
}

/// The stored bits of a hash.
pub(crate) fn short(hash: u64) -> u32 {
    ((hash >> 32) as u32).min(ANY_TERM - 1)
}

/// The stored hashes of words.
pub(crate) fn short_hashes(seed: u64, words: &[String]) -> Vec<u32> {
    words.iter().map(|word| short(hash(seed, word.as_bytes()))).collect()
}

/// The hashes of the terms of a finished block, each once.
#[derive(Debug)]
pub(crate) struct BlockTerms {
    /// By partition.
    hashes: Box<[u32]>,
    /// Where each partition begins, and the end of the last one.
    starts: Box<[u32]>,
    /// The filter of the group of blocks that ends with this one.
    pub(crate) pairs: Option<PairFilter>,
}

fn partition(hash: u32) -> usize {
    (hash >> 24) as usize
}

impl BlockTerms {
    pub(crate) fn new(hashes: &[u32], overflowed: bool, pairs: Option<PairFilter>) -> Self {
        let hashes = if overflowed { &[ANY_TERM] } else { hashes };
        let mut starts = vec![0_u32; PARTITIONS + 1];
        hashes.iter().for_each(|hash| starts[partition(*hash) + 1] += 1);
        for number in 0..PARTITIONS {
            starts[number + 1] += starts[number];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; hashes.len()];
        for hash in hashes {
            let place = &mut next[partition(*hash)];
            sorted[*place as usize] = *hash;
            *place += 1;
        }
        Self { hashes: sorted.into(), starts: starts.into(), pairs }
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    fn partition(&self, number: usize) -> &[u32] {
        &self.hashes[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    pub(crate) fn may_have(&self, hash: u32) -> bool {
        self.partition(partition(hash)).contains(&hash) || *self.hashes == [ANY_TERM]
    }
}

fn varint(out: &mut Vec<u8>, number: u32) {
    let mut bytes = [0; 5];
    let length = number.encode_var(&mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

/// Reads a varint from the front.
fn read_varint(bytes: &mut &[u8]) -> Option<u32> {
    let (number, length) = u32::decode_var(bytes)?;
    *bytes = bytes.get(length..)?;
    Some(number)
}

/// The bytes of the file.
pub(crate) fn encode(seed: u64, blocks: &[BlockTerms]) -> Vec<u8> {
    let hashes: usize = blocks.iter().map(BlockTerms::len).sum();
    let buckets = (hashes / 8 / BUCKET).next_power_of_two().min(1 << 20) as u32;
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&seed.to_le_bytes());
    file.extend_from_slice(&(blocks.len() as u32).to_le_bytes());
    file.extend_from_slice(&buckets.to_le_bytes());
    file.resize(HEAD + 4 * (buckets as usize + 1), 0);
    let mut writer = Writer { file, buckets, started: 0, last: 0, blocks: blocks.len() };
    let mut pairs = Vec::with_capacity(hashes / PARTITIONS * 5 / 4);
    for partition in 0..PARTITIONS {
        pairs.clear();
        for (block, terms) in blocks.iter().enumerate() {
            let hashes = terms.partition(partition).iter();
            pairs.extend(hashes.map(|hash| u64::from(*hash) << 32 | block as u64));
        }
        pairs.sort_unstable();
        pairs
            .chunk_by(|one, other| one >> 32 == other >> 32)
            .for_each(|same| writer.term((same[0] >> 32) as u32, same));
    }
    writer.finish()
}

struct Writer {
    file: Vec<u8>,
    buckets: u32,
    /// Number of buckets started.
    started: u32,
    last: u32,
    blocks: usize,
}

/// The bucket of a hash and the lowest hash of that bucket.
fn bucket(hash: u32, buckets: u32) -> (u32, u32) {
    let bits = buckets.trailing_zeros();
    let bucket = hash.checked_shr(32 - bits).unwrap_or(0);
    (bucket, bucket.checked_shl(32 - bits).unwrap_or(0))
}

impl Writer {
    /// Adds a term with its blocks, the lower halves of `pairs`.
    fn term(&mut self, hash: u32, pairs: &[u64]) {
        let (bucket, min) = bucket(hash, self.buckets);
        if bucket >= self.started {
            self.start_bucket(bucket);
            self.last = min;
        }
        varint(&mut self.file, hash - self.last);
        self.last = hash;
        let bits = self.blocks.div_ceil(8);
        if pairs.len() >= bits {
            varint(&mut self.file, 0);
            let start = self.file.len();
            self.file.resize(start + bits, 0);
            for pair in pairs {
                let block = (*pair & 0xFFFF_FFFF) as usize;
                self.file[start + block / 8] |= 1 << (block % 8);
            }
            return;
        }
        varint(&mut self.file, pairs.len() as u32);
        let mut last = 0;
        for pair in pairs {
            varint(&mut self.file, *pair as u32 - last);
            last = *pair as u32;
        }
    }

    /// Starts all buckets up to this one at the current end.
    fn start_bucket(&mut self, bucket: u32) {
        let here = (self.file.len() as u32).to_le_bytes();
        for bucket in self.started..=bucket {
            let at = HEAD + 4 * bucket as usize;
            self.file[at..at + 4].copy_from_slice(&here);
        }
        self.started = bucket + 1;
    }

    fn finish(mut self) -> Vec<u8> {
        self.start_bucket(self.buckets);
        self.file
    }
}

/// Looks up terms in a file whose checksum was compared.
#[derive(Debug)]
pub(crate) struct Reader {
    seed: u64,
    blocks: usize,
    buckets: u32,
}

impl Reader {
    /// Reads the head of a file; none if it is not of version 1.
    pub(crate) fn open(file: &File) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0)?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let seed = u64::from(number(8)) | u64::from(number(12)) << 32;
        let (blocks, buckets) = (number(16) as usize, number(20));
        let known = head[..8] == *MAGIC && buckets.is_power_of_two();
        Ok(known.then_some(Self { seed, blocks, buckets }))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Calls `each` with every block that may have a term.
    pub(crate) fn blocks(
        &self,
        file: &File,
        term: &[u8],
        mut each: impl FnMut(usize),
    ) -> io::Result<()> {
        for hash in [short(hash(self.seed, term)), ANY_TERM] {
            let (bucket, min) = bucket(hash, self.buckets);
            let mut ends = [0; 8];
            file.read_exact_at(&mut ends, HEAD as u64 + 4 * u64::from(bucket))?;
            let start = u32::from_le_bytes([ends[0], ends[1], ends[2], ends[3]]);
            let end = u32::from_le_bytes([ends[4], ends[5], ends[6], ends[7]]);
            let mut bytes = vec![0; end.saturating_sub(start) as usize];
            file.read_exact_at(&mut bytes, start.into())?;
            if self.find(&bytes, hash, min, &mut each).is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    /// Searches a bucket; none if it is invalid.
    fn find(
        &self,
        mut bytes: &[u8],
        target: u32,
        mut hash: u32,
        each: &mut impl FnMut(usize),
    ) -> Option<()> {
        while !bytes.is_empty() {
            hash = hash.checked_add(read_varint(&mut bytes)?)?;
            if hash > target {
                break;
            }
            let count = read_varint(&mut bytes)?;
            if count == 0 {
                let (bits, rest) = bytes.split_at_checked(self.blocks.div_ceil(8))?;
                bytes = rest;
                let set = |block: &usize| bits[block / 8] >> (block % 8) & 1 == 1;
                if hash == target {
                    (0..self.blocks).filter(set).for_each(&mut *each);
                }
                continue;
            }
            let mut block = 0u32;
            for _ in 0..count {
                block = block.checked_add(read_varint(&mut bytes)?)?;
                if hash == target {
                    each(block as usize);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::{BlockTerms, Reader, encode, hash, short};

    fn file(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn look_up(reader: &Reader, file: &std::fs::File, term: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        reader.blocks(file, term, |block| found.push(block)).unwrap();
        found.sort_unstable();
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        #[test]
        fn every_term_is_found_in_its_blocks(
            blocks in prop::collection::vec(prop::collection::btree_set(0u16..400, 0..100), 0..80),
            seed: u64,
        ) {
            let terms = |block: &std::collections::BTreeSet<u16>| {
                let hashes: Vec<u32> =
                    block.iter().map(|term| short(hash(seed, &term.to_le_bytes()))).collect();
                BlockTerms::new(&hashes, block.contains(&0), None)
            };
            let all: Vec<_> = blocks.iter().map(terms).collect();
            let file = file(&encode(seed, &all));
            let reader = Reader::open(&file).unwrap().unwrap();
            let mut mistaken = 0;
            for term in 0..400u16 {
                let has = |block: &usize| blocks[*block].contains(&term) || blocks[*block].contains(&0);
                let found = look_up(&reader, &file, &term.to_le_bytes());
                prop_assert!((0..blocks.len()).filter(has).all(|block| found.contains(&block)));
                mistaken += usize::from(found.iter().any(|block| !has(block)));
            }
            // 32 bits tell 400 terms apart but for a rare accident.
            prop_assert!(mistaken <= 2, "{mistaken}");
        }

        #[test]
        fn any_file_is_read_or_refused(bytes: Vec<u8>, term: Vec<u8>) {
            let mut whole = b"WEIRTRM1\0\0\0\0\0\0\0\0\x40\0\0\0\x02\0\0\0".to_vec();
            whole.extend_from_slice(&bytes);
            let file = file(&whole);
            if let Ok(Some(reader)) = Reader::open(&file) {
                let _ = reader.blocks(&file, &term, |_| ());
            }
        }
    }

    #[test]
    fn hashes_are_what_the_format_says() {
        assert_eq!(hash(1, b"acme"), hash(1, b"acme"));
        let all: std::collections::HashSet<u64> =
            (0..100_000u32).map(|term| hash(7, format!("{term}").as_bytes())).collect();
        assert_eq!(all.len(), 100_000);
        for length in 1..8 {
            let mut bytes = [0; 8];
            (0..length).for_each(|at| bytes[at] = 0x81 + at as u8);
            assert_eq!(super::zero_padded(&bytes[..length]), u64::from_le_bytes(bytes));
        }
        assert_ne!(hash(1, b"a"), hash(1, b"a\0"));
        assert_ne!(hash(1, b"a"), hash(2, b"a"));
    }
}
