//! Reading a segment whose header is damaged.
//!
//! Its number and lane are those of the file. Its key is in every checksum: since CRC-32 is
//! linear, the value a checksum was begun with can be computed from the checksum and the bytes.
//! Two frames, one right behind the other, that lead to the same value tell it. What an earlier
//! use of the file has left leads to the key of then, but is known by its ticket numbers and by
//! where it points back to.

use std::io;

use crate::format::{FRAME, FrameHeader, HEADER, Kind, frame_length, u32_at};
use crate::segment::Segment;

/// The polynomial of CRC-32 (IEEE 802.3), reflected.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// The key of a segment, by its frames before `end`. Transactions that were begun in it have
/// numbers from `floor` on.
pub(crate) fn key(segment: &mut Segment, floor: u64, end: u32) -> io::Result<Option<u32>> {
    let mut place = HEADER as u32;
    while place as usize + FRAME <= end as usize {
        if let Some(first) = peek(segment, place, end)?
            && let Some(second) = peek(segment, first.next, end)?
            && (is_of(segment.header.number, floor, &first.header)
                || is_of(segment.header.number, floor, &second.header))
        {
            let key = begun_with(segment, place, &first, end)?;
            if key == begun_with(segment, first.next, &second, end)? {
                return Ok(Some(key));
            }
        }
        place += 8;
    }
    Ok(None)
}

/// What looks like a frame.
struct Candidate {
    header: FrameHeader,
    next: u32,
}

fn peek(segment: &mut Segment, place: u32, end: u32) -> io::Result<Option<Candidate>> {
    if place as usize + FRAME > end as usize {
        return Ok(None);
    }
    let mut head = [0; FRAME];
    head.copy_from_slice(segment.bytes(place as usize, FRAME, end as usize)?);
    let Some(header) = FrameHeader::decode(&head) else { return Ok(None) };
    let next = place as usize + frame_length(header.length);
    Ok((next <= end as usize).then_some(Candidate { header, next: next as u32 }))
}

/// Whether a frame can only be of this use of the file.
fn is_of(number: u32, floor: u64, frame: &FrameHeader) -> bool {
    frame.kind != Kind::Open && (frame.ticket >= floor || frame.previous.segment() == number)
}

/// The value that a frame's checksum was begun with, if it is right.
fn begun_with(segment: &mut Segment, place: u32, frame: &Candidate, end: u32) -> io::Result<u32> {
    let length = FRAME + frame.header.length;
    let bytes = segment.bytes(place as usize, length, end as usize)?;
    Ok(unwind(&bytes[8..], u32_at(bytes, 4)))
}

/// The value with which the checksum of `bytes` has to be begun to become `sum`.
fn unwind(bytes: &[u8], sum: u32) -> u32 {
    let mut from_nothing = crc32fast::Hasher::new_with_initial(u32::MAX);
    from_nothing.update(bytes);
    let mut register = sum ^ from_nothing.finalize();
    for _ in 0..bytes.len() * 8 {
        register = match register >> 31 {
            0 => register << 1,
            _ => (register ^ POLYNOMIAL) << 1 | 1,
        };
    }
    !register
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::checksum;

    #[test]
    fn a_checksum_tells_what_it_was_begun_with() {
        for (key, bytes) in [(0, &b"a"[..]), (0xDEAD_BEEF, b""), (7, &[0x5A; 1000])] {
            assert_eq!(unwind(bytes, checksum(key, bytes)), key);
        }
    }
}
