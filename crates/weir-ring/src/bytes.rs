//! Bytes that a socket has received, and those that it is to send.

use crate::kernel::Received;
use std::io::IoSlice;

/// Received bytes.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// In the buffer that the kernel has chosen.
    Provided(Received),
    /// In memory of their own, with the number of those that were read.
    Own(Vec<u8>, usize),
}

impl Bytes {
    pub(crate) fn rest(&self) -> &[u8] {
        match self {
            Self::Provided(received) => received,
            Self::Own(bytes, read) => &bytes[*read..],
        }
    }

    pub(crate) fn consume(&mut self, count: usize) {
        match self {
            Self::Provided(received) => received.consume(count),
            Self::Own(_, read) => *read += count,
        }
    }
}

/// Appends the first `count` bytes of `parts`.
pub(crate) fn append(target: &mut Vec<u8>, parts: &[IoSlice<'_>], mut count: usize) {
    for part in parts {
        let take = part.len().min(count);
        target.extend_from_slice(&part[..take]);
        count -= take;
    }
}
