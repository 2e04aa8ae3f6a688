//! Several nodes with shared state: the engines, the relay that impairs connections to them, and what
//! nodes do when an engine, the network or a node fails.

mod engines;
mod members;
mod node;
mod quotas;
mod peers;
mod relay;
mod usage;
