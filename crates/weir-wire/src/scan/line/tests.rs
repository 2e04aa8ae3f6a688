//! Finding control characters, wherever they stand.

use super::{find_control, find_either};

#[test]
fn the_first_control_character_is_found_at_every_place() {
    for length in 0..200 {
        let clean = vec![b'a'; length];
        assert_eq!(find_control(&clean), length);
        for at in 0..length {
            for control in [0, 9, 10, 13, 31, 127] {
                let mut bytes = clean.clone();
                bytes[at] = control;
                // Behind it everything is possible.
                bytes[at + 1..].fill(0x1f);
                assert_eq!(find_control(&bytes), at, "{control} at {at} of {length}");
            }
        }
    }
}

#[test]
fn no_other_byte_is_taken_for_one() {
    for byte in (32..127).chain(128..=255) {
        for length in [1, 7, 8, 9, 63, 64, 100] {
            assert_eq!(find_control(&vec![byte; length]), length, "{byte}");
        }
    }
}

#[test]
fn the_first_of_two_bytes_is_found_at_every_place() {
    for length in 0..40 {
        assert_eq!(find_either(&vec![b'x'; length], b'?', b'#'), None);
        for at in 0..length {
            for found in [b'?', b'#'] {
                let mut bytes = vec![b'>'; length];
                bytes[at] = found;
                bytes[at + 1..].fill(b'#');
                assert_eq!(find_either(&bytes, b'?', b'#'), Some(at));
            }
        }
    }
}
