//! Reading a segment whose header is damaged.
//!
//! The number and lane of the segment are known from its file. Its key is part of every checksum:
//! as CRC-32 is linear, the initial value of a checksum can be computed from the checksum and the
//! bytes. If two consecutive frames give the same value, that is the key. Frames of an earlier use
//! of the file give the key of that use; their sequence number and the position they point back to
//! identify them.

use std::io;

use super::window::Window;
use crate::format::{FRAME, FrameHeader, HEADER, Kind, frame_length, u32_at};

/// The polynomial of CRC-32 (IEEE 802.3), reflected.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// The key of a segment, from its frames before `end`. Transactions that began in it have sequence
/// numbers from `floor` on.
pub(super) fn key(
    window: &mut Window,
    number: u32,
    floor: u64,
    end: u32,
) -> io::Result<Option<u32>> {
    let mut place = HEADER as u32;
    while place as usize + FRAME <= end as usize {
        if let Some(first) = peek(window, place, end)?
            && let Some(second) = peek(window, first.next, end)?
            && (is_of(number, floor, &first.header) || is_of(number, floor, &second.header))
        {
            let key = first_key(window, place, &first, end)?;
            if key == first_key(window, first.next, &second, end)? {
                return Ok(Some(key));
            }
        }
        place += 8;
    }
    Ok(None)
}

/// Bytes that look like a frame.
struct Candidate {
    header: FrameHeader,
    next: u32,
}

fn peek(window: &mut Window, place: u32, end: u32) -> io::Result<Option<Candidate>> {
    if place as usize + FRAME > end as usize {
        return Ok(None);
    }
    let mut head = [0; FRAME];
    head.copy_from_slice(window.bytes(place as usize, FRAME, end as usize)?);
    let Some(header) = FrameHeader::decode(&head) else { return Ok(None) };
    let next = place as usize + frame_length(header.length);
    Ok((next <= end as usize).then_some(Candidate { header, next: next as u32 }))
}

/// Whether a frame can only belong to the current use of the file.
fn is_of(number: u32, floor: u64, frame: &FrameHeader) -> bool {
    frame.kind != Kind::Open && (frame.sequence >= floor || frame.previous.segment() == number)
}

/// The initial value of a frame's checksum, if the checksum is correct.
fn first_key(window: &mut Window, place: u32, frame: &Candidate, end: u32) -> io::Result<u32> {
    let length = FRAME + frame.header.length;
    let bytes = window.bytes(place as usize, length, end as usize)?;
    Ok(unwind(&bytes[8..], u32_at(bytes, 4)))
}

/// The initial value with which the checksum of `bytes` becomes `sum`.
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
