//! Listeners, and connections of clients before their first byte of HTTP: sockets, the PROXY
//! protocol, TLS of servers, the reserve of file descriptors, and reports about what fails.

pub mod channel;
pub mod descriptors;
pub mod handshake;
pub mod listen;
pub mod passed;
pub mod proxy_protocol;
pub mod throttle;
pub mod tls;
