//! What the admin API tells of events that are posted to others.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What waits for each sink now.
pub type Events = Box<dyn Fn() -> Vec<Sink> + Send + Sync>;

/// What waits for a sink, and what it never got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sink {
    /// Name of the upstream.
    pub sink: String,
    /// Events that wait.
    pub waiting: u64,
    /// How long the oldest of them has waited; 0 if none waits.
    pub oldest_seconds: f64,
    /// Events given up because there was no room for newer ones.
    pub overtaken: u64,
    /// Events given up because nobody had taken them for a week.
    pub expired: u64,
}

/// Sinks of events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sinks {
    /// Each that there ever was an event for, by name.
    pub sinks: Vec<Sink>,
}
