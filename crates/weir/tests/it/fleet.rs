//! Several nodes with shared state: the engines, the relay that impairs connections to them, and what
//! nodes do when an engine, the network or a node fails.

mod access;
mod alerts;
mod backend;
mod claims;
mod clocks;
mod disk;
mod engines;
mod exports;
mod jobs;
mod lost;
mod members;
mod node;
mod peers;
mod quotas;
mod rates;
mod relay;
mod resolutions;
mod rollouts;
mod scale;
mod shipped;
mod soak;
mod tails;
mod usage;
mod versions;
