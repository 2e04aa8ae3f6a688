//! CloudEvents of usage, alerts and transactions, and the queue in which they wait for their sinks.
//!
//! An event is queued in the transaction that records its source as handled: no event is lost, and
//! none is queued twice.

pub mod alert;
pub mod delivery;
mod trigger;
mod usage;

pub use trigger::Triggers;
pub use usage::UsageEvents;
