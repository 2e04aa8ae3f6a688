//! CloudEvents of usage, alerts and transactions, and the queue in which they wait for their sinks.
//!
//! Events are made in the transaction that records what they were made of: none is lost, none is
//! made twice.

pub mod delivery;
mod trigger;
mod usage;

pub use trigger::Triggers;
pub use usage::UsageEvents;
