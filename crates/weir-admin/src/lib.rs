//! The admin listener: health, readiness, metrics, admin API and console.
//!
//! It runs on the control thread and reads statistics only; it never touches a request. Its data
//! comes from [`Sources`], which the binary provides. All paths under `/v1/` require an admin token
//! or a session that was started with one. The files of the console are below `/console/`.

mod access;
mod account;
mod api;
mod api_keys;
mod audit;
mod budget;
pub mod configuration;
mod console;
mod counts;
mod csv;
mod denials;
pub mod explain;
mod host;
pub mod invoice;
pub mod jobs;
pub mod lab;
mod live;
pub mod metrics;
mod oidc;
mod pages;
pub mod pools;
mod problem;
pub mod resubmit;
mod role;
mod scope;
mod server;
mod session;
pub mod sinks;
mod sources;
mod tokens;
mod verification;

pub use access::Access;
pub use api_keys::{ApiKeyInfo, Revocation};
pub use role::{NoRole, Role};
pub use scope::{Depth, NoDepth, TokenScope};
pub use server::{AdminError, Bound, bind};
pub use sources::{Metering, Sources};
pub use tokens::{TokenError, TokenInfo, Tokens, first_token};
pub use verification::FleetVerification;
