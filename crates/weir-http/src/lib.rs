//! HTTP for all parts of the data path: connections as byte streams, buffers, deadlines, request
//! bodies, content codings, content negotiation, rules for header fields, problem documents.
//!
//! Independent of routes, upstreams and workers. Heads and framing of HTTP/1.x are in `weir-wire`.

pub mod body;
pub mod buffer;
pub mod clock;
pub mod compress;
pub mod console_cookie;
pub mod cors;
pub mod counter;
pub mod date;
pub mod deadline;
pub mod forwarded;
pub mod grpc;
pub mod headers;
mod list;
pub mod negotiate;
pub mod path;
pub mod problem;
pub mod rejection;
pub mod socket;
pub mod stream;
pub mod write_buffer;
