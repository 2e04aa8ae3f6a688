//! Hexadecimal digits of ids.

/// The 16 lower-case digits of a number, the most significant first.
///
/// Without a loop or a table: nibbles are spread to bytes and become digits all at once.
pub fn digits(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    text[..8].copy_from_slice(&eight((number >> 32) as u32));
    text[8..].copy_from_slice(&eight(number as u32));
    text
}

fn eight(number: u32) -> [u8; 8] {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let mut nibbles = u64::from(number);
    nibbles = (nibbles << 16 | nibbles) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles << 8 | nibbles) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles << 4 | nibbles) & 0x0f0f_0f0f_0f0f_0f0f;
    // Above 9, six more reach the next bit.
    let letters = ((nibbles + 6 * ONES) >> 4) & ONES;
    let digits = nibbles + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10);
    digits.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::digits;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_those_that_formatting_gives(number: u64) {
            prop_assert_eq!(digits(number).to_vec(), format!("{number:016x}").into_bytes());
        }
    }
}
