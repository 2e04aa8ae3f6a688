//! OpenSearch or Kafka.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a sink is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// It is searched, and has backfills.
    OpenSearch,
    /// A topic.
    Kafka,
}

/// How a sink is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// OpenSearch: the sink has [requests](crate::Shipper::next_request).
    OpenSearch {
        /// Retention of indexes of completed transactions.
        keep_completed: Duration,
        /// Retention of indexes of failed and interrupted transactions.
        keep_failed: Duration,
        /// Old indexes are deleted every hour; otherwise by [`crate::Shipper::delete_old_indexes`]
        /// only, because one of several nodes does it.
        deletes_indexes: bool,
    },
    /// Kafka: the sink has [messages](crate::Shipper::next_messages).
    Kafka,
}

impl Destination {
    /// Its kind.
    #[must_use]
    pub fn kind(self) -> SinkKind {
        match self {
            Self::OpenSearch { .. } => SinkKind::OpenSearch,
            Self::Kafka => SinkKind::Kafka,
        }
    }
}
