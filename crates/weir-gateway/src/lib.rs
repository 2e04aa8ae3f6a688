//! The data path: from a listening socket to a reply or an upstream and back.

pub mod auth;
mod buffer;
pub mod compress;
pub mod cors;
mod deadline;
pub mod forwarded;
pub mod negotiate;
pub mod path;
pub mod problem;
pub mod proxy_protocol;
pub mod route;
mod stream;
pub mod trace_context;
