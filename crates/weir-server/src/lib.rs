//! The server around the gateway: listeners of workers, connections of clients, injected requests,
//! start, reload and drain.
//!
//! The gateway does not depend on it: no stage of a request sees a listener or a connection.

mod connection;
mod gateway;
pub mod injection;
mod io;
mod server;
pub mod snapshot;

pub use gateway::{Bound, DrainReport, Gateway, GatewayError};
pub use io::Io;
pub use weir_auth::RevokedKeys;
