//! Event delivery in the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Current delivery queues.
pub type Events = Box<dyn Fn() -> Vec<Sink> + Send + Sync>;

/// Delivery queue of a sink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sink {
    /// Name of the upstream.
    pub sink: String,
    /// Waiting events.
    pub waiting: u64,
    /// Age of the oldest waiting event in seconds; 0 if none waits.
    pub oldest_seconds: f64,
    /// Events dropped because the queue was full.
    pub overtaken: u64,
    /// Events dropped because they could not be delivered for a week.
    pub expired: u64,
}

/// Access to event sinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sinks {
    /// All sinks that ever had an event, by name.
    pub sinks: Vec<Sink>,
}
