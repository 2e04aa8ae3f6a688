//! Several generators: agents on other machines, which a controller gives a plan and a share of its load.
//!
//! ```text
//! controller: connect → clock offsets → plan and files → for each round: start at a common instant
//!     ↑                                                                     │
//!     └── seconds (histograms, counts, first errors), end ←── agent: engine with its share of the loops
//! ```
//!
//! The loops of all agents are numbered as those of one process, so that users, arrivals and rates are
//! divided exactly as between the loops of one machine ([`crate::engine::Part`]). Histograms are sent
//! whole: merged percentiles equal those of one process with the same samples.
//!
//! The wire: frames of JSON with a length, over TCP or TLS. Both ends have the same version of weir.

mod channel;
mod clock;
mod controller;
mod divide;
mod files;
mod interval;
mod merge;
mod message;
mod peer;
mod security;
mod server;

pub use controller::{Agents, Load};
pub use files::Bundle;
pub use message::Source;
pub use security::{Identity, MIN_KEY_BYTES, Security};
pub use server::{Agent, AgentOptions};

use std::time::Duration;

/// Interval of the controller's messages, which are also how clocks are compared.
const PING_INTERVAL: Duration = Duration::from_millis(500);
/// Silence after which the other end is lost: an agent ends its load, and the controller the run.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to connect and to agree on versions and keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to send a plan, and time of an agent to read it.
const PLAN_TIMEOUT: Duration = Duration::from_secs(120);
/// Largest sum of the files of a plan.
pub const MAX_PLAN_BYTES: u64 = 64 << 20;
/// Most files of a plan.
pub const MAX_PLAN_FILES: usize = 1_000;
/// Most agents of a run.
pub const MAX_AGENTS: usize = 256;

/// Why agents cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A wrong address.
    #[error("`{0}` is not an address of an agent, such as 10.0.0.7:7070")]
    Address(String),
    /// Too many addresses.
    #[error("a run has at most {MAX_AGENTS} agents")]
    TooMany,
    /// Traffic to other machines without a key or certificates.
    #[error("{0} is not a loopback address: a key (--secret-file) or certificates are needed")]
    Unprotected(String),
    /// A key or a certificate cannot be used.
    #[error("{0}")]
    Security(String),
    /// An agent cannot be reached, or refuses.
    #[error("agent {agent}: {reason}")]
    Agent {
        /// Its address.
        agent: String,
        /// The reason.
        reason: String,
    },
    /// The plan cannot be sent.
    #[error("{0}")]
    Plan(String),
    /// A thread or socket of this process.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
