//! The data path: from a listening socket to a reply or an upstream and back.
//!
//! The way of a request: [`listen`] → `connection` → `flow` (route → auth → limit → validate →
//! map → handler → map → compress) → client. `worker` is the thread all of it runs on.

mod access_log;
mod agent_connections;
pub mod auth;
mod authorization_server;
mod body;
mod buffer;
mod cache;
mod calls;
mod capture;
mod client_request;
mod clock;
pub mod compress;
mod connection;
pub mod console_cookie;
pub mod cors;
mod counter;
mod date;
mod deadline;
mod descriptors;
mod exchange;
pub mod explain;
pub mod explanation;
mod fetch;
mod file_cache;
mod files;
mod flow;
pub mod forwarded;
mod gateway;
mod grpc;
pub mod handshake;
mod headers;
mod hex;
pub mod injection;
pub mod labels;
pub mod limit;
pub mod listen;
pub mod negotiate;
mod outgoing;
pub mod path;
mod pool;
pub mod problem;
mod proxy;
pub mod proxy_protocol;
mod redaction;
mod rejection;
mod replay;
mod reply;
pub mod request_text;
mod response_body;
mod response_cache;
pub mod route;
mod route_runtime;
mod script;
mod script_engine;
mod script_path;
mod server;
mod site;
pub mod snapshot;
pub mod spans;
mod stage_times;
pub mod stats;
mod stream;
mod throttle;
pub mod tls;
pub mod trace_context;
mod transaction;
mod transaction_id;
mod transform;
mod upgrade;
mod upstream;
mod validate;
mod validation_budget;
mod worker;

/// What pools are doing, for whoever shows it.
pub mod pools {
    pub use weir_broker::{AgentStates, DurationSummary, Log, PoolSnapshot};
}

#[cfg(test)]
mod sample;

pub use capture::hash_key_is_whole;
pub use descriptors::descriptors_needed;
pub use gateway::{Bound, DrainReport, Gateway, GatewayError};
pub use site::SiteError;
