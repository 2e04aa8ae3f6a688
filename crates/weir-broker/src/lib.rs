//! Pools of agents: processes that answer one request at a time.
//!
//! A [`Broker`] is a thread that starts agents, watches them and replaces them. Workers never wait
//! for that thread: they take agents from a [`Pool`] by [`Pool::lease`], under a lock that is held
//! for a few instructions, and wait in its queue where there is none. Who speaks to an agent is the
//! worker itself, over a connection of its own, which it keeps for the next request that this agent
//! gets from it: every worker has its own table of descriptors, so a connection is never handed
//! over, but closed by one and made anew by the other.
//!
//! The life of an agent: `starting` until it has answered a question of weir's own, `available`,
//! `busy` with a request, `locked` when it takes no more: because it is to be replaced, or because
//! nobody knows yet whether it is still well after a request that broke off.

mod broker;
mod cgi;
mod folder;
mod guard;
mod launch;
mod log;
mod mailbox;
mod pool;
mod statistics;
mod supervisor;

pub use broker::{Broker, PoolHandle};
pub use cgi::{CgiProcess, CgiStarted};
pub use log::Log;
pub use mailbox::Mailbox;
pub use pool::{AgentId, Lease, Outcome, Pool, Refused, Waiting};
pub use statistics::{AgentStates, PoolSnapshot, Spread};
