//! Sockets on io_uring: one ring per thread, beside the thread's runtime.
//!
//! Receives and sends of all sockets of a thread are submitted together by one task, after the tasks that are
//! ready, so that one call into the kernel serves many connections. Everything else (timers, accepts, connects,
//! signals) stays with the runtime, whose sleep the ring ends by an event.
//!
//! - A receive takes a buffer of a bounded number when bytes arrive: idle connections have none. There is at
//!   most one receive per socket, started when its reader waits, so that a reader who stops is the end of
//!   receiving.
//! - A send copies up to 64 KiB; writers wait behind that, and while the peer does not take bytes. Messages over
//!   8 KiB are sent by a call of their own without a copy, unless others wait before them.

mod bytes;
mod kernel;
mod ring;
mod socket;
#[cfg(test)]
mod tests;
mod thread;

pub use ring::Statistics;
pub use socket::{Readable, Socket};
pub use thread::{
    Guard, adopt, driver, is_started, park, probe, settle, start, statistics, turn_soon,
};
