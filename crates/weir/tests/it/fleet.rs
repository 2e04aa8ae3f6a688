//! Several nodes with shared state: the engines, the relay that impairs connections to them, and what
//! nodes do when an engine, the network or a node fails.

mod access;
mod claims;
mod engines;
mod members;
mod node;
mod peers;
mod quotas;
mod rates;
mod relay;
mod rollouts;
mod usage;
