//! Read buffers, pooled by worker.
//!
//! A connection owns a buffer only while it has bytes: an idle keep-alive connection owns none. The
//! pool is last in, first out, so that the next buffer is still in the CPU cache.

use std::cell::RefCell;

/// Size for heads and small bodies, in bytes.
const SMALL: usize = 8 * 1024;
/// Size for bodies that do not fit a small one, in bytes.
const LARGE: usize = 64 * 1024;
/// Maximum number of buffers of each size kept for reuse by one worker (at most 9 MiB).
const MAX_POOLED: usize = 128;

thread_local! {
    static FREE: RefCell<[Vec<Box<[u8]>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty vector, with the memory of an earlier use if possible.
pub fn take_vec() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(1024))
}

/// Returns the memory of a vector to the pool, unless it has grown too large.
pub fn release_vec(mut vec: Vec<u8>) {
    if vec.capacity() == 0 || vec.capacity() > SMALL * 4 {
        return;
    }
    vec.clear();
    let _ = SPARE.try_with(|spare| {
        let spare = &mut spare.borrow_mut();
        if spare.len() < MAX_POOLED {
            spare.push(vec);
        }
    });
}

/// Received bytes that are not processed yet.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Empty, `SMALL`, `LARGE`, or larger for a head over `LARGE`.
    memory: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// The bytes.
    pub fn filled(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops bytes from the front; after the last one the memory is returned to the pool.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        self.release_if_empty();
    }

    /// Free space of at least one byte; `large`: in a large buffer.
    pub fn room(&mut self, large: bool) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = take(large);
        } else if self.end == self.memory.len() {
            self.make_room();
        }
        &mut self.memory[self.end..]
    }

    /// Adds bytes that were read into the free space.
    pub fn grown(&mut self, count: usize) {
        self.end += count;
    }

    /// Returns the memory to the pool if the buffer is empty.
    pub fn release_if_empty(&mut self) {
        if self.is_empty() && !self.memory.is_empty() {
            release(std::mem::take(&mut self.memory));
            self.start = 0;
            self.end = 0;
        }
    }

    /// Moves the bytes to the front, or to a larger buffer when they fill this one.
    fn make_room(&mut self) {
        let len = self.len();
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
        } else {
            let larger = if self.memory.len() < LARGE {
                take(true)
            } else {
                vec![0; self.memory.len() * 2].into_boxed_slice()
            };
            let old = std::mem::replace(&mut self.memory, larger);
            self.memory[..len].copy_from_slice(&old[..len]);
            release(old);
        }
        self.start = 0;
        self.end = len;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.memory.is_empty() {
            release(std::mem::take(&mut self.memory));
        }
    }
}

fn take(large: bool) -> Box<[u8]> {
    FREE.with_borrow_mut(|free| free[usize::from(large)].pop())
        .unwrap_or_else(|| vec![0; if large { LARGE } else { SMALL }].into_boxed_slice())
}

fn release(memory: Box<[u8]>) {
    let class = match memory.len() {
        SMALL => 0,
        LARGE => 1,
        _ => return,
    };
    // A connection may outlive the pool when its thread ends.
    let _ = FREE.try_with(|free| {
        let free = &mut free.borrow_mut()[class];
        if free.len() < MAX_POOLED {
            free.push(memory);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_while_the_buffer_moves_and_grows() {
        let mut buffer = Buffer::default();
        let (mut written, mut read) = (0u32, 0u32);
        for round in 0..2_000usize {
            let room = buffer.room(false);
            let take = room.len().min(37 + round % 911);
            for slot in &mut room[..take] {
                *slot = written as u8;
                written = written.wrapping_add(1);
            }
            buffer.grown(take);
            let eat = buffer.len().min(round % 700);
            for &byte in &buffer.filled()[..eat] {
                assert_eq!(byte, read as u8);
                read = read.wrapping_add(1);
            }
            buffer.consume(eat);
        }
        assert_eq!(written - read, buffer.len() as u32);
    }

    #[test]
    fn an_empty_buffer_owns_no_memory() {
        let mut buffer = Buffer::default();
        buffer.room(true)[0] = 1;
        buffer.grown(1);
        assert_eq!(buffer.memory.len(), LARGE);
        buffer.consume(1);
        assert!(buffer.memory.is_empty());
    }
}
