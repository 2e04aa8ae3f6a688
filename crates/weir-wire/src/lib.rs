//! HTTP/1.x codec without I/O.
//!
//! Bytes in, messages out, and back; used by the server, the upstream client, the echo backend
//! and the load lab alike. It is strict where leniency lets two parsers disagree about where one
//! message ends (RFC 9112 section 11.2): see [`head`] for the list of what is refused.

pub mod head;

pub use head::{Headers, Known};
