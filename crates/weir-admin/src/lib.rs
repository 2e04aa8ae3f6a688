//! The admin listener: health, readiness and metrics.
//!
//! It runs on the control thread and reads plain statistics; it never touches a request. What it
//! shows comes from [`Sources`], which the binary fills in.

mod host;
pub mod metrics;
mod pages;
mod problem;
mod server;

pub use pages::{Readiness, Sources};
pub use server::{AdminError, Bound, bind};
