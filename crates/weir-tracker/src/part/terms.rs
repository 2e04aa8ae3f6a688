//! Which blocks of a piece may have a term, and version 1 of the file that says so.
//!
//! A term is known by 32 bits of a [hash](hash). A term that is not there has one chance in some
//! ten thousand to be taken for one that is, and costs a look into the journal then: what a block
//! may have is checked anyway. So the file needs no dictionary of the terms themselves.
//!
//! All numbers are little-endian. The file begins with the magic `WEIRTRM1`, the seed of the hash
//! `u64`, the number of blocks `u32`, and the number of buckets `u32`, a power of two. Then comes
//! where each bucket begins, from the start of the file, and where the last one ends: `u32` each.
//! A hash belongs to the bucket that its upper bits name. In a bucket, in order of the hashes:
//!
//! - a varint (LEB128): the hash less the one before it (the first: less the least one of the
//!   bucket),
//! - a varint: the number of blocks, or 0,
//! - for each block a varint: its number less the one before it (the first: its number); or, after
//!   0, a bit for each block, the lowest bit first, in as few bytes as hold them all.
//!
//! Blocks that overflowed are listed under the hash `0xFFFF_FFFF`, which no term has.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Hashes in a bucket, nearly.
const BUCKET: usize = 32;
const MAGIC: &[u8; 8] = b"WEIRTRM1";
const HEAD: usize = 24;
/// Stands for every term.
const EVERY: u32 = u32::MAX;
/// Parts in which the pairs of hash and block are sorted: each fits into a processor's cache.
const PARTS: u32 = 16;

/// The hash of a term. `state` begins as the seed with the length added; for each 8 bytes, the last
/// ones filled up with zeros, it is multiplied by an odd constant to 128 bits, of which both halves
/// are combined. The seed is drawn for each piece, so that no payload can aim at a hash.
pub(crate) fn hash(seed: u64, term: &[u8]) -> u64 {
    let fold = |state: u64, factor: u64| {
        let product = u128::from(state) * u128::from(factor);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = seed.wrapping_add(term.len() as u64);
    let (chunks, rest) = term.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state ^ u64::from_le_bytes(*chunk), 0x9E37_79B9_7F4A_7C15);
    }
    if !rest.is_empty() {
        state = fold(state ^ filled_up(rest), 0x9E37_79B9_7F4A_7C15);
    }
    fold(state ^ seed.rotate_left(32), 0xD6E8_FEB8_6659_FD93)
}

/// Up to 7 bytes and zeros. Reads that overlap are several times faster than a copy.
fn filled_up(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high));
        return u64::from(u32::from_le_bytes(*low)) | high << (8 * (length - 4));
    }
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    at(0) | at(length / 2) | at(length - 1)
}

/// What is kept of a hash.
pub(crate) fn short(hash: u64) -> u32 {
    ((hash >> 32) as u32).min(EVERY - 1)
}

/// The hashes of a finished block's terms, each once.
#[derive(Debug)]
pub(crate) struct BlockTerms {
    hashes: Box<[u32]>,
}

impl BlockTerms {
    pub(crate) fn new(hashes: &[u32], overflowed: bool) -> Self {
        let hashes = if overflowed { Box::from([EVERY]) } else { hashes.into() };
        Self { hashes }
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn may_have(&self, hash: u32) -> bool {
        self.hashes.contains(&hash) || *self.hashes == [EVERY]
    }
}

fn varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a varint off the front.
fn take_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
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
    let mut writer = Writer { file, buckets, begun: 0, last: 0, blocks: blocks.len() };
    let mut pairs = Vec::with_capacity(hashes / PARTS as usize * 5 / 4);
    for part in 0..PARTS {
        pairs.clear();
        for (block, terms) in blocks.iter().enumerate() {
            let of_part =
                terms.hashes.iter().filter(|hash| **hash / (u32::MAX / PARTS + 1) == part);
            pairs.extend(of_part.map(|hash| u64::from(*hash) << 32 | block as u64));
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
    /// Buckets that have begun.
    begun: u32,
    last: u32,
    blocks: usize,
}

/// The bucket of a hash and its least hash.
fn bucket(hash: u32, buckets: u32) -> (u32, u32) {
    let bits = buckets.trailing_zeros();
    let bucket = hash.checked_shr(32 - bits).unwrap_or(0);
    (bucket, bucket.checked_shl(32 - bits).unwrap_or(0))
}

impl Writer {
    /// Adds a term with its blocks, which are the lower halves of `pairs`.
    fn term(&mut self, hash: u32, pairs: &[u64]) {
        let (bucket, least) = bucket(hash, self.buckets);
        if bucket >= self.begun {
            self.begin(bucket);
            self.last = least;
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

    /// Begins all buckets up to this one here.
    fn begin(&mut self, bucket: u32) {
        let here = (self.file.len() as u32).to_le_bytes();
        for bucket in self.begun..=bucket {
            let at = HEAD + 4 * bucket as usize;
            self.file[at..at + 4].copy_from_slice(&here);
        }
        self.begun = bucket + 1;
    }

    fn finish(mut self) -> Vec<u8> {
        self.begin(self.buckets);
        self.file
    }
}

/// Looks terms up in a file whose checksum was compared.
#[derive(Debug)]
pub(crate) struct Reader {
    seed: u64,
    blocks: usize,
    buckets: u32,
}

impl Reader {
    /// Reads the head of a file; none if it is not one of version 1.
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

    /// Calls `each` with every block that may have a term.
    pub(crate) fn blocks(
        &self,
        file: &File,
        term: &[u8],
        mut each: impl FnMut(usize),
    ) -> io::Result<()> {
        for hash in [short(hash(self.seed, term)), EVERY] {
            let (bucket, least) = bucket(hash, self.buckets);
            let mut ends = [0; 8];
            file.read_exact_at(&mut ends, HEAD as u64 + 4 * u64::from(bucket))?;
            let begin = u32::from_le_bytes([ends[0], ends[1], ends[2], ends[3]]);
            let end = u32::from_le_bytes([ends[4], ends[5], ends[6], ends[7]]);
            let mut bytes = vec![0; end.saturating_sub(begin) as usize];
            file.read_exact_at(&mut bytes, begin.into())?;
            if self.find(&bytes, hash, least, &mut each).is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    /// Looks through a bucket; none if it makes no sense.
    fn find(
        &self,
        mut bytes: &[u8],
        wanted: u32,
        mut hash: u32,
        each: &mut impl FnMut(usize),
    ) -> Option<()> {
        while !bytes.is_empty() {
            hash = hash.checked_add(take_varint(&mut bytes)?)?;
            if hash > wanted {
                break;
            }
            let count = take_varint(&mut bytes)?;
            if count == 0 {
                let (bits, rest) = bytes.split_at_checked(self.blocks.div_ceil(8))?;
                bytes = rest;
                let set = |block: &usize| bits[block / 8] >> (block % 8) & 1 == 1;
                if hash == wanted {
                    (0..self.blocks).filter(set).for_each(&mut *each);
                }
                continue;
            }
            let mut block = 0u32;
            for _ in 0..count {
                block = block.checked_add(take_varint(&mut bytes)?)?;
                if hash == wanted {
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
                BlockTerms::new(&hashes, block.contains(&0))
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
            assert_eq!(super::filled_up(&bytes[..length]), u64::from_le_bytes(bytes));
        }
        assert_ne!(hash(1, b"a"), hash(1, b"a\0"));
        assert_ne!(hash(1, b"a"), hash(2, b"a"));
    }
}
