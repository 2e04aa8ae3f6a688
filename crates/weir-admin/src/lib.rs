//! The admin listener: health, readiness, metrics and the admin API.
//!
//! It runs on the control thread and reads plain statistics; it never touches a request. What it
//! shows comes from [`Sources`], which the binary fills in. Everything under `/v1/` needs an admin
//! token.

mod access;
mod api;
mod audit;
pub mod events;
mod host;
pub mod invoice;
pub mod limits;
pub mod metrics;
pub mod monitor;
mod pages;
pub mod pools;
mod problem;
pub mod resubmit;
mod role;
mod server;
mod tokens;
pub mod tracker;

pub use api::Access;
pub use audit::{Audit, AuditEntry};
pub use pages::{Readiness, Sources};
pub use role::{NoRole, Role};
pub use server::{AdminError, Bound, bind};
pub use tokens::{TokenError, TokenInfo, Tokens, first_token};
