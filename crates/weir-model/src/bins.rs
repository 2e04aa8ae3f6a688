//! Logarithmic bins of histograms: [`STEPS`] for each power of two, so that a value is known to a
//! 128th. Values below 128 are exact. The bits of a value are its bin: no logarithm is needed.

/// Bins of an octave.
pub const STEPS: usize = 64;
/// Bits of a value that select its bin within an octave.
pub const BITS: u32 = STEPS.ilog2();

/// Octave and bin of a value. Octave 0 has the values below [`STEPS`], each further one the values
/// from a power of two.
#[inline]
#[must_use]
pub fn place(value: u64) -> (usize, usize) {
    match value.checked_ilog2().and_then(|log| log.checked_sub(BITS)) {
        None => (0, value as usize),
        Some(shift) => (shift as usize + 1, (value >> shift) as usize - STEPS),
    }
}

/// The middle of a bin.
#[must_use]
pub fn middle(octave: usize, bin: usize) -> u64 {
    let Some(shift) = octave.checked_sub(1) else { return bin as u64 };
    (((STEPS + bin) as u64) << shift) + ((1_u64 << shift) - 1) / 2
}
