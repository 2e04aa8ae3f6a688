//! The data path: from a listening socket to a reply or an upstream and back.

mod buffer;
mod deadline;
pub mod path;
pub mod route;
mod stream;
