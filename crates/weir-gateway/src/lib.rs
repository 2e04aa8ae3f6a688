//! The data path: from a listening socket to a reply or an upstream and back.
//!
//! The way of a request: [`listen`] → `connection` → `flow` (route → auth → limit → validate →
//! map → handler → map → compress) → client. `worker` is the thread all of it runs on.

mod arrival;
mod authorization_server;
pub mod configuration;
mod connection;
mod context;
mod decisions;
mod exchange;
pub mod explain;
pub mod explanation;
mod fetch;
mod flow;
mod gateway;
mod handler;
pub mod injection;
mod record_builder;
mod replay;
pub mod request_text;
mod response_body;
mod response_cache;
pub mod route;
mod route_runtime;
mod script_engine;
mod script_path;
mod server;
mod site;
pub mod snapshot;
mod transform;
mod upgrade;
mod validate;
mod validation_budget;
mod worker;

use weir_http::{
    body, buffer, clock, compress, console_cookie, cors, counter, date, deadline, forwarded, grpc,
    headers, negotiate, outgoing, path, problem, rejection, stream,
};

use weir_net::{descriptors, handshake, listen, proxy_protocol, throttle, tls};

use weir_cache as cache;

use weir_telemetry::{labels, spans, stats, trace_context};

use weir_limit as limit;

use weir_auth as auth;

use weir_files as file_cache;

use weir_upstream as upstream;

use weir_upstream::agent_connections;

use weir_record::{access_log, capture, client_request, redaction, transaction, transaction_id};

/// What pools are doing, for whoever shows it.
pub mod pools {
    pub use weir_broker::{AgentStates, DurationSummary, Log, PoolSnapshot};
}

pub use gateway::{Bound, DrainReport, Gateway, GatewayError};
pub use site::SiteError;
