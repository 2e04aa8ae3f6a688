//! Codes of the stages whose durations a record has. They are part of the format.

/// From the end of the request head to the last byte of the answer.
pub const TOTAL: u8 = 1;
/// From the choice of an upstream connection to the head of its answer.
pub const FIRST_BYTE: u8 = 2;
