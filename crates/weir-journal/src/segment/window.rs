//! Buffered reads of a segment's file.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::files::damage::DamageLog;

/// Kind of a segment's file in the [`DamageLog`].
pub(super) const KIND: &str = "segment";

/// The part of a segment's file that was read last. Callers read only bytes before an `end` that
/// they know to be final, so that the buffer never becomes outdated.
#[derive(Debug)]
pub(super) struct Window {
    file: File,
    number: u32,
    damage: Arc<DamageLog>,
    /// Bytes read at a time.
    pub(super) chunk_bytes: usize,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file, and how much of the buffer is filled.
    start: usize,
    filled: usize,
}

impl Window {
    pub(super) fn new(file: File, number: u32, damage: Arc<DamageLog>, chunk_bytes: usize) -> Self {
        Self { file, number, damage, chunk_bytes, buffer: Vec::new(), start: 0, filled: 0 }
    }

    /// `length` bytes at `at`, all of them before `end`.
    #[inline]
    pub(super) fn bytes(&mut self, at: usize, length: usize, end: usize) -> io::Result<&[u8]> {
        let inside = at >= self.start && at + length <= self.start + self.filled;
        if !inside {
            self.fill(at, length.max(self.chunk_bytes).min(end - at))?;
        }
        Ok(&self.buffer[at - self.start..][..length])
    }

    fn fill(&mut self, at: usize, length: usize) -> io::Result<()> {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        (self.start, self.filled) = (at, 0);
        let of = (self.number, KIND);
        self.damage.read(&self.file, of, at as u64, &mut self.buffer[..length])?;
        self.filled = length;
        Ok(())
    }
}
