//! Pools of agents: processes that serve one request at a time.
//!
//! A [`Broker`] is a thread that starts, watches and replaces agents. Workers never wait for that
//! thread: they lease agents from a [`Pool`] with [`Pool::lease`], under a lock that is held for a
//! few instructions, or wait in the pool's queue. The worker itself speaks to the agent, over its
//! own connection, which it keeps for its next request to this agent. Every worker has its own
//! table of descriptors: connections are not passed between workers, but closed by one and opened
//! by the other.
//!
//! States of an agent: `starting` until it has responded to a probe, `available`, `busy` with a
//! request, `locked` when it gets no more requests: before it is replaced, or while its health is
//! unknown after an aborted request.

mod agent;
mod broker;
mod cgi;
mod invalidation;
mod launch;
mod log;
mod pool;
mod runtime_folder;
mod statistics;
mod supervisor;
mod watchdog;

pub use agent::AgentId;
pub use broker::{Broker, PoolHandle};
pub use cgi::{CgiProcess, CgiStarted};
pub use invalidation::InvalidationQueue;
pub use log::Log;
pub use pool::{Lease, Outcome, PendingLease, Pool, Refused};
pub use statistics::{AgentStates, DurationSummary, PoolSnapshot, QueueLength};
