//! The flow of a request: stages, handlers and explain, and the workers that run it.
//!
//! Path of a request: `weir-server` → `flow` (route → auth → limit → validate → map → handler → map
//! → compress) → client. `worker` is the state of the thread that runs it.

pub mod arrival;
pub mod authorization_server;
mod compiled;
pub mod configuration;
pub mod context;
pub mod decisions;
pub mod digest;
pub mod exchange;
pub mod explain;
pub mod explanation;
mod fetch;
pub mod flow;
pub mod handler;
mod lease_waits;
pub mod record_builder;
pub mod replay;
pub mod request_text;
pub mod response_body;
mod response_cache;
pub mod route;
mod route_runtime;
mod script_engine;
mod script_path;
pub mod site;
mod transform;
pub mod upgrade;
mod validate;
mod validation_budget;
pub mod worker;

pub use compiled::Compiled;
pub use site::SiteError;
